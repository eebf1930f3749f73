//! The machine a bench ran on: what a figure is worth nothing without.

use serde::Serialize;

/// The machine and the moment.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Model name of the CPU.
    pub cpu: String,
    /// CPUs this process may see.
    pub cpus: usize,
    /// Ticks of the time-stamp counter a second: the unit of every figure in cycles.
    pub tsc_hz: u64,
    /// Kernel release.
    pub kernel: String,
    /// Version of this program.
    pub version: &'static str,
}

impl Machine {
    /// This machine, now.
    pub fn this() -> Machine {
        Machine {
            cpu: cpu_model(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            tsc_hz: parshall_linux::clock::tsc_hz(),
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or("unknown".into(), |s| s.trim().to_owned()),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        format!(
            "{}, {} CPUs, TSC {} MHz, Linux {}",
            self.cpu,
            self.cpus,
            self.tsc_hz / 1_000_000,
            self.kernel
        )
    }
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|l| l.starts_with("model name"));
    line.and_then(|l| l.split_once(':'))
        .map_or("unknown".into(), |(_, m)| m.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_read() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC 9R45\nprocessor\t: 1\n";
        assert_eq!(cpu_model(text), "AMD EPYC 9R45");
        assert_eq!(cpu_model("CPU implementer : 0x41\n"), "unknown");
    }
}
