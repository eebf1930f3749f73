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

/// Keeps the calling thread off these CPUs, unless it may run on no other.
///
/// # Errors
/// When the kernel refuses.
pub fn keep_off(cpus: &[usize]) -> Result<()> {
    let rest: Vec<usize> = allowed_cpus()?
        .into_iter()
        .filter(|c| !cpus.contains(c))
        .collect();
    if rest.is_empty() {
        return Ok(());
    }
    allow(&rest)
}

/// Lets the calling thread, and those it starts from now on, run on `cpus` only.
///
/// # Errors
/// When none of them is there.
pub fn allow(cpus: &[usize]) -> Result<()> {
    let object = format!("this thread to CPUs {}", ranges(cpus));
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu).map_err(|e| Error::os("keep", &object, e))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).map_err(|e| Error::os("keep", object, e))
}

/// NUMA node of a CPU; `None` where the kernel knows of no nodes.
pub fn node_of(cpu: usize) -> Option<usize> {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    entries
        .flatten()
        .find_map(|e| e.file_name().to_str()?.strip_prefix("node")?.parse().ok())
}

/// The core that a CPU is part of, as the kernel numbers them; `None` where it does not say.
pub fn core_of(cpu: usize) -> Option<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/core_id");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
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
    fn a_thread_keeps_off_what_it_is_told_to_unless_nothing_is_left() {
        std::thread::spawn(|| {
            let all = allowed_cpus().unwrap();
            keep_off(&all).unwrap();
            assert_eq!(allowed_cpus().unwrap(), all);
            keep_off(&all[1..]).unwrap();
            assert_eq!(allowed_cpus().unwrap(), all[..1]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_a_thread_is_kept_to_its_children_are_too() {
        std::thread::spawn(|| {
            let first = allowed_cpus().unwrap()[0];
            allow(&[first]).unwrap();
            let child = std::thread::spawn(|| allowed_cpus().unwrap());
            assert_eq!(child.join().unwrap(), [first]);
            let e = allow(&[1000]).unwrap_err().to_string();
            assert!(e.contains("CPUs 1000"), "{e}");
            assert_eq!(node_of(100_000), None);
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
