//! What differs between IPv4 and IPv6 in nodes that otherwise do the same: one trait, two types.

use parshall_buffer::{BufferIndex, Pool, PoolView};
use parshall_fib::{Addr, Adjacency, DpoKind, IpTables};

use crate::event::Event;
use crate::flow_hash::{flow_hash4, flow_hash6};
use crate::icmp_error::IcmpAsk;
use crate::state::{IfView, Shared};
use crate::tunnel::Tunnels;
use crate::tunnel_input::claim4;

/// An address family.
pub trait Family: Send + 'static {
    /// An address as a number.
    type Addr: Addr;
    /// An address in network byte order.
    type Bytes: Copy + PartialEq + Send + 'static;
    /// The object that says "look up in another table of this family".
    const LOOKUP: DpoKind;

    /// Destination of the packet at the current header.
    fn destination(pool: &Pool, b: BufferIndex) -> Self::Addr;
    /// Destination of the packet whose header is at offset `at`.
    fn destination_at(view: &PoolView<'_>, b: BufferIndex, at: u16) -> Self::Addr;
    /// Destination of the packet at the current header, in network byte order.
    fn destination_bytes(pool: &Pool, b: BufferIndex) -> Self::Bytes;
    /// The family's tables.
    fn tables(shared: &Shared) -> &IpTables<Self::Addr>;
    /// Index of an interface's table.
    fn table(view: &IfView) -> u32;
    /// Hash that keeps the packet's flow together.
    fn flow_hash(pool: &Pool, b: BufferIndex) -> u32;
    /// Next hop of an adjacency, when it is of this family.
    fn next_hop(adj: &Adjacency) -> Option<Self::Bytes>;
    /// "Somebody waits for this neighbour."
    fn wanted(if_index: u32, ip: Self::Bytes) -> Event;
    /// Whether a packet for the router is one that `tunnel-input` may have at once.
    fn is_tunnels(pool: &Pool, b: BufferIndex, tunnels: &Tunnels) -> bool;
    /// The errors for: no route, an unreachable route or neighbour, a prohibited route.
    fn errors() -> Errors;
}

/// ICMP errors that a lookup may ask for.
pub struct Errors {
    /// There is no route.
    pub no_route: IcmpAsk,
    /// The host cannot be reached.
    pub unreachable: IcmpAsk,
    /// The route is prohibited.
    pub prohibited: IcmpAsk,
}

/// IPv4.
pub struct Ip4;
/// IPv6.
pub struct Ip6;

impl Family for Ip4 {
    type Addr = u32;
    type Bytes = [u8; 4];
    const LOOKUP: DpoKind = DpoKind::LookupIp4;

    #[inline(always)]
    fn destination(pool: &Pool, b: BufferIndex) -> u32 {
        u32::from_be_bytes(Self::destination_bytes(pool, b))
    }
    #[inline(always)]
    fn destination_at(view: &PoolView<'_>, b: BufferIndex, at: u16) -> u32 {
        u32::from_be_bytes(*view.peek(b, at.wrapping_add(16)))
    }
    #[inline(always)]
    fn destination_bytes(pool: &Pool, b: BufferIndex) -> [u8; 4] {
        *pool.peek(b, 16)
    }
    fn tables(shared: &Shared) -> &IpTables<u32> {
        &shared.ip4
    }
    fn table(view: &IfView) -> u32 {
        view.ip4_table
    }
    fn flow_hash(pool: &Pool, b: BufferIndex) -> u32 {
        flow_hash4(pool, b)
    }
    fn next_hop(adj: &Adjacency) -> Option<[u8; 4]> {
        let ip = adj.next_hop().first_chunk()?;
        (!adj.next_hop_is_ip6()).then_some(*ip)
    }
    fn wanted(if_index: u32, ip: [u8; 4]) -> Event {
        Event::Wanted4 { if_index, ip }
    }
    fn is_tunnels(pool: &Pool, b: BufferIndex, tunnels: &Tunnels) -> bool {
        claim4(pool, b, tunnels)
    }
    fn errors() -> Errors {
        Errors {
            no_route: IcmpAsk::net_unreachable4(),
            unreachable: IcmpAsk::host_unreachable4(),
            prohibited: IcmpAsk::prohibited4(),
        }
    }
}

impl Family for Ip6 {
    type Addr = u128;
    type Bytes = [u8; 16];
    const LOOKUP: DpoKind = DpoKind::LookupIp6;

    #[inline(always)]
    fn destination(pool: &Pool, b: BufferIndex) -> u128 {
        u128::from_be_bytes(Self::destination_bytes(pool, b))
    }
    #[inline(always)]
    fn destination_at(view: &PoolView<'_>, b: BufferIndex, at: u16) -> u128 {
        u128::from_be_bytes(*view.peek(b, at.wrapping_add(24)))
    }
    #[inline(always)]
    fn destination_bytes(pool: &Pool, b: BufferIndex) -> [u8; 16] {
        *pool.peek(b, 24)
    }
    fn tables(shared: &Shared) -> &IpTables<u128> {
        &shared.ip6
    }
    fn table(view: &IfView) -> u32 {
        view.ip6_table
    }
    fn flow_hash(pool: &Pool, b: BufferIndex) -> u32 {
        flow_hash6(pool, b)
    }
    fn next_hop(adj: &Adjacency) -> Option<[u8; 16]> {
        adj.next_hop_is_ip6().then_some(*adj.next_hop())
    }
    fn wanted(if_index: u32, ip: [u8; 16]) -> Event {
        Event::Wanted6 { if_index, ip }
    }
    fn is_tunnels(_pool: &Pool, _b: BufferIndex, _tunnels: &Tunnels) -> bool {
        false
    }
    fn errors() -> Errors {
        Errors {
            no_route: IcmpAsk::no_route6(),
            unreachable: IcmpAsk::address_unreachable6(),
            prohibited: IcmpAsk::prohibited6(),
        }
    }
}
