//! CPUs of the workers.

use parshall_linux::affinity::ranges;

use crate::State::{Problem, Warning};
use crate::{Finding, System, Wanted};

const AT: &str = "/sys/devices/system/cpu";

/// A list of CPUs as the kernel writes it: `0-3,8`.
fn list(text: &str) -> Vec<usize> {
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>())
        {
            // A machine has not more than some thousands.
            all.extend(first..=last.min(first + 8192));
        }
    }
    all
}

pub fn placement(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let allowed = s.allowed_cpus();
    let mut found = Vec::new();
    let missing: Vec<usize> = w
        .cpus
        .iter()
        .copied()
        .filter(|c| !allowed.contains(c))
        .collect();
    if !missing.is_empty() {
        found.push(Finding::bad(
            "cpus",
            Problem,
            format!(
                "workers are to run on {}, and this program may not",
                ranges(&missing)
            ),
            "the router does not start",
            format!(
                "# in the configuration, choose `workers.cpus` of {}",
                ranges(&allowed)
            ),
        ));
    }
    let needed = w.workers.max(1) + 1;
    if allowed.len() < needed && !w.share_cpus {
        found.push(Finding::bad(
            "cpus",
            Warning,
            format!(
                "{} CPUs for {} workers and the control thread",
                allowed.len(),
                w.workers.max(1)
            ),
            "a worker that shares its CPU waits for others while packets come in",
            "# in the configuration: fewer `workers`",
        ));
    }
    for (i, cpu) in w.cpus.iter().enumerate() {
        let path = format!("{AT}/cpu{cpu}/topology/thread_siblings_list");
        let siblings = list(&s.read(&path).unwrap_or_default());
        let shared = w.cpus[..i]
            .iter()
            .find(|c| siblings.contains(c) && *c != cpu);
        if let Some(other) = shared {
            found.push(Finding::bad(
                "cpus",
                Warning,
                format!("workers on CPUs {other} and {cpu} share one core"),
                "two threads of a core together forward hardly more than one alone",
                "# in the configuration, choose `workers.cpus` of different cores: lscpu -e=CPU,CORE,SOCKET,NODE",
            ));
        }
    }
    if found.is_empty() {
        found.push(Finding::ok(
            "cpus",
            format!("{} CPUs for {} workers", allowed.len(), w.workers.max(1)),
        ));
    }
    found
}

pub fn governor(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    let cpus = if w.cpus.is_empty() {
        s.allowed_cpus()
    } else {
        w.cpus.clone()
    };
    let slow = |c: &usize| {
        let governor = s.read(&format!("{AT}/cpu{c}/cpufreq/scaling_governor"))?;
        (governor != "performance").then_some(governor)
    };
    match cpus.iter().find_map(slow) {
        None => vec![Finding::ok(
            "governor",
            "CPUs run at their full speed, or the system does not say",
        )],
        Some(governor) => vec![Finding::bad(
            "governor",
            Warning,
            format!("CPUs are governed by `{governor}`"),
            "a worker that sleeps between packets wakes up on a slow CPU: losses at the start of a burst",
            "sudo cpupower frequency-set -g performance",
        )],
    }
}

pub fn isolation(s: &dyn System, w: &Wanted) -> Vec<Finding> {
    if w.cpus.is_empty() {
        return vec![Finding::ok("isolation", "workers are not pinned")];
    }
    let isolated = list(&s.read(&format!("{AT}/isolated")).unwrap_or_default());
    let open: Vec<usize> = w
        .cpus
        .iter()
        .copied()
        .filter(|c| !isolated.contains(c))
        .collect();
    if open.is_empty() {
        return vec![Finding::ok(
            "isolation",
            "the workers' CPUs are theirs alone",
        )];
    }
    let open = ranges(&open);
    vec![Finding::bad(
        "isolation",
        Warning,
        format!("the scheduler may put others on {open}"),
        "a worker that is interrupted for milliseconds loses what its queues cannot hold",
        format!(
            "# add to the kernel's command line: isolcpus={open} nohz_full={open} rcu_nocbs={open}"
        ),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        assert_eq!(list("0-2,5"), [0, 1, 2, 5]);
        assert!(list("").is_empty());
        assert_eq!(list("x,3-,4"), [4]);
        assert_eq!(list("0-18446744073709551615").len(), 8193);
    }
}
