//! IPv6 neighbour discovery (RFC 4861): solicitations, advertisements and their options.
//!
//! The codec sees the ICMPv6 message only. That the packet's hop limit was 255, without which
//! RFC 4861 wants it dropped, and that a solicitation from the unspecified address names no
//! source link-layer address, is for the caller to test, who has the IPv6 header.

use std::net::Ipv6Addr;

use crate::field::{array_at, put, put_u16, put_u32, u16_at, u32_at};
use crate::{Icmpv6Packet, Icmpv6Type, MacAddr, Result, WireError};

/// A neighbour discovery message is an ICMPv6 message; this is its view.
pub type Packet<T> = Icmpv6Packet<T>;

const SOLICIT_LEN: usize = 24;
const ROUTER_SOLICIT_LEN: usize = 8;
const ROUTER_ADVERT_LEN: usize = 16;
const LINK_LAYER_LEN: usize = 8;
const MTU_LEN: usize = 8;
const PREFIX_LEN: usize = 32;

mod option {
    pub const SOURCE_LINK_LAYER: u8 = 1;
    pub const TARGET_LINK_LAYER: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const MTU: u8 = 5;
}

/// A prefix on the link (RFC 4861 section 4.6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrefixInfo {
    /// The prefix; bits behind its length are ignored by receivers.
    pub prefix: Ipv6Addr,
    prefix_len: u8,
    /// Addresses of the prefix are on the link.
    pub on_link: bool,
    /// Hosts may make addresses from the prefix by themselves.
    pub autonomous: bool,
    /// Seconds the prefix is valid; all ones is for ever.
    pub valid_lifetime: u32,
    /// Seconds the addresses made from it are preferred; all ones is for ever.
    pub preferred_lifetime: u32,
}

impl PrefixInfo {
    /// A prefix on the link for ever, from which hosts may make addresses. `None` over 128 bits.
    pub const fn new(prefix: Ipv6Addr, prefix_len: u8) -> Option<PrefixInfo> {
        if prefix_len > 128 {
            return None;
        }
        Some(PrefixInfo {
            prefix,
            prefix_len,
            on_link: true,
            autonomous: true,
            valid_lifetime: u32::MAX,
            preferred_lifetime: u32::MAX,
        })
    }

    /// Bits of the prefix, 0 to 128.
    pub const fn prefix_len(&self) -> u8 {
        self.prefix_len
    }

    fn parse(data: &[u8]) -> Result<PrefixInfo> {
        if data.len() != PREFIX_LEN {
            return Err(WireError::BadLength);
        }
        let prefix = Ipv6Addr::from(array_at::<16>(data, 16));
        let info = PrefixInfo::new(prefix, data[2]).ok_or(WireError::Malformed)?;
        Ok(PrefixInfo {
            on_link: data[3] & 0x80 != 0,
            autonomous: data[3] & 0x40 != 0,
            valid_lifetime: u32_at(data, 4),
            preferred_lifetime: u32_at(data, 8),
            ..info
        })
    }

    fn emit(&self, data: &mut [u8]) {
        data[2] = self.prefix_len;
        data[3] = u8::from(self.on_link) << 7 | u8::from(self.autonomous) << 6;
        put_u32(data, 4, self.valid_lifetime);
        put_u32(data, 8, self.preferred_lifetime);
        put_u32(data, 12, 0);
        put(data, 16, &self.prefix.octets());
    }
}

/// One option of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NdOption<'a> {
    /// The sender's link-layer address.
    SourceLinkLayer(MacAddr),
    /// The target's link-layer address.
    TargetLinkLayer(MacAddr),
    /// A prefix on the link.
    Prefix(PrefixInfo),
    /// The link's MTU in bytes.
    Mtu(u32),
    /// Any other, to be ignored.
    Other {
        /// The option's type.
        kind: u8,
        /// All its bytes.
        data: &'a [u8],
    },
}

