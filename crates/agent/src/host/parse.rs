//! Texts of `/proc` (proc(5)) into host records. Pure; each function takes what it knows and leaves the rest alone.

use parshall_sflow_wire::record::{
    HostCpu, HostCpuGuest, HostDisk, HostIcmp, HostIp, HostMemory, HostNetIo, HostTcp, HostUdp,
};

/// Counters of 32 bits wrap, as those of SNMP do.
const fn wrap(v: u64) -> u32 {
    v as u32
}

fn number<T: std::str::FromStr>(word: Option<&str>) -> Option<T> {
    word?.parse().ok()
}

/// `/proc/loadavg`: loads, running and all processes.
pub fn loadavg(text: &str, cpu: &mut HostCpu) {
    let mut words = text.split_ascii_whitespace();
    for load in [&mut cpu.load_one, &mut cpu.load_five, &mut cpu.load_fifteen] {
        if let Some(v) = number(words.next()) {
            *load = v;
        }
    }
    if let Some((run, total)) = words.next().and_then(|w| w.split_once('/')) {
        cpu.proc_run = number(Some(run)).unwrap_or(0);
        cpu.proc_total = number(Some(total)).unwrap_or(0);
    }
}

/// `/proc/stat`: times in units of 1/`hz` s, interrupts, context switches, number of processors.
pub fn stat(text: &str, hz: u64, cpu: &mut HostCpu) {
    let ms = |ticks: u64| wrap(ticks.wrapping_mul(1000) / hz.max(1));
    let mut processors = 0;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("cpu") => {
                let t: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
                let fields = [
                    &mut cpu.user,
                    &mut cpu.nice,
                    &mut cpu.system,
                    &mut cpu.idle,
                    &mut cpu.wio,
                    &mut cpu.intr,
                    &mut cpu.sintr,
                ];
                for (field, ticks) in fields.into_iter().zip(&t) {
                    *field = ms(*ticks);
                }
                cpu.guest = match t.get(7..) {
                    Some([steal, guest, guest_nice, ..]) => Some(HostCpuGuest {
                        steal: ms(*steal),
                        guest: ms(*guest),
                        guest_nice: ms(*guest_nice),
                    }),
                    _ => None,
                };
            }
            Some("intr") => cpu.interrupts = number(words.next()).map_or(cpu.interrupts, wrap),
            Some("ctxt") => cpu.contexts = number(words.next()).map_or(cpu.contexts, wrap),
            Some(w) if w.starts_with("cpu") => processors += 1,
            _ => {}
        }
    }
    if processors > 0 {
        cpu.cpu_num = processors;
    }
}

/// What all processors together have spent their time with since the start, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// With work.
    pub busy: u64,
    /// With work or without.
    pub all: u64,
}

impl CpuTimes {
    /// The share of work since `earlier`, in hundredths of a percent; nothing when no time has passed.
    pub fn busy_since(&self, earlier: &CpuTimes) -> Option<u32> {
        let all = self.all.checked_sub(earlier.all).filter(|n| *n > 0)?;
        let busy = self.busy.saturating_sub(earlier.busy).min(all);
        u32::try_from(u128::from(busy) * 10_000 / u128::from(all)).ok()
    }
}

/// The first line of `/proc/stat`: all processors. Idle are the fourth and the fifth time (waiting for a disk is idleness);
/// those of guests are in the first two already.
pub fn cpu_times(text: &str) -> Option<CpuTimes> {
    let mut words = text.lines().next()?.split_ascii_whitespace();
    (words.next()? == "cpu").then_some(())?;
    let times: Vec<u64> = words.take(8).map_while(|w| w.parse().ok()).collect();
    let all = times.iter().fold(0u64, |s, t| s.wrapping_add(*t));
    let idle = times
        .get(3)?
        .wrapping_add(times.get(4).copied().unwrap_or(0));
    Some(CpuTimes {
        busy: all.wrapping_sub(idle),
        all,
    })
}

/// `/proc/uptime`, in seconds.
pub fn uptime(text: &str, cpu: &mut HostCpu) {
    if let Some(s) = number::<f64>(text.split_ascii_whitespace().next()) {
        cpu.uptime = s as u32;
    }
}

/// `/proc/cpuinfo`, in MHz, of the first processor that tells.
pub fn cpuinfo(text: &str, cpu: &mut HostCpu) {
    let mhz = text.lines().find_map(|l| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == "cpu MHz").then(|| value.trim().parse::<f64>().ok())?
    });
    cpu.cpu_speed = mhz.map_or(cpu.cpu_speed, |m| m as u32);
}

