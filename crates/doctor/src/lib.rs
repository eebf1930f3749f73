//! What on this machine stands in a router's way, and the command that mends it.