impl<'a> NdOption<'a> {
    fn parse(data: &'a [u8]) -> Result<NdOption<'a>> {
        match data[0] {
            option::SOURCE_LINK_LAYER if data.len() == LINK_LAYER_LEN => {
                Ok(NdOption::SourceLinkLayer(MacAddr(array_at(data, 2))))
            }
            option::TARGET_LINK_LAYER if data.len() == LINK_LAYER_LEN => {
                Ok(NdOption::TargetLinkLayer(MacAddr(array_at(data, 2))))
            }
            option::MTU if data.len() == MTU_LEN => Ok(NdOption::Mtu(u32_at(data, 4))),
            option::PREFIX => PrefixInfo::parse(data).map(NdOption::Prefix),
            option::SOURCE_LINK_LAYER | option::TARGET_LINK_LAYER | option::MTU => {
                Err(WireError::BadLength)
            }
            kind => Ok(NdOption::Other { kind, data }),
        }
    }
}

/// The options of a message. Ends after one error: `BadLength` for an option of length 0 (RFC
/// 4861 section 6.1: the packet is to be discarded) or of another length than its type has,
/// `Truncated` when an option is not all there.
#[derive(Debug, Clone)]
pub struct NdOptions<'a> {
    rest: &'a [u8],
}

impl<'a> NdOptions<'a> {
    /// The options of the message `data`; none for another type of message.
    pub fn of_message(data: &'a [u8]) -> NdOptions<'a> {
        let start = match data.first().map(|t| Icmpv6Type(*t)) {
            Some(Icmpv6Type::ROUTER_SOLICIT) => ROUTER_SOLICIT_LEN,
            Some(Icmpv6Type::ROUTER_ADVERT) => ROUTER_ADVERT_LEN,
            Some(Icmpv6Type::NEIGHBOR_SOLICIT | Icmpv6Type::NEIGHBOR_ADVERT) => SOLICIT_LEN,
            Some(Icmpv6Type::REDIRECT) => 40,
            _ => data.len(),
        };
        NdOptions {
            rest: data.get(start..).unwrap_or(&[]),
        }
    }

    fn step(&mut self) -> Result<NdOption<'a>> {
        let &[_, units, ..] = self.rest else {
            return Err(WireError::Truncated);
        };
        if units == 0 {
            return Err(WireError::BadLength);
        }
        let (data, rest) = self
            .rest
            .split_at_checked(usize::from(units) * 8)
            .ok_or(WireError::Truncated)?;
        self.rest = rest;
        NdOption::parse(data)
    }
}

impl<'a> Iterator for NdOptions<'a> {
    type Item = Result<NdOption<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.rest = &[];
        }
        Some(step)
    }
}

/// A neighbour discovery message. Of options that may come more than once the first is kept;
/// `NdOptions` has them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repr {
    /// "Routers, speak up."
    RouterSolicit {
        /// The asker's link-layer address.
        source_ll: Option<MacAddr>,
    },
    /// A router describes itself and the link.
    RouterAdvert {
        /// Hop limit for hosts; 0 says nothing.
        hop_limit: u8,
        /// Addresses are to be had by DHCPv6.
        managed: bool,
        /// Other settings are to be had by DHCPv6.
        other: bool,
        /// Seconds this router may be a default router; 0 is "not".
        lifetime: u16,
        /// Milliseconds a neighbour is reachable after a confirmation; 0 says nothing.
        reachable_ms: u32,
        /// Milliseconds between solicitations; 0 says nothing.
        retrans_ms: u32,
        /// The router's link-layer address.
        source_ll: Option<MacAddr>,
        /// The link's MTU in bytes.
        mtu: Option<u32>,
        /// A prefix on the link.
        prefix: Option<PrefixInfo>,
    },
    /// "Who has the target address?"
    NeighborSolicit {
        /// The address asked for.
        target: Ipv6Addr,
        /// The asker's link-layer address; none when it tests for duplicates.
        source_ll: Option<MacAddr>,
    },
    /// "I have the target address."
    NeighborAdvert {
        /// The sender is a router.
        router: bool,
        /// This answers a solicitation.
        solicited: bool,
        /// A link-layer address known before is to be replaced.
        override_ll: bool,
        /// The address spoken for.
        target: Ipv6Addr,
        /// Its link-layer address.
        target_ll: Option<MacAddr>,
    },
}

/// The options a `Repr` keeps.
#[derive(Default)]
struct Kept {
    source_ll: Option<MacAddr>,
    target_ll: Option<MacAddr>,
    mtu: Option<u32>,
    prefix: Option<PrefixInfo>,
}