/// `/proc/meminfo`, whose unit is 1024 bytes.
pub fn meminfo(text: &str, m: &mut HostMemory) {
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let Some(kib) = number::<u64>(value.split_ascii_whitespace().next()) else {
            continue;
        };
        let field = match key {
            "MemTotal" => &mut m.total,
            "MemFree" => &mut m.free,
            "Shmem" => &mut m.shared,
            "Buffers" => &mut m.buffers,
            "Cached" => &mut m.cached,
            "SwapTotal" => &mut m.swap_total,
            "SwapFree" => &mut m.swap_free,
            _ => continue,
        };
        *field = kib.saturating_mul(1024);
    }
}

/// `/proc/vmstat`: paging.
pub fn vmstat(text: &str, m: &mut HostMemory) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let field = match words.next() {
            Some("pgpgin") => &mut m.page_in,
            Some("pgpgout") => &mut m.page_out,
            Some("pswpin") => &mut m.swap_in,
            Some("pswpout") => &mut m.swap_out,
            _ => continue,
        };
        *field = number(words.next()).map_or(*field, wrap);
    }
}

/// `/proc/diskstats` (`Documentation/admin-guide/iostats.rst`), summed over the devices for which `counts` holds: whole
/// disks, not their partitions. Sectors are 512 bytes there whatever the disk's are.
pub fn diskstats(text: &str, counts: impl Fn(&str) -> bool, d: &mut HostDisk) {
    let mut sum = [0u64; 6];
    let mut any = false;
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [
            _,
            _,
            name,
            reads,
            _,
            sectors_read,
            read_ms,
            writes,
            _,
            sectors_written,
            write_ms,
            ..,
        ] = words[..]
        else {
            continue;
        };
        if !counts(name) {
            continue;
        }
        any = true;
        for (s, w) in sum.iter_mut().zip([
            reads,
            sectors_read,
            read_ms,
            writes,
            sectors_written,
            write_ms,
        ]) {
            *s = s.wrapping_add(number(Some(w)).unwrap_or(0));
        }
    }
    if any {
        d.reads = wrap(sum[0]);
        d.bytes_read = sum[1].wrapping_mul(512);
        d.read_time = wrap(sum[2]);
        d.writes = wrap(sum[3]);
        d.bytes_written = sum[4].wrapping_mul(512);
        d.write_time = wrap(sum[5]);
    }
}

/// Mount points in `/proc/mounts` of file systems on local block devices, one for each device.
///
/// Others are left out on purpose: asking a network file system for its size may wait for a dead server.
pub fn local_mounts(text: &str) -> Vec<String> {
    let mut seen = Vec::new();
    let mut points = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(device), Some(point), Some(kind)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if !device.starts_with("/dev/") || kind.starts_with("fuse") || seen.contains(&device) {
            continue;
        }
        seen.push(device);
        points.push(unescape(point));
    }
    points
}

