//! The forwarding nodes, one file each.
#![allow(unsafe_code)]
