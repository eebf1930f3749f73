//! The IPv4 forwarding table: longest-prefix match over 32 bits (RFC 1812, 5.2.4.3).
//!
//! With the root at 16 bits, a /24 is found in one node, a host route in two.

use crate::lpm::Lpm;

/// An IPv4 table; addresses are `u32` in host order.
pub type Ip4Fib = Lpm<u32>;