impl Kept {
    fn collect(options: NdOptions<'_>) -> Result<Kept> {
        let mut kept = Kept::default();
        for option in options {
            match option? {
                NdOption::SourceLinkLayer(mac) => _ = kept.source_ll.get_or_insert(mac),
                NdOption::TargetLinkLayer(mac) => _ = kept.target_ll.get_or_insert(mac),
                NdOption::Mtu(mtu) => _ = kept.mtu.get_or_insert(mtu),
                NdOption::Prefix(prefix) => _ = kept.prefix.get_or_insert(prefix),
                NdOption::Other { .. } => {}
            }
        }
        Ok(kept)
    }
}

impl Repr {
    /// Reads a message that came from `src` to `dst`.
    ///
    /// # Errors
    /// `Truncated`, `BadChecksum`; `BadLength` for an option of a wrong length; `Malformed` for a
    /// code other than 0, a target that is a group, or a solicited advertisement to a group;
    /// `Unsupported` for other types.
    pub fn parse<T: AsRef<[u8]>>(
        src: &Ipv6Addr,
        dst: &Ipv6Addr,
        packet: &Packet<T>,
    ) -> Result<Repr> {
        let data = packet.as_bytes();
        let msg_type = Icmpv6Type(*data.first().ok_or(WireError::Truncated)?);
        let fixed = match msg_type {
            Icmpv6Type::ROUTER_SOLICIT => ROUTER_SOLICIT_LEN,
            Icmpv6Type::ROUTER_ADVERT => ROUTER_ADVERT_LEN,
            Icmpv6Type::NEIGHBOR_SOLICIT | Icmpv6Type::NEIGHBOR_ADVERT => SOLICIT_LEN,
            _ => return Err(WireError::Unsupported),
        };
        if data.len() < fixed {
            return Err(WireError::Truncated);
        }
        if !packet.verify_checksum(src, dst) {
            return Err(WireError::BadChecksum);
        }
        if packet.code() != 0 {
            return Err(WireError::Malformed);
        }
        let kept = Kept::collect(NdOptions::of_message(data))?;
        match msg_type {
            Icmpv6Type::ROUTER_SOLICIT => Ok(Repr::RouterSolicit {
                source_ll: kept.source_ll,
            }),
            Icmpv6Type::ROUTER_ADVERT => Ok(Self::router_advert(data, &kept)),
            _ => Self::neighbor(msg_type, dst, data, &kept),
        }
    }

    fn router_advert(data: &[u8], kept: &Kept) -> Repr {
        Repr::RouterAdvert {
            hop_limit: data[4],
            managed: data[5] & 0x80 != 0,
            other: data[5] & 0x40 != 0,
            lifetime: u16_at(data, 6),
            reachable_ms: u32_at(data, 8),
            retrans_ms: u32_at(data, 12),
            source_ll: kept.source_ll,
            mtu: kept.mtu,
            prefix: kept.prefix,
        }
    }

    fn neighbor(msg_type: Icmpv6Type, dst: &Ipv6Addr, data: &[u8], kept: &Kept) -> Result<Repr> {
        let target = Ipv6Addr::from(array_at::<16>(data, 8));
        if target.is_multicast() {
            return Err(WireError::Malformed);
        }
        if msg_type == Icmpv6Type::NEIGHBOR_SOLICIT {
            return Ok(Repr::NeighborSolicit {
                target,
                source_ll: kept.source_ll,
            });
        }
        let solicited = data[4] & 0x40 != 0;
        if solicited && dst.is_multicast() {
            return Err(WireError::Malformed);
        }
        Ok(Repr::NeighborAdvert {
            router: data[4] & 0x80 != 0,
            solicited,
            override_ll: data[4] & 0x20 != 0,
            target,
            target_ll: kept.target_ll,
        })
    }

    /// Bytes that `emit` writes.
    pub fn buffer_len(&self) -> usize {
        let link_layer = |mac: &Option<MacAddr>| mac.map_or(0, |_| LINK_LAYER_LEN);
        match self {
            Repr::RouterSolicit { source_ll } => ROUTER_SOLICIT_LEN + link_layer(source_ll),
            Repr::RouterAdvert {
                source_ll,
                mtu,
                prefix,
                ..
            } => {
                ROUTER_ADVERT_LEN
                    + link_layer(source_ll)
                    + mtu.map_or(0, |_| MTU_LEN)
                    + prefix.map_or(0, |_| PREFIX_LEN)
            }
            Repr::NeighborSolicit { source_ll, .. } => SOLICIT_LEN + link_layer(source_ll),
            Repr::NeighborAdvert { target_ll, .. } => SOLICIT_LEN + link_layer(target_ll),
        }
    }

