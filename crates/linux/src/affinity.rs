//! Which CPUs a thread may run on, and pinning it to one (sched_setaffinity(2)).

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::{Error, Result};

/// CPUs the calling thread may run on, in order (what cpusets, containers and taskset left of them).
///
/// # Errors
/// When the kernel does not say.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|e| Error::os("read", "the list of allowed CPUs", e))?;
    Ok((0..CpuSet::count())
        .filter(|&c| set.is_set(c).unwrap_or(false))
        .collect())
}

/// Pins the calling thread to `cpu`.
///
/// # Errors
/// When `cpu` does not exist or is not allowed; says which are.
pub fn pin(cpu: usize) -> Result<()> {
    let object = format!("this thread to CPU {cpu}");
    let allowed = allowed_cpus()?;
    if !allowed.contains(&cpu) {
        return Err(Error::other("pin", object, "that CPU is not allowed")
            .hint(format!("allowed here: {}", ranges(&allowed))));
    }
    let mut set = CpuSet::new();
    set.set(cpu).map_err(|e| Error::os("pin", &object, e))?;
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|e| Error::os("pin", object, e))
}

/// A sorted list of CPUs as the kernel writes it: `0-3,8`.
pub fn ranges(cpus: &[usize]) -> String {
    let mut out: Vec<String> = Vec::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest
            .iter()
            .enumerate()
            .take_while(|&(i, &c)| c == first + i)
            .count()
            .max(1);
        let last = rest[run - 1];
        out.push(if run == 1 {
            first.to_string()
        } else {
            format!("{first}-{last}")
        });
        rest = &rest[run..];
    }
    out.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_and_refuses() {
        std::thread::spawn(|| {
            let all = allowed_cpus().unwrap();
            let last = *all.last().unwrap();
            pin(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
            let e = pin(9999).unwrap_err().to_string();
            assert!(e.contains(&format!("allowed here: {last}")), "{e}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn ranges_read_as_the_kernel_writes_them() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[]), "");
    }
}
