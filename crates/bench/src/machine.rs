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
    /// Day, UTC: YYYY-MM-DD.
    pub date: String,
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
            date: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or("unknown".into(), |t| date(t.as_secs())),
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

/// The day of a moment, given in seconds since 1970, in the Gregorian calendar. Counts from 1 March, so
/// that a leap day is the last of its year.
fn date(unix: u64) -> String {
    let days = unix / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
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
    fn days_are_found() {
        let of = [
            0,
            951_782_400,
            951_868_800,
            1_709_164_800,
            1_795_219_200,
            4_107_542_400,
        ];
        let expected = [
            "1970-01-01",
            "2000-02-29",
            "2000-03-01",
            "2024-02-29",
            "2026-11-21",
            "2100-03-01",
        ];
        assert_eq!(of.map(date), expected);
    }

    #[test]
    fn the_model_is_read() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC 9R45\nprocessor\t: 1\n";
        assert_eq!(cpu_model(text), "AMD EPYC 9R45");
        assert_eq!(cpu_model("CPU implementer : 0x41\n"), "unknown");
    }
}