    /// Writes the message with its checksum between `src` and `dst`. The buffer must be of just
    /// `buffer_len` bytes, for the checksum covers all of it.
    ///
    /// # Errors
    /// `Truncated` or `BadLength` if the buffer is shorter or longer than `buffer_len`;
    /// `Malformed` for a target that is a group.
    pub fn emit<T: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        src: &Ipv6Addr,
        dst: &Ipv6Addr,
        packet: &mut Packet<T>,
    ) -> Result<()> {
        let len = packet.as_bytes().len();
        if len < self.buffer_len() {
            return Err(WireError::Truncated);
        }
        if len > self.buffer_len() {
            return Err(WireError::BadLength);
        }
        if let Repr::NeighborSolicit { target, .. } | Repr::NeighborAdvert { target, .. } = self
            && target.is_multicast()
        {
            return Err(WireError::Malformed);
        }
        packet.set_code(0);
        self.emit_fields(packet.as_bytes_mut());
        packet.fill_checksum(src, dst);
        Ok(())
    }

    /// Writes all but code and checksum; `data` is of `buffer_len` bytes.
    fn emit_fields(&self, data: &mut [u8]) {
        match self {
            Repr::RouterSolicit { source_ll } => {
                data[0] = Icmpv6Type::ROUTER_SOLICIT.0;
                put_u32(data, 4, 0);
                emit_link_layer(
                    data,
                    ROUTER_SOLICIT_LEN,
                    option::SOURCE_LINK_LAYER,
                    source_ll,
                );
            }
            Repr::RouterAdvert { .. } => self.emit_router_advert(data),
            Repr::NeighborSolicit { target, source_ll } => {
                data[0] = Icmpv6Type::NEIGHBOR_SOLICIT.0;
                put_u32(data, 4, 0);
                put(data, 8, &target.octets());
                emit_link_layer(data, SOLICIT_LEN, option::SOURCE_LINK_LAYER, source_ll);
            }
            Repr::NeighborAdvert {
                router,
                solicited,
                override_ll,
                target,
                target_ll,
            } => {
                data[0] = Icmpv6Type::NEIGHBOR_ADVERT.0;
                put_u32(data, 4, 0);
                data[4] = u8::from(*router) << 7
                    | u8::from(*solicited) << 6
                    | u8::from(*override_ll) << 5;
                put(data, 8, &target.octets());
                emit_link_layer(data, SOLICIT_LEN, option::TARGET_LINK_LAYER, target_ll);
            }
        }
    }

    fn emit_router_advert(&self, data: &mut [u8]) {
        let Repr::RouterAdvert {
            hop_limit,
            managed,
            other,
            lifetime,
            reachable_ms,
            retrans_ms,
            source_ll,
            mtu,
            prefix,
        } = self
        else {
            return;
        };
        data[0] = Icmpv6Type::ROUTER_ADVERT.0;
        data[4] = *hop_limit;
        data[5] = u8::from(*managed) << 7 | u8::from(*other) << 6;
        put_u16(data, 6, *lifetime);
        put_u32(data, 8, *reachable_ms);
        put_u32(data, 12, *retrans_ms);
        let mut at = emit_link_layer(
            data,
            ROUTER_ADVERT_LEN,
            option::SOURCE_LINK_LAYER,
            source_ll,
        );
        if let Some(mtu) = mtu {
            put(data, at, &[option::MTU, 1, 0, 0]);
            put_u32(data, at + 4, *mtu);
            at += MTU_LEN;
        }
        if let Some(prefix) = prefix {
            put(data, at, &[option::PREFIX, 4]);
            prefix.emit(&mut data[at..at + PREFIX_LEN]);
        }
    }
}

