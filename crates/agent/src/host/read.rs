//! Opens the files of `/proc` and `/sys` and hands their text to [`parse`](super::parse).

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use nix::unistd::{SysconfVar, sysconf};
use parshall_sflow_wire::record::{AppResources, HostDisk, Mac, Percent, Processor};

use super::{HostReport, HostSource, MAX_ADAPTERS, parse};

/// Most bytes read of one file. `/proc/stat` grows with processors and interrupts; the wanted lines come early.
const MAX_FILE: u64 = 512 * 1024;
const SECOND: u64 = 1_000_000_000;

/// Reads the running kernel's files.
pub struct ProcReader {
    root: PathBuf,
    hz: u64,
    /// Looks at the processors' times, the newest last.
    looks: VecDeque<Look>,
}

/// A look at the processors' times.
struct Look {
    /// When, in ns.
    at: u64,
    times: parse::CpuTimes,
}

/// Looks kept: five minutes of them, and one more to reckon from.
const MAX_LOOKS: usize = 61;

impl Default for ProcReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcReader {
    /// Reads the files of this machine.
    pub fn new() -> ProcReader {
        Self::at("/")
    }

    /// Reads the files below another root, for a machine seen from outside its container.
    pub fn at(root: impl Into<PathBuf>) -> ProcReader {
        let hz = sysconf(SysconfVar::CLK_TCK)
            .ok()
            .flatten()
            .and_then(|v| u64::try_from(v).ok());
        ProcReader {
            root: root.into(),
            hz: hz.unwrap_or(100),
            looks: VecDeque::new(),
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The file's text, empty when there is none.
    fn text(&self, path: &str) -> String {
        self.text_up_to(path, MAX_FILE)
    }

    fn text_up_to(&self, path: &str, most: u64) -> String {
        let mut bytes = Vec::new();
        if let Ok(f) = File::open(self.path(path)) {
            // A file that breaks off is used as far as it came.
            let _ = f.take(most).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn exists(&self, path: &str) -> bool {
        fs::exists(self.path(path)).unwrap_or(false)
    }

    /// A disk of its own: not a partition, and none whose traffic another one shows again.
    fn is_disk(&self, name: &str) -> bool {
        let derived = ["loop", "ram", "zram", "dm-", "md"]
            .iter()
            .any(|p| name.starts_with(p));
        !derived && self.exists(&format!("sys/block/{name}"))
    }

    /// An adapter that is no loopback and does not repeat the traffic of another.
    fn is_adapter(&self, name: &str) -> bool {
        let class = format!("sys/class/net/{name}");
        name != "lo"
            && !self.exists(&format!("{class}/bridge"))
            && !self.exists(&format!("{class}/bonding"))
            && !self.exists(&format!("proc/net/vlan/{name}"))
    }

    fn adapters(&self) -> Vec<(u32, Mac)> {
        let Ok(dir) = fs::read_dir(self.path("sys/class/net")) else {
            return Vec::new();
        };
        let mut found: Vec<(u32, Mac)> = dir
            .filter_map(|e| {
                let name = e.ok()?.file_name().into_string().ok()?;
                let file = |f: &str| self.text_up_to(&format!("sys/class/net/{name}/{f}"), 4096);
                let flags =
                    u32::from_str_radix(file("flags").trim().strip_prefix("0x")?, 16).ok()?;
                let index = file("ifindex").trim().parse().ok()?;
                let mac = parse::mac(&file("address"))?;
                // IFF_UP is 1 (linux/if.h).
                (flags & 1 == 1 && self.is_adapter(&name)).then_some((index, Mac(mac)))
            })
            .collect();
        found.sort_unstable_by_key(|a| a.0);
        found.truncate(MAX_ADAPTERS);
        found
    }

    fn disk(&self, d: &mut HostDisk) {
        parse::diskstats(&self.text("proc/diskstats"), |n| self.is_disk(n), d);
        let mut fullest = None;
        for point in parse::local_mounts(&self.text("proc/mounts")) {
            let point = Path::new(&point);
            let Ok(v) = statvfs(&self.root.join(point.strip_prefix("/").unwrap_or(point))) else {
                continue;
            };
            let unit = v.fragment_size();
            let (total, free) = (
                v.blocks().saturating_mul(unit),
                v.blocks_free().saturating_mul(unit),
            );
            d.total = d.total.saturating_add(total);
            d.free = d.free.saturating_add(free);
            if total > 0 {
                let used =
                    (u128::from(total.saturating_sub(free)) * 10_000 / u128::from(total)) as u32;
                fullest = fullest.max(Some(used));
            }
        }
        d.part_max_used = Percent(fullest);
    }

    /// How busy the processors were over the last `seconds`; unknown when there was no look then.
    fn busy(&self, seconds: u64) -> Percent {
        let Some(last) = self.looks.back() else {
            return Percent(None);
        };
        // A look may be late by as much as half a period.
        let ago = |l: &&Look| {
            let ago = last.at.saturating_sub(l.at);
            ago.abs_diff(seconds * SECOND) <= SECOND * 5 / 2
        };
        let then = self.looks.iter().find(ago);
        Percent(then.and_then(|l| last.times.busy_since(&l.times)))
    }

    fn app(&self, a: &mut AppResources, total_memory: u64) {
        if let Some((user, system)) = parse::process_times(&self.text("proc/self/stat"), self.hz) {
            (a.user_ms, a.system_ms) = (user, system);
        }
        a.mem_used = parse::status_bytes(&self.text("proc/self/status"), "VmRSS").unwrap_or(0);
        a.mem_max = total_memory;
        let open = fs::read_dir(self.path("proc/self/fd")).map_or(0, Iterator::count);
        a.fd_open = u32::try_from(open).unwrap_or(u32::MAX);
        a.fd_max = parse::open_files_limit(&self.text("proc/self/limits")).unwrap_or(0);
    }
}

impl HostSource for ProcReader {
    fn read(&mut self) -> HostReport {
        let mut r = HostReport {
            hostname: self.text("proc/sys/kernel/hostname").trim().to_owned(),
            os_release: self.text("proc/sys/kernel/osrelease").trim().to_owned(),
            machine_type: parse::machine_type(std::env::consts::ARCH),
            // The firmware's identity is for root only; the system's own serves as well.
            uuid: ["sys/class/dmi/id/product_uuid", "etc/machine-id"]
                .iter()
                .find_map(|f| parse::uuid(&self.text(f)))
                .unwrap_or_default(),
            adapters: self.adapters(),
            ..HostReport::default()
        };
        parse::loadavg(&self.text("proc/loadavg"), &mut r.cpu);
        parse::stat(&self.text("proc/stat"), self.hz, &mut r.cpu);
        parse::uptime(&self.text("proc/uptime"), &mut r.cpu);
        // One processor's entry: on large machines the whole file takes long to make.
        parse::cpuinfo(&self.text_up_to("proc/cpuinfo", 4096), &mut r.cpu);
        parse::meminfo(&self.text("proc/meminfo"), &mut r.memory);
        parse::vmstat(&self.text("proc/vmstat"), &mut r.memory);
        self.disk(&mut r.disk);
        parse::net_dev(
            &self.text("proc/net/dev"),
            |n| self.is_adapter(n),
            &mut r.net,
        );
        let snmp = self.text("proc/net/snmp");
        r.ip = parse::snmp_ip(&snmp);
        r.icmp = parse::snmp_icmp(&snmp);
        r.tcp = parse::snmp_tcp(&snmp);
        r.udp = parse::snmp_udp(&snmp);
        r.processor = Processor {
            cpu_5s: self.busy(5),
            cpu_1m: self.busy(60),
            cpu_5m: self.busy(300),
            total_memory: r.memory.total,
            free_memory: r.memory.free,
        };
        let total = r.memory.total;
        self.app(&mut r.app, total);
        r
    }

    fn look(&mut self, now: u64) {
        // The first line is what is wanted; the file may be long.
        if let Some(times) = parse::cpu_times(&self.text_up_to("proc/stat", 4096)) {
            if self.looks.len() == MAX_LOOKS {
                self.looks.pop_front();
            }
            self.looks.push_back(Look { at: now, times });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_tells_the_essentials() {
        let r = ProcReader::new().read();
        assert!(!r.hostname.is_empty() && !r.os_release.is_empty());
        assert!(r.cpu.cpu_num > 0 && r.cpu.uptime > 0 && r.cpu.idle != u32::MAX);
        assert!(r.memory.total > 0 && r.memory.free < r.memory.total);
        assert_ne!(r.tcp.in_segs, u32::MAX);
        assert!(r.app.fd_open > 0 && r.app.mem_used > 0);
    }

    #[test]
    fn load_is_told_over_the_time_that_was_looked_at() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        let mut r = ProcReader::at(root.path());
        let shares = |r: &mut ProcReader| {
            let p = r.read().processor;
            [p.cpu_5s.0, p.cpu_1m.0, p.cpu_5m.0]
        };
        assert_eq!(shares(&mut r), [None; 3]);
        // Idle for five minutes, then half a minute of work, by turns of five seconds and a little more.
        for n in 0..80u64 {
            let busy = n.saturating_sub(74) * 100;
            let text = format!("cpu  {busy} 0 0 {} 0 0 0 0\n", n * 100 - busy);
            fs::write(root.path().join("proc/stat"), text).unwrap();
            r.look(n * (5 * SECOND + 1_000_000));
            if n == 1 {
                assert_eq!(shares(&mut r), [Some(0), None, None]);
            }
        }
        assert_eq!(shares(&mut r), [Some(10_000), Some(4166), Some(833)]);
        assert_eq!(r.looks.len(), MAX_LOOKS);
    }

    /// The fields of a table of `/proc/net/snmp` by name, read on their own.
    fn snmp(prefix: &str) -> std::collections::BTreeMap<String, u32> {
        let text = fs::read_to_string("/proc/net/snmp").unwrap();
        let mut rows = text
            .lines()
            .filter_map(|l| l.strip_prefix(&format!("{prefix}: ")));
        let names = rows.next().unwrap().split(' ').map(str::to_owned);
        let values = rows
            .next()
            .unwrap()
            .split(' ')
            .map(|v| v.parse::<i64>().unwrap() as u32);
        names.zip(values).collect()
    }

    /// A number that grows lies between what it was before and after; it may wrap.
    fn between(before: u32, told: u32, after: u32) -> bool {
        told.wrapping_sub(before) <= after.wrapping_sub(before)
    }

    #[test]
    fn values_are_those_of_proc() {
        let stat = || {
            let text = fs::read_to_string("/proc/stat").unwrap();
            let first = text.lines().next().unwrap().to_owned();
            let times = first.split_ascii_whitespace().skip(1);
            times.map(|t| t.parse::<u64>().unwrap()).collect::<Vec<_>>()
        };
        let before = (stat(), snmp("Ip"), snmp("Tcp"), snmp("Udp"), snmp("Icmp"));
        let reader = ProcReader::new();
        let hz = reader.hz;
        let r = { reader }.read();
        let after = (stat(), snmp("Ip"), snmp("Tcp"), snmp("Udp"), snmp("Icmp"));
        let c = &r.cpu;
        let guest = c.guest.unwrap();
        let told = [
            c.user,
            c.nice,
            c.system,
            c.idle,
            c.wio,
            c.intr,
            c.sintr,
            guest.steal,
            guest.guest,
            guest.guest_nice,
        ];
        for (i, t) in told.into_iter().enumerate() {
            let ms = |ticks: u64| (ticks * 1000 / hz) as u32;
            assert!(between(ms(before.0[i]), t, ms(after.0[i])), "time {i}: {t}");
        }
        let told = [
            (&before.1, &after.1, "InReceives", r.ip.in_receives),
            (&before.1, &after.1, "OutRequests", r.ip.out_requests),
            (&before.1, &after.1, "DefaultTTL", r.ip.default_ttl),
            (&before.1, &after.1, "FragCreates", r.ip.frag_creates),
            (&before.2, &after.2, "MaxConn", r.tcp.max_conn),
            (&before.2, &after.2, "InSegs", r.tcp.in_segs),
            (&before.2, &after.2, "InCsumErrors", r.tcp.in_csum_errors),
            (&before.3, &after.3, "InDatagrams", r.udp.in_datagrams),
            (&before.3, &after.3, "InCsumErrors", r.udp.in_csum_errors),
            (&before.4, &after.4, "InMsgs", r.icmp.in_msgs),
            (
                &before.4,
                &after.4,
                "OutAddrMaskReps",
                r.icmp.out_addr_mask_reps,
            ),
        ];
        for (before, after, name, told) in told {
            assert!(between(before[name], told, after[name]), "{name}: {told}");
        }
        let memory = fs::read_to_string("/proc/meminfo").unwrap();
        let kib = |key: &str| {
            let line = memory
                .lines()
                .find_map(|l| l.strip_prefix(&format!("{key}:")));
            let number = line.unwrap().trim().strip_suffix(" kB").unwrap();
            number.parse::<u64>().unwrap() * 1024
        };
        assert_eq!(r.memory.total, kib("MemTotal"));
        assert_eq!(r.memory.swap_total, kib("SwapTotal"));
        assert_eq!(r.processor.total_memory, kib("MemTotal"));
        // This process: no more than its limit, no less than this function takes.
        let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        let limit = limit.unwrap().0.min(u64::from(u32::MAX)) as u32;
        assert_eq!(r.app.fd_max, limit);
        assert!(r.app.fd_open >= 3 && r.app.fd_open <= limit);
        assert!(r.app.mem_used > 1 << 20 && r.app.mem_used < r.app.mem_max);
    }

    #[test]
    fn a_machine_without_any_file_is_unknown_and_no_error() {
        let empty = tempfile::tempdir().unwrap();
        let mut got = ProcReader::at(empty.path()).read();
        got.machine_type = 0;
        assert_eq!(format!("{got:?}"), format!("{:?}", HostReport::default()));
    }

    #[test]
    fn adapters_and_disks_are_found_below_the_root() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for (name, index, flags, mac) in [
            ("eth1", "7\n", "0x1003\n", "02:00:00:00:00:07\n"),
            ("eth0", "2\n", "0x1003\n", "02:00:00:00:00:02\n"),
            ("down", "3\n", "0x1002\n", "02:00:00:00:00:03\n"),
            ("lo", "1\n", "0x9\n", "00:00:00:00:00:00\n"),
        ] {
            put(&format!("sys/class/net/{name}/ifindex"), index);
            put(&format!("sys/class/net/{name}/flags"), flags);
            put(&format!("sys/class/net/{name}/address"), mac);
        }
        put("sys/block/vda/size", "1");
        put(
            "proc/diskstats",
            "254 0 vda 1 0 1 0 1 0 1 0 0 0 0\n254 1 vda1 1 0 1 0 1 0 1 0 0 0 0\n",
        );
        put("proc/mounts", "/dev/vda / ext4 rw 0 0\n");
        let r = ProcReader::at(root.path()).read();
        assert_eq!(
            r.adapters,
            [(2, Mac([2, 0, 0, 0, 0, 2])), (7, Mac([2, 0, 0, 0, 0, 7]))]
        );
        assert_eq!(r.disk.reads, 1);
        assert!(r.disk.total > 0 && r.disk.part_max_used.0.is_some());
    }
}
