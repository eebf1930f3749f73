//! The IPv6 forwarding table: longest-prefix match over 128 bits (RFC 8200, RFC 4291).

use crate::lpm::Lpm;

/// An IPv6 table; addresses are `u128` in host order.
pub type Ip6Fib = Lpm<u128>;