/// Writes a link-layer option, if there is an address, and says where the next one goes.
fn emit_link_layer(data: &mut [u8], at: usize, kind: u8, mac: &Option<MacAddr>) -> usize {
    let Some(mac) = mac else {
        return at;
    };
    put(data, at, &[kind, 1]);
    put(data, at + 2, &mac.0);
    at + LINK_LAYER_LEN
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SRC: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const DST: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    const MAC: MacAddr = MacAddr([2, 0xfe, 0, 0, 0, 1]);

    // Neighbour advertisement for fe80::1: router, solicited, override; link-layer address.
    const ADVERT: [u8; 32] = [
        0x88, 0x00, 0x97, 0x1d, 0xe0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0x01, 2, 1, 0x02, 0xfe, 0, 0, 0, 0x01,
    ];
    // Router advertisement: hop limit 64, managed, 1800 s; link-layer address, MTU 1500,
    // 2001:db8::/64.
    const ROUTER: [u8; 64] = [
        0x86, 0x00, 0xb0, 0xb5, 0x40, 0x80, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0x03, 0xe8, 1, 1, 0x02,
        0xfe, 0, 0, 0, 0x01, 5, 1, 0, 0, 0, 0, 0x05, 0xdc, 3, 4, 64, 0xc0, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0,
    ];

    fn advert() -> Repr {
        Repr::NeighborAdvert {
            router: true,
            solicited: true,
            override_ll: true,
            target: SRC,
            target_ll: Some(MAC),
        }
    }

    fn router() -> Repr {
        Repr::RouterAdvert {
            hop_limit: 64,
            managed: true,
            other: false,
            lifetime: 1800,
            reachable_ms: 0,
            retrans_ms: 1000,
            source_ll: Some(MAC),
            mtu: Some(1500),
            prefix: PrefixInfo::new("2001:db8::".parse().unwrap(), 64),
        }
    }

    fn parse(bytes: &[u8]) -> Result<Repr> {
        Repr::parse(&SRC, &DST, &Packet::new_unchecked(bytes))
    }

    /// `bytes` changed and with its checksum made right again.
    fn changed(bytes: &[u8], at: usize, value: u8) -> Vec<u8> {
        let mut packet = Packet::new_unchecked(bytes.to_vec());
        packet.as_bytes_mut()[at] = value;
        packet.fill_checksum(&SRC, &DST);
        packet.into_inner()
    }

    #[test]
    fn parses_golden() {
        assert_eq!(parse(&ADVERT), Ok(advert()));
        assert_eq!(parse(&ROUTER), Ok(router()));
    }

    #[test]
    fn emits_golden() {
        for (repr, golden) in [(advert(), &ADVERT[..]), (router(), &ROUTER[..])] {
            let mut packet = Packet::new_unchecked(vec![0xff; repr.buffer_len()]);
            repr.emit(&SRC, &DST, &mut packet).unwrap();
            assert_eq!(packet.into_inner(), golden);
        }
    }

    #[test]
    fn refuses_cut_broken_and_foreign() {
        assert_eq!(parse(&[]), Err(WireError::Truncated));
        assert_eq!(parse(&ADVERT[..23]), Err(WireError::Truncated));
        assert_eq!(
            parse(&changed(&ADVERT[..31], 0, 136)),
            Err(WireError::Truncated)
        );
        assert_eq!(
            parse(&changed(&ADVERT, 0, 128)),
            Err(WireError::Unsupported)
        );
        assert_eq!(parse(&changed(&ADVERT, 1, 1)), Err(WireError::Malformed));
        assert_eq!(parse(&changed(&ADVERT, 8, 0xff)), Err(WireError::Malformed));
        let mut broken = ADVERT;
        broken[31] ^= 1;
        assert_eq!(parse(&broken), Err(WireError::BadChecksum));
        let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let mut packet = Packet::new_unchecked(ADVERT);
        packet.fill_checksum(&SRC, &group);
        assert_eq!(
            Repr::parse(&SRC, &group, &packet),
            Err(WireError::Malformed)
        );
    }

    #[test]
    fn refuses_options_of_wrong_length() {
        assert_eq!(parse(&changed(&ADVERT, 25, 0)), Err(WireError::BadLength));
        assert_eq!(parse(&changed(&ADVERT, 25, 2)), Err(WireError::Truncated));
        assert_eq!(parse(&changed(&ROUTER, 17, 2)), Err(WireError::BadLength));
        assert_eq!(parse(&changed(&ROUTER, 24, 3)), Err(WireError::BadLength));
        assert_eq!(parse(&changed(&ROUTER, 34, 129)), Err(WireError::Malformed));
        assert_eq!(PrefixInfo::new(SRC, 129), None);
    }

    #[test]
    fn unknown_options_are_skipped_and_the_first_of_a_kind_kept() {
        let mut bytes = ADVERT.to_vec();
        bytes[24] = 200;
        bytes.extend([2, 1, 9, 9, 9, 9, 9, 9, 2, 1, 7, 7, 7, 7, 7, 7]);
        let Ok(Repr::NeighborAdvert { target_ll, .. }) = parse(&changed(&bytes, 24, 200)) else {
            panic!("an advertisement");
        };
        assert_eq!(target_ll, Some(MacAddr([9; 6])));
        assert_eq!(NdOptions::of_message(&bytes).count(), 3);
    }

    #[test]
    fn emit_refuses_other_lengths_and_group_targets() {
        let emit = |repr: Repr, len: usize| {
            repr.emit(&SRC, &DST, &mut Packet::new_unchecked(vec![0; len]))
        };
        assert_eq!(emit(advert(), 31), Err(WireError::Truncated));
        assert_eq!(emit(advert(), 33), Err(WireError::BadLength));
        let target = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
        let solicit = Repr::NeighborSolicit {
            target,
            source_ll: None,
        };
        assert_eq!(emit(solicit, 24), Err(WireError::Malformed));
    }

    prop_compose! {
        fn any_prefix()(
            prefix: [u8; 16], len in 0u8..=128, on_link: bool, autonomous: bool,
            valid_lifetime: u32, preferred_lifetime: u32,
        ) -> PrefixInfo {
            let info = PrefixInfo::new(prefix.into(), len).unwrap();
            PrefixInfo { on_link, autonomous, valid_lifetime, preferred_lifetime, ..info }
        }
    }

    fn any_router_advert() -> impl Strategy<Value = Repr> {
        let fixed = any::<(u8, bool, bool, u16, u32, u32)>();
        let mac = proptest::option::of(any::<[u8; 6]>().prop_map(MacAddr));
        let prefix = proptest::option::of(any_prefix());
        (fixed, mac, any::<Option<u32>>(), prefix).prop_map(|(fixed, source_ll, mtu, prefix)| {
            let (hop_limit, managed, other, lifetime, reachable_ms, retrans_ms) = fixed;
            Repr::RouterAdvert {
                hop_limit,
                managed,
                other,
                lifetime,
                reachable_ms,
                retrans_ms,
                source_ll,
                mtu,
                prefix,
            }
        })
    }

    fn any_repr() -> impl Strategy<Value = Repr> {
        let mac = || proptest::option::of(any::<[u8; 6]>().prop_map(MacAddr));
        let target = || {
            any::<[u8; 16]>().prop_map(|mut octets| {
                octets[0] &= 0x7f;
                Ipv6Addr::from(octets)
            })
        };
        prop_oneof![
            mac().prop_map(|source_ll| Repr::RouterSolicit { source_ll }),
            (target(), mac())
                .prop_map(|(target, source_ll)| Repr::NeighborSolicit { target, source_ll }),
            (any::<[bool; 3]>(), target(), mac()).prop_map(|(flags, target, target_ll)| {
                let [router, solicited, override_ll] = flags;
                Repr::NeighborAdvert {
                    router,
                    solicited,
                    override_ll,
                    target,
                    target_ll,
                }
            }),
            any_router_advert(),
        ]
    }

    proptest! {
        #[test]
        fn round_trips(repr in any_repr()) {
            let mut packet = Packet::new_unchecked(vec![0xa5; repr.buffer_len()]);
            repr.emit(&SRC, &DST, &mut packet).unwrap();
            prop_assert_eq!(Repr::parse(&SRC, &DST, &packet), Ok(repr));
        }

        #[test]
        fn any_bytes_are_answered(
            msg_type in 132u8..139,
            mut bytes in proptest::collection::vec(
                prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 64, 255]),
                8..120,
            ),
        ) {
            bytes[0] = msg_type;
            bytes[1] = 0;
            let mut packet = Packet::new_unchecked(bytes);
            packet.fill_checksum(&SRC, &DST);
            let _ = Repr::parse(&SRC, &DST, &packet);
            prop_assert!(NdOptions::of_message(packet.as_bytes()).count() <= 15);
        }
    }
}
