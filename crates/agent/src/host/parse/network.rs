//! Adapters and the network stack: `/proc/net/dev`, `/proc/net/snmp` (proc(5)), `/sys/class/net`.

use parshall_sflow_wire::record::{HostIcmp, HostIp, HostNetIo, HostTcp, HostUdp};

use super::{number, wrap};

/// `/proc/net/dev`, summed over the adapters for which `counts` holds.
pub fn net_dev(text: &str, counts: impl Fn(&str) -> bool, n: &mut HostNetIo) {
    let mut sum = [0u64; 16];
    let mut any = false;
    for line in text.lines() {
        let Some((name, values)) = line.split_once(':') else {
            continue;
        };
        if !counts(name.trim()) {
            continue;
        }
        any = true;
        for (s, w) in sum.iter_mut().zip(values.split_ascii_whitespace()) {
            *s = s.wrapping_add(number(Some(w)).unwrap_or(0));
        }
    }
    if any {
        n.bytes_in = sum[0];
        n.pkts_in = wrap(sum[1]);
        n.errs_in = wrap(sum[2]);
        n.drops_in = wrap(sum[3]);
        n.bytes_out = sum[8];
        n.pkts_out = wrap(sum[9]);
        n.errs_out = wrap(sum[10]);
        n.drops_out = wrap(sum[11]);
    }
}

/// One table of `/proc/net/snmp`: a line of names and a line of values under the same prefix.
struct Table<'a> {
    names: &'a str,
    values: &'a str,
}

impl<'a> Table<'a> {
    fn find(text: &'a str, prefix: &str) -> Table<'a> {
        let mut rows = text
            .lines()
            .filter_map(|l| l.split_once(':'))
            .filter(|(p, _)| *p == prefix);
        Table {
            names: rows.next().map_or("", |r| r.1),
            values: rows.next().map_or("", |r| r.1),
        }
    }

    /// The value of a name, all ones when there is none. Negative values (`MaxConn -1`) keep their bits, as in SNMP.
    fn get(&self, name: &str) -> u32 {
        let mut pairs = self
            .names
            .split_ascii_whitespace()
            .zip(self.values.split_ascii_whitespace());
        let value = pairs
            .find(|(n, _)| *n == name)
            .and_then(|(_, v)| v.parse::<i128>().ok());
        value.map_or(u32::MAX, |v| v as u32)
    }
}

/// The `Ip` table of `/proc/net/snmp`.
pub fn snmp_ip(text: &str) -> HostIp {
    let t = Table::find(text, "Ip");
    HostIp {
        forwarding: t.get("Forwarding"),
        default_ttl: t.get("DefaultTTL"),
        in_receives: t.get("InReceives"),
        in_hdr_errors: t.get("InHdrErrors"),
        in_addr_errors: t.get("InAddrErrors"),
        forw_datagrams: t.get("ForwDatagrams"),
        in_unknown_protos: t.get("InUnknownProtos"),
        in_discards: t.get("InDiscards"),
        in_delivers: t.get("InDelivers"),
        out_requests: t.get("OutRequests"),
        out_discards: t.get("OutDiscards"),
        out_no_routes: t.get("OutNoRoutes"),
        reasm_timeout: t.get("ReasmTimeout"),
        reasm_reqds: t.get("ReasmReqds"),
        reasm_oks: t.get("ReasmOKs"),
        reasm_fails: t.get("ReasmFails"),
        frag_oks: t.get("FragOKs"),
        frag_fails: t.get("FragFails"),
        frag_creates: t.get("FragCreates"),
    }
}

/// The `Icmp` table of `/proc/net/snmp`.
pub fn snmp_icmp(text: &str) -> HostIcmp {
    let t = Table::find(text, "Icmp");
    HostIcmp {
        in_msgs: t.get("InMsgs"),
        in_errors: t.get("InErrors"),
        in_dest_unreachs: t.get("InDestUnreachs"),
        in_time_excds: t.get("InTimeExcds"),
        in_param_probs: t.get("InParmProbs"),
        in_src_quenchs: t.get("InSrcQuenchs"),
        in_redirects: t.get("InRedirects"),
        in_echos: t.get("InEchos"),
        in_echo_reps: t.get("InEchoReps"),
        in_timestamps: t.get("InTimestamps"),
        in_addr_masks: t.get("InAddrMasks"),
        in_addr_mask_reps: t.get("InAddrMaskReps"),
        out_msgs: t.get("OutMsgs"),
        out_errors: t.get("OutErrors"),
        out_dest_unreachs: t.get("OutDestUnreachs"),
        out_time_excds: t.get("OutTimeExcds"),
        out_param_probs: t.get("OutParmProbs"),
        out_src_quenchs: t.get("OutSrcQuenchs"),
        out_redirects: t.get("OutRedirects"),
        out_echos: t.get("OutEchos"),
        out_echo_reps: t.get("OutEchoReps"),
        out_timestamps: t.get("OutTimestamps"),
        out_timestamp_reps: t.get("OutTimestampReps"),
        out_addr_masks: t.get("OutAddrMasks"),
        out_addr_mask_reps: t.get("OutAddrMaskReps"),
    }
}

/// The `Tcp` table of `/proc/net/snmp`.
pub fn snmp_tcp(text: &str) -> HostTcp {
    let t = Table::find(text, "Tcp");
    HostTcp {
        rto_algorithm: t.get("RtoAlgorithm"),
        rto_min: t.get("RtoMin"),
        rto_max: t.get("RtoMax"),
        max_conn: t.get("MaxConn"),
        active_opens: t.get("ActiveOpens"),
        passive_opens: t.get("PassiveOpens"),
        attempt_fails: t.get("AttemptFails"),
        estab_resets: t.get("EstabResets"),
        curr_estab: t.get("CurrEstab"),
        in_segs: t.get("InSegs"),
        out_segs: t.get("OutSegs"),
        retrans_segs: t.get("RetransSegs"),
        in_errs: t.get("InErrs"),
        out_rsts: t.get("OutRsts"),
        in_csum_errors: t.get("InCsumErrors"),
    }
}

/// The `Udp` table of `/proc/net/snmp`.
pub fn snmp_udp(text: &str) -> HostUdp {
    let t = Table::find(text, "Udp");
    HostUdp {
        in_datagrams: t.get("InDatagrams"),
        no_ports: t.get("NoPorts"),
        in_errors: t.get("InErrors"),
        out_datagrams: t.get("OutDatagrams"),
        rcvbuf_errors: t.get("RcvbufErrors"),
        sndbuf_errors: t.get("SndbufErrors"),
        in_csum_errors: t.get("InCsumErrors"),
    }
}

/// `xx:xx:xx:xx:xx:xx` of `/sys/class/net/IF/address`; `None` for other kinds of address and for all zeros.
pub fn mac(text: &str) -> Option<[u8; 6]> {
    let mut out = [0u8; 6];
    let mut words = text.trim().split(':');
    for byte in &mut out {
        *byte = u8::from_str_radix(words.next()?, 16).ok()?;
    }
    (words.next().is_none() && out != [0; 6]).then_some(out)
}
