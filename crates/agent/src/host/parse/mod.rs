//! Texts of `/proc` (proc(5)) into host records. Pure; each function takes what it knows and leaves the rest alone.

mod cpu;
mod machine;
mod network;
mod storage;
#[cfg(test)]
mod tests;

pub use cpu::{CpuTimes, cpu_times, cpuinfo, loadavg, stat, uptime};
pub use machine::{machine_type, open_files_limit, process_times, status_bytes, uuid};
pub use network::{mac, net_dev, snmp_icmp, snmp_ip, snmp_tcp, snmp_udp};
pub use storage::{diskstats, local_mounts, meminfo, vmstat};

/// Counters of 32 bits wrap, as those of SNMP do.
const fn wrap(v: u64) -> u32 {
    v as u32
}

fn number<T: std::str::FromStr>(word: Option<&str>) -> Option<T> {
    word?.parse().ok()
}
