//! Processors and load: `/proc/loadavg`, `stat`, `uptime`, `cpuinfo` (proc(5)).

use parshall_sflow_wire::record::{HostCpu, HostCpuGuest};

use super::{number, wrap};

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
