//! Tests of what is read out of texts of `/proc`.

use super::*;
use crate::host::HostReport;
use parshall_sflow_wire::record::HostCpuGuest;

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
