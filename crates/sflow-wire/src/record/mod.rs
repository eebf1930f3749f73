//! Every flow and counter record as a typed structure.
//!
//! The structures are declared in the family files by the `records!` macro of [`field`]: fields in wire order, each with the name
//! printers show. From the one declaration come the struct, its encoder, its decoder and the [`field::Layout`] that printers walk.
//! The two enums here assign the tags. To add a record: declare it in its family file, add one line below.

pub mod app;
pub mod counter;
pub mod fabric;
pub mod field;
pub mod flow;
pub mod host;
mod list;
pub mod wireless;

#[cfg(test)]
pub(crate) mod arbitrary;

pub use app::*;
pub use counter::*;
pub use fabric::*;
pub use field::{Framed, List, Mac, Percent, PortStates, Text, Uuid};
pub use flow::*;
pub use host::*;
pub use wireless::*;

use self::field::{Field, Layout, read_body};
use crate::types::Tag;
use crate::xdr::{Result, put_u32};

/// How a record is known.
#[derive(Debug, Clone, Copy)]
pub struct RecordInfo {
    /// Its fields.
    pub layout: Layout,
    /// Whether sflowtool 6.11 decodes it; the byte-compatible printers skip it if not.
    pub classic: bool,
}

macro_rules! record_set {
    (
        $(#[$emeta:meta])*
        $set:ident {
            $( $(#[$meta:meta])* $variant:ident($ty:ident $(<$lt:lifetime>)?) = $ent:literal:$fmt:literal $origin:ident; )*
        }
    ) => {
        $(#[$emeta])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub enum $set<'a> {
            $( $(#[$meta])* $variant($ty $(<$lt>)?), )*
            /// A record of another tag, as it came.
            Unknown {
                /// Its tag.
                tag: Tag,
                /// Its bytes, padding not included.
                body: &'a [u8],
            },
        }

        impl<'a> $set<'a> {
            /// The tags that have a typed form.
            pub const TAGS: &'static [Tag] = &[ $( Tag::new($ent, $fmt), )* ];

            /// Decodes the body of a record. `base` is its offset in the datagram, for error messages.
            pub fn decode(tag: Tag, body: &'a [u8], base: usize) -> Result<Self> {
                match (tag.enterprise(), tag.format()) {
                    $( ($ent, $fmt) => read_body(body, base).map($set::$variant), )*
                    _ => Ok($set::Unknown { tag, body }),
                }
            }

            /// The tag that the record is sent with.
            pub const fn tag(&self) -> Tag {
                match self {
                    $( $set::$variant(_) => Tag::new($ent, $fmt), )*
                    $set::Unknown { tag, .. } => *tag,
                }
            }

            /// Appends the body alone.
            #[inline]
            pub fn write_body(&self, out: &mut Vec<u8>) {
                match self {
                    $( $set::$variant(r) => r.write(out), )*
                    $set::Unknown { body, .. } => crate::xdr::put_padded(out, body),
                }
            }

            /// Appends tag, length and body.
            #[inline]
            pub fn write(&self, out: &mut Vec<u8>) {
                put_u32(out, self.tag().0);
                let at = out.len();
                put_u32(out, 0);
                self.write_body(out);
                patch_length(out, at);
            }

            /// What the printers know about a tag.
            pub const fn info(tag: Tag) -> Option<&'static RecordInfo> {
                match (tag.enterprise(), tag.format()) {
                    $( ($ent, $fmt) => {
                        const INFO: RecordInfo = RecordInfo {
                            layout: $ty::LAYOUT,
                            classic: record_set!(@$origin),
                        };
                        Some(&INFO)
                    } )*
                    _ => None,
                }
            }

            /// A made-up record of each tag.
            #[cfg(test)]
            pub(crate) fn arbitrary_of_each(g: &mut arbitrary::Gen) -> Vec<$set<'static>> {
                vec![ $( $set::$variant(arbitrary::Arbitrary::arbitrary(g)), )* ]
            }
        }
    };
    (@classic) => { true };
    (@extra) => { false };
}

/// Writes into the four bytes at `at` how many bytes follow them.
#[inline]
pub(crate) fn patch_length(out: &mut [u8], at: usize) {
    let len = out.len().saturating_sub(at + 4);
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    if let Some(word) = out.get_mut(at..at + 4) {
        word.copy_from_slice(&len.to_be_bytes());
    }
}

record_set! {
    /// A record of a flow sample or a discarded packet sample.
    ///
    /// The last word of each line below says whether sflowtool 6.11 decodes the record (`classic`) or not (`extra`).
    FlowRecord {
        /// First bytes of the packet.
        RawHeader(RawHeader<'a>) = 0:1 classic;
        /// Ethernet fields.
        Ethernet(SampledEthernet) = 0:2 classic;
        /// IPv4 fields.
        Ipv4(SampledIpv4) = 0:3 classic;
        /// IPv6 fields.
        Ipv6(SampledIpv6) = 0:4 classic;
        /// VLANs.
        Switch(ExtendedSwitch) = 0:1001 classic;
        /// Route.
        Router(ExtendedRouter) = 0:1002 classic;
        /// BGP route.
        Gateway(ExtendedGateway<'a>) = 0:1003 classic;
        /// Users.
        User(ExtendedUser<'a>) = 0:1004 classic;
        /// URL.
        Url(ExtendedUrl<'a>) = 0:1005 classic;
        /// MPLS labels.
        Mpls(ExtendedMpls<'a>) = 0:1006 classic;
        /// Translated addresses.
        Nat(ExtendedNat) = 0:1007 classic;
        /// MPLS tunnel.
        MplsTunnel(ExtendedMplsTunnel<'a>) = 0:1008 classic;
        /// MPLS virtual circuit.
        MplsVc(ExtendedMplsVc<'a>) = 0:1009 classic;
        /// MPLS equivalence class.
        MplsFtn(ExtendedMplsFtn<'a>) = 0:1010 classic;
        /// MPLS LDP equivalence class.
        MplsLdpFec(ExtendedMplsLdpFec) = 0:1011 classic;
        /// Outer VLAN tags.
        VlanTunnel(ExtendedVlanTunnel<'a>) = 0:1012 classic;
        /// 802.11 payload.
        WifiPayload(WifiPayload<'a>) = 0:1013 classic;
        /// 802.11 reception.
        WifiRx(WifiRx<'a>) = 0:1014 classic;
        /// 802.11 transmission.
        WifiTx(WifiTx<'a>) = 0:1015 classic;
        /// 802.11 frames sent as one.
        WifiAggregation(WifiAggregation<'a>) = 0:1016 extra;
        /// OpenFlow 1.0.
        OpenflowV1(ExtendedOpenflowV1) = 0:1017 extra;
        /// Fibre Channel route.
        Fc(ExtendedFc) = 0:1018 extra;
        /// Length of the egress queue.
        QueueLength(QueueLength) = 0:1019 extra;
        /// Translated ports.
        NatPort(ExtendedNatPort) = 0:1020 classic;
        /// Ethernet fields of the egress tunnel.
        L2TunnelEgress(SampledEthernet) = 0:1021 classic;
        /// Ethernet fields of the ingress tunnel.
        L2TunnelIngress(SampledEthernet) = 0:1022 classic;
        /// IPv4 fields of the egress tunnel.
        Ipv4TunnelEgress(SampledIpv4) = 0:1023 classic;
        /// IPv4 fields of the ingress tunnel.
        Ipv4TunnelIngress(SampledIpv4) = 0:1024 classic;
        /// IPv6 fields of the egress tunnel.
        Ipv6TunnelEgress(SampledIpv6) = 0:1025 classic;
        /// IPv6 fields of the ingress tunnel.
        Ipv6TunnelIngress(SampledIpv6) = 0:1026 classic;
        /// Inner header, egress.
        DecapsulateEgress(DecapsulateEgress) = 0:1027 classic;
        /// Inner header, ingress.
        DecapsulateIngress(DecapsulateIngress) = 0:1028 classic;
        /// Virtual network, egress.
        VniEgress(VniEgress) = 0:1029 classic;
        /// Virtual network, ingress.
        VniIngress(VniIngress) = 0:1030 classic;
        /// InfiniBand local routing headers.
        IbLrh(IbLrh) = 0:1031 extra;
        /// InfiniBand global routing header.
        IbGrh(IbGrh) = 0:1032 extra;
        /// InfiniBand base transport header.
        IbBth(IbBth) = 0:1033 extra;
        /// VLAN tags received.
        VlanIn(ExtendedVlanIn<'a>) = 0:1034 extra;
        /// VLAN tags sent.
        VlanOut(ExtendedVlanOut<'a>) = 0:1035 extra;
        /// Egress queue.
        EgressQueue(EgressQueue) = 0:1036 classic;
        /// Access list.
        Acl(ExtendedAcl<'a>) = 0:1037 extra;
        /// Code location of the drop.
        Function(ExtendedFunction<'a>) = 0:1038 classic;
        /// Time in the device.
        TransitDelay(TransitDelay) = 0:1039 classic;
        /// Depth of the egress queue.
        QueueDepth(QueueDepth) = 0:1040 classic;
        /// Hardware trap.
        HardwareTrap(HardwareTrap<'a>) = 0:1041 classic;
        /// Drop reason of the Linux kernel.
        LinuxDropReason(LinuxDropReason<'a>) = 0:1042 classic;
        /// Time of the packet.
        Timestamp(Timestamp) = 0:1043 classic;
        /// IPv4 socket.
        Socket4(Socket4) = 0:2100 classic;
        /// IPv6 socket.
        Socket6(Socket6) = 0:2101 classic;
        /// IPv4 socket behind a proxy.
        ProxySocket4(ProxySocket4) = 0:2102 classic;
        /// IPv6 socket behind a proxy.
        ProxySocket6(ProxySocket6) = 0:2103 classic;
        /// Memcache operation.
        Memcache(MemcacheOperation<'a>) = 0:2200 classic;
        /// HTTP request, first form.
        HttpOld(HttpRequestOld<'a>) = 0:2201 classic;
        /// Application operation.
        AppOperation(AppOperation<'a>) = 0:2202 classic;
        /// Enclosing operation.
        AppContext(AppContext<'a>) = 0:2203 classic;
        /// Initiator of the operation.
        AppInitiator(AppInitiator<'a>) = 0:2204 classic;
        /// Target of the operation.
        AppTarget(AppTarget<'a>) = 0:2205 classic;
        /// HTTP request.
        Http(HttpRequest<'a>) = 0:2206 classic;
        /// HTTP request of a proxy to the server.
        HttpProxy(HttpRequest<'a>) = 0:2207 extra;
        /// TCP state.
        TcpInfo(TcpInfo) = 0:2209 classic;
        /// Entities at both ends.
        Entities(Entities) = 0:2210 classic;
        /// Broadcom egress queue.
        BstEgressQueue(BstEgressQueue) = 4413:1 extra;
    }
}

record_set! {
    /// A record of a counter sample.
    ///
    /// The last word of each line below says whether sflowtool 6.11 decodes the record (`classic`) or not (`extra`).
    CounterRecord {
        /// Generic interface counters.
        Interface(IfCounters) = 0:1 classic;
        /// Ethernet counters.
        Ethernet(EthernetCounters) = 0:2 classic;
        /// Token ring counters.
        TokenRing(TokenRingCounters) = 0:3 classic;
        /// 100VG-AnyLAN counters.
        Vg(VgCounters) = 0:4 classic;
        /// VLAN counters.
        Vlan(VlanCounters) = 0:5 classic;
        /// 802.11 counters.
        Wifi(WifiCounters) = 0:6 classic;
        /// Link aggregation.
        LagPort(LagPort) = 0:7 classic;
        /// Slow path.
        SlowPath(SlowPathCounters) = 0:8 extra;
        /// Optical module.
        Sfp(Sfp<'a>) = 0:10 classic;
        /// Priority flow control.
        Pfc(Pfc) = 0:11 classic;
        /// Processor.
        Processor(Processor) = 0:1001 classic;
        /// Radio channel.
        Radio(RadioUtilization) = 0:1002 classic;
        /// OpenFlow port.
        OpenflowPort(OpenflowPort) = 0:1004 classic;
        /// Name of the interface.
        PortName(PortName<'a>) = 0:1005 classic;
        /// Who the host is.
        HostDescr(HostDescr<'a>) = 0:2000 classic;
        /// Network adapters.
        HostAdapters(HostAdapters<'a>) = 0:2001 classic;
        /// Host of a guest.
        HostParent(HostParent) = 0:2002 classic;
        /// Processors.
        HostCpu(HostCpu) = 0:2003 classic;
        /// Memory.
        HostMemory(HostMemory) = 0:2004 classic;
        /// Disks.
        HostDisk(HostDisk) = 0:2005 classic;
        /// Network totals.
        HostNetIo(HostNetIo) = 0:2006 classic;
        /// IP counters.
        HostIp(HostIp) = 0:2007 classic;
        /// ICMP counters.
        HostIcmp(HostIcmp) = 0:2008 classic;
        /// TCP counters.
        HostTcp(HostTcp) = 0:2009 classic;
        /// UDP counters.
        HostUdp(HostUdp) = 0:2010 classic;
        /// Hypervisor.
        VirtNode(VirtNode) = 0:2100 classic;
        /// Guest processors.
        VirtCpu(VirtCpu) = 0:2101 classic;
        /// Guest memory.
        VirtMemory(VirtMemory) = 0:2102 classic;
        /// Guest disks.
        VirtDisk(VirtDisk) = 0:2103 classic;
        /// Guest network totals.
        VirtNetIo(VirtNetIo) = 0:2104 classic;
        /// Java virtual machine.
        JvmRuntime(JvmRuntime<'a>) = 0:2105 classic;
        /// Java statistics.
        JvmStatistics(JvmStatistics) = 0:2106 classic;
        /// Memcache server, first form.
        MemcacheOld(MemcacheCountersOld) = 0:2200 classic;
        /// HTTP server.
        Http(HttpCounters) = 0:2201 classic;
        /// Application operations.
        AppOperations(AppOperations<'a>) = 0:2202 classic;
        /// Application resources.
        AppResources(AppResources) = 0:2203 classic;
        /// Memcache server.
        Memcache(MemcacheCounters) = 0:2204 classic;
        /// Virtual desktops.
        Vdi(Vdi) = 0:2205 classic;
        /// Application workers.
        AppWorkers(AppWorkers) = 0:2206 classic;
        /// Open vSwitch datapath.
        OvsDatapath(OvsDatapath) = 0:2207 classic;
        /// Broadcom buffers of the device.
        BstDeviceBuffers(BstDeviceBuffers) = 4413:1 extra;
        /// Broadcom buffers of the port.
        BstPortBuffers(BstPortBuffers<'a>) = 4413:2 extra;
        /// Broadcom tables.
        BcmTables(BcmTables) = 4413:3 classic;
        /// Graphics processors.
        Nvml(Nvml) = 5703:1 classic;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes that section 5.4 of the document and the later structures give for the fixed-size records.
    const SIZES: &[(u32, usize)] = &[
        (1, 88),
        (2, 52),
        (3, 72),
        (4, 80),
        (5, 28),
        (6, 80),
        (7, 56),
        (8, 24),
        (11, 20),
        (1001, 28),
        (1002, 12),
        (1004, 12),
        (2002, 8),
        (2003, 68),
        (2004, 72),
        (2005, 52),
        (2006, 40),
        (2007, 76),
        (2008, 100),
        (2009, 60),
        (2010, 28),
        (2100, 28),
        (2101, 12),
        (2102, 16),
        (2103, 52),
        (2104, 40),
        (2106, 100),
        (2203, 40),
        (2206, 20),
        (2207, 24),
    ];

    #[test]
    fn fixed_sizes_match_the_documents() {
        let zeros = [0u8; 256];
        for &(format, size) in SIZES {
            let tag = Tag::new(0, format);
            let body = &zeros[..size];
            let r = CounterRecord::decode(tag, body, 0).unwrap();
            let mut out = Vec::new();
            r.write_body(&mut out);
            assert_eq!(out, body, "{tag}");
            assert!(CounterRecord::decode(tag, &zeros[..size - 4], 0).is_err());
        }
    }

    #[test]
    fn raw_header_bytes() {
        let r = FlowRecord::RawHeader(RawHeader {
            protocol: 1,
            frame_length: 64,
            stripped: 4,
            header: &[1, 2, 3, 4, 5],
        });
        let mut out = Vec::new();
        r.write(&mut out);
        assert_eq!(
            out,
            [
                0, 0, 0, 1, 0, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 64, 0, 0, 0, 4, 0, 0, 0, 5, 1, 2, 3,
                4, 5, 0, 0, 0
            ]
        );
    }

    #[test]
    fn host_cpu_has_an_optional_tail() {
        let body = [0u8; 80];
        let CounterRecord::HostCpu(long) =
            CounterRecord::decode(Tag::new(0, 2003), &body, 0).unwrap()
        else {
            panic!("not a host cpu record")
        };
        assert!(long.guest.is_some());
        let CounterRecord::HostCpu(short) =
            CounterRecord::decode(Tag::new(0, 2003), &body[..68], 0).unwrap()
        else {
            panic!("not a host cpu record")
        };
        assert!(short.guest.is_none());
    }

    #[test]
    fn tags_are_distinct() {
        for tags in [FlowRecord::TAGS, CounterRecord::TAGS] {
            let mut sorted = tags.to_vec();
            sorted.sort();
            sorted.dedup();
            assert_eq!(sorted.len(), tags.len());
        }
    }

    proptest! {
        #[test]
        fn flow_records_round_trip(seed: u64) {
            let mut g = arbitrary::Gen(seed);
            for r in FlowRecord::arbitrary_of_each(&mut g) {
                let mut out = Vec::new();
                r.write_body(&mut out);
                prop_assert_eq!(out.len() % 4, 0);
                prop_assert_eq!(FlowRecord::decode(r.tag(), &out, 0).unwrap(), r);
            }
        }

        #[test]
        fn counter_records_round_trip(seed: u64) {
            let mut g = arbitrary::Gen(seed);
            for r in CounterRecord::arbitrary_of_each(&mut g) {
                let mut out = Vec::new();
                r.write_body(&mut out);
                prop_assert_eq!(out.len() % 4, 0);
                prop_assert_eq!(CounterRecord::decode(r.tag(), &out, 0).unwrap(), r);
            }
        }

        #[test]
        fn arbitrary_bodies_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for tag in FlowRecord::TAGS {
                let _ = FlowRecord::decode(*tag, &bytes, 0);
            }
            for tag in CounterRecord::TAGS {
                let _ = CounterRecord::decode(*tag, &bytes, 0);
            }
        }
    }
}