/// Undoes the octal escapes (`\040` is a blank) of `/proc/mounts`.
fn unescape(s: &str) -> String {
    let mut out = Vec::with_capacity(s.len());
    let mut rest = s.as_bytes();
    while let Some((&b, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|d| d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match octal {
            Some(d) if b == b'\\' => {
                out.push(
                    d.iter()
                        .fold(0u8, |v, c| v.wrapping_mul(8).wrapping_add(c - b'0')),
                );
                rest = &tail[3..];
            }
            _ => {
                out.push(b);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

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

/// `/proc/PID/stat`: user and system time in milliseconds, from units of 1/`hz` s.
pub fn process_times(text: &str, hz: u64) -> Option<(u32, u32)> {
    // The name in parentheses may hold anything, blanks and parentheses too; the last one ends it.
    let (_, after) = text.rsplit_once(')')?;
    let mut words = after.split_ascii_whitespace().skip(11);
    let mut ms = || number::<u64>(words.next()).map(|t| wrap(t.wrapping_mul(1000) / hz.max(1)));
    Some((ms()?, ms()?))
}

/// A line `Key:   N kB` of `/proc/PID/status`, in bytes.
pub fn status_bytes(text: &str, key: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    number::<u64>(line.split_ascii_whitespace().next())?.checked_mul(1024)
}

/// The soft limit of open files in `/proc/PID/limits`; `None` = unlimited or unknown.
pub fn open_files_limit(text: &str) -> Option<u32> {
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix("Max open files"))?;
    number(line.split_ascii_whitespace().next())
}

/// 32 hexadecimal digits, with or without dashes: a UUID or a machine id (machine-id(5)).
pub fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 {
        return None;
    }
    u128::from_str_radix(&digits, 16)
        .ok()
        .map(u128::to_be_bytes)
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

/// The machine type of `sflow_host.txt` by the compiler's name for it.
pub fn machine_type(arch: &str) -> u32 {
    match arch {
        "x86" => 2,
        "x86_64" => 3,
        "sparc64" => 5,
        "powerpc" | "powerpc64" => 7,
        "m68k" => 8,
        "mips" | "mips64" => 9,
        "arm" | "aarch64" => 10,
        "s390x" => 12,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::super::HostReport;
    use super::*;

    #[test]
    fn work_is_what_is_not_idleness() {
        let a = cpu_times("cpu  100 10 50 800 40 0 0 0 70 0\ncpu0 1 2 3\n").unwrap();
        assert_eq!(
            a,
            CpuTimes {
                busy: 160,
                all: 1000
            }
        );
        let b = cpu_times("cpu  150 10 50 850 40 0 0 0 70 0\n").unwrap();
        assert_eq!(b.busy_since(&a), Some(5000));
        assert_eq!((a.busy_since(&a), a.busy_since(&b)), (None, None));
        assert_eq!(
            (cpu_times(""), cpu_times("cpu 1 2"), cpu_times("intr 1")),
            (None, None, None)
        );
    }

    #[test]
    fn cpu_comes_from_five_files() {
        let mut c = HostReport::default().cpu;
        loadavg("0.52 1.25 2.00 3/456 7890\n", &mut c);
        let text = "cpu  100 2 30 4000 5 6 7 8 9 10\ncpu0 50 1 15 2000 2 3 3 4 4 5\ncpu1 50 1 15 2000 3 3 4 4 5 5\n\
                    intr 5000000001 1 2 3\nctxt 77\nbtime 1\nprocesses 9\n";
        stat(text, 100, &mut c);
        uptime("12345.67 99.0\n", &mut c);
        cpuinfo("processor\t: 0\ncpu MHz\t\t: 2596.120\n", &mut c);
        assert_eq!((c.load_one, c.load_five, c.load_fifteen), (0.52, 1.25, 2.0));
        assert_eq!(
            (c.proc_run, c.proc_total, c.cpu_num, c.cpu_speed, c.uptime),
            (3, 456, 2, 2596, 12345)
        );
        assert_eq!((c.user, c.nice, c.system, c.idle), (1000, 20, 300, 40_000));
        assert_eq!((c.wio, c.intr, c.sintr), (50, 60, 70));
        assert_eq!((c.interrupts, c.contexts), (705_032_705, 77));
        assert_eq!(
            c.guest,
            Some(HostCpuGuest {
                steal: 80,
                guest: 90,
                guest_nice: 100
            })
        );
    }

    #[test]
    fn missing_or_broken_text_leaves_unknown() {
        let mut r = HostReport::default();
        let blank = r.clone();
        for text in ["", "x", "cpu\ncpu a\nintr\n:\n", "1 2 3\n\u{e9}: 4"] {
            loadavg("", &mut r.cpu);
            stat(text, 0, &mut r.cpu);
            cpuinfo(text, &mut r.cpu);
            meminfo(text, &mut r.memory);
            vmstat(text, &mut r.memory);
            diskstats(text, |_| true, &mut r.disk);
            net_dev(text, |n| n != "\u{e9}" && !n.is_empty(), &mut r.net);
        }
        assert_eq!(format!("{r:?}"), format!("{blank:?}"));
        assert_eq!(snmp_tcp("Tcp: A B\n").max_conn, u32::MAX);
        assert_eq!(process_times("1 (a", 100), None);
        assert_eq!(uuid("12"), None);
        assert_eq!(mac("00:00:00:00:00:00"), None);
        assert_eq!(mac("00:11:22:33:44:55:66:77"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let mut m = HostReport::default().memory;
        let text = "MemTotal:       1000 kB\nMemFree: 200 kB\nBuffers: 3 kB\nCached: 4 kB\nSwapTotal: 5 kB\nSwapFree: 6 kB\n\
                    Shmem: 7 kB\nSwapCached: 99 kB\n";
        meminfo(text, &mut m);
        vmstat(
            "pgpgin 10\npgpgout 20\npswpin 30\npswpout 40\npgfault 50\n",
            &mut m,
        );
        assert_eq!(
            (m.total, m.free, m.buffers, m.cached),
            (1_024_000, 204_800, 3072, 4096)
        );
        assert_eq!((m.swap_total, m.swap_free, m.shared), (5120, 6144, 7168));
        assert_eq!(
            (m.page_in, m.page_out, m.swap_in, m.swap_out),
            (10, 20, 30, 40)
        );
    }

    #[test]
    fn disks_are_summed_without_partitions() {
        let mut d = HostReport::default().disk;
        let text = " 254 0 vda 10 1 100 5 20 2 200 6 0 7 8 9 9 9 9\n 254 1 vda1 10 1 100 5 20 2 200 6 0 7 8\n\
                     254 16 vdb 1 1 1 1 1 1 1 1 0 0 0\n";
        diskstats(text, |n| n.len() == 3, &mut d);
        assert_eq!((d.reads, d.bytes_read, d.read_time), (11, 101 * 512, 6));
        assert_eq!(
            (d.writes, d.bytes_written, d.write_time),
            (21, 201 * 512, 7)
        );
    }

    #[test]
    fn only_local_block_devices_are_asked_for_their_size() {
        let text = "proc /proc proc rw 0 0\n/dev/vda / ext4 rw 0 0\nserver:/x /nfs nfs rw 0 0\n/dev/vda /again ext4 rw 0 0\n\
                    /dev/vdb /with\\040blank xfs rw 0 0\n/dev/fuse /f fuse rw 0 0\n";
        assert_eq!(local_mounts(text), ["/", "/with blank"]);
    }

    #[test]
    fn adapters_are_summed() {
        let mut n = HostReport::default().net;
        let text = "Inter-|   Receive\n face |bytes\n    lo: 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n  eth0: 10 20 30 40 0 0 0 0 50 60 70 80 0 0 0 0\n\
                    eth1:1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n";
        net_dev(text, |n| n != "lo", &mut n);
        assert_eq!(
            (n.bytes_in, n.pkts_in, n.errs_in, n.drops_in),
            (11, 22, 33, 44)
        );
        assert_eq!(
            (n.bytes_out, n.pkts_out, n.errs_out, n.drops_out),
            (55, 66, 77, 88)
        );
    }

    #[test]
    fn snmp_is_read_by_name_not_by_column() {
        let text = "Ip: DefaultTTL Forwarding New\nIp: 64 1 5\nTcp: MaxConn InSegs\nTcp: -1 4294967297\n\
                    IcmpMsg: InType3\nIcmpMsg: 1\nIcmp: InMsgs InParmProbs\nIcmp: 3 4\nUdp: InDatagrams\nUdp: 8\n";
        let ip = snmp_ip(text);
        assert_eq!(
            (ip.forwarding, ip.default_ttl, ip.in_receives),
            (1, 64, u32::MAX)
        );
        let tcp = snmp_tcp(text);
        assert_eq!((tcp.max_conn, tcp.in_segs), (u32::MAX, 1));
        let icmp = snmp_icmp(text);
        assert_eq!((icmp.in_msgs, icmp.in_param_probs), (3, 4));
        assert_eq!(snmp_udp(text).in_datagrams, 8);
    }

    #[test]
    fn process_files() {
        let stat = "42 (a) b (c)) S 1 1 1 0 -1 4194560 1 2 3 4 150 250 0 0 20 0 1 0 5";
        assert_eq!(process_times(stat, 100), Some((1500, 2500)));
        assert_eq!(
            status_bytes("VmPeak:\t  9 kB\nVmRSS:\t   12 kB\n", "VmRSS"),
            Some(12_288)
        );
        let limits = "Max open files            1024                 4096                 files\n";
        assert_eq!(open_files_limit(limits), Some(1024));
        assert_eq!(
            open_files_limit(
                "Max open files            unlimited            unlimited            files\n"
            ),
            None
        );
        assert_eq!(
            uuid("00112233-4455-6677-8899-aabbccddeeff\n").unwrap()[15],
            0xff
        );
        assert_eq!(mac("02:fc:00:00:00:01\n"), Some([2, 0xfc, 0, 0, 0, 1]));
    }
}
