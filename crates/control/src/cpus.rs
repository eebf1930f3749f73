//! Which CPU each worker is pinned to, and which are left to everybody else. Pure.

use parshall_linux::affinity::ranges;

use crate::engine::EngineConfig;
use crate::error::{Error, Result};

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuPlan {
    /// CPU of each worker; empty = they are not pinned.
    pub workers: Vec<usize>,
    /// CPUs of the control thread and all it starts; `None` = as they are.
    pub main: Option<Vec<usize>>,
}

/// Places workers and the control thread on `allowed`, the CPUs that the process may run on.
///
/// # Errors
/// When a CPU is not there, is given twice, or there are fewer of them than workers: says which there are.
pub fn plan(config: &EngineConfig, allowed: &[usize]) -> Result<CpuPlan> {
    if config.workers == 0 {
        return Ok(CpuPlan::default());
    }
    let has = |cpu: usize, whose: &str| {
        if allowed.contains(&cpu) {
            return Ok(());
        }
        Err(Error::refused(format!(
            "CPU {cpu} of {whose} cannot be used: the process may run on {} (what taskset, a cpuset or the \
             container left of them)",
            ranges(allowed)
        )))
    };
    if let Some(main) = config.main_cpu {
        has(main, "the main thread")?;
    }
    for (worker, cpu) in config.cpus.iter().enumerate() {
        has(*cpu, &format!("worker {worker}"))?;
    }
    let workers = worker_cpus(config, allowed)?;
    let main = match config.main_cpu {
        Some(cpu) => Some(vec![cpu]),
        None => {
            let rest = allowed.iter().copied().filter(|c| !workers.contains(c));
            Some(rest.collect::<Vec<_>>()).filter(|rest| !rest.is_empty() && !workers.is_empty())
        }
    };
    Ok(CpuPlan { workers, main })
}

fn worker_cpus(config: &EngineConfig, allowed: &[usize]) -> Result<Vec<usize>> {
    let n = config.workers;
    let left: Vec<usize> = allowed
        .iter()
        .copied()
        .filter(|c| Some(*c) != config.main_cpu)
        .collect();
    if config.cpus.is_empty() {
        return match (n <= left.len(), config.main_cpu) {
            (true, Some(_)) => Ok(left[..n].to_vec()),
            (true, None) => Ok(Vec::new()),
            (false, _) if config.share_cpus => Ok(Vec::new()),
            (false, main) => Err(Error::refused(format!(
                "{n} workers, but there {} for them ({}){}: have fewer workers, or say \
                 `workers.share-cpus: true` to let them share",
                match left.len() {
                    1 => "is only 1 CPU".to_owned(),
                    k => format!("are only {k} CPUs"),
                },
                ranges(&left),
                main.map_or(String::new(), |c| format!(", CPU {c} is the main thread's")),
            ))),
        };
    }
    if config.cpus.len() != n {
        return Err(Error::refused(format!(
            "{n} workers, but {} CPUs are named for them: name one for each, or none",
            config.cpus.len()
        )));
    }
    if let Some(main) = config
        .main_cpu
        .filter(|c| config.cpus.contains(c) && !config.share_cpus)
    {
        return Err(Error::refused(format!(
            "CPU {main} is the main thread's and a worker's: give one of them another, or say \
             `workers.share-cpus: true` to let them share"
        )));
    }
    let twice = |c: &&usize| config.cpus.iter().filter(|o| o == c).count() > 1;
    if let Some(cpu) = config
        .cpus
        .iter()
        .find(twice)
        .filter(|_| !config.share_cpus)
    {
        return Err(Error::refused(format!(
            "CPU {cpu} is named for two workers: name another, or say `workers.share-cpus: true` to let \
             them share"
        )));
    }
    Ok(config.cpus.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(workers: usize, cpus: &[usize], main_cpu: Option<usize>) -> EngineConfig {
        EngineConfig {
            workers,
            cpus: cpus.to_vec(),
            main_cpu,
            ..EngineConfig::default()
        }
    }

    fn refused(config: &EngineConfig, allowed: &[usize]) -> String {
        plan(config, allowed).unwrap_err().to_string()
    }

    #[test]
    fn workers_get_their_cpus_and_control_the_others() {
        let all = [0, 1, 2, 3];
        let of = |w: &[usize], main: Option<&[usize]>| CpuPlan {
            workers: w.to_vec(),
            main: main.map(<[usize]>::to_vec),
        };
        assert_eq!(plan(&planned(2, &[], None), &all), Ok(of(&[], None)));
        assert_eq!(
            plan(&planned(2, &[3, 1], None), &all),
            Ok(of(&[3, 1], Some(&[0, 2])))
        );
        assert_eq!(
            plan(&planned(2, &[], Some(0)), &all),
            Ok(of(&[1, 2], Some(&[0])))
        );
        assert_eq!(
            plan(&planned(2, &[0, 1], None), &[0, 1]),
            Ok(of(&[0, 1], None))
        );
        assert_eq!(
            plan(&planned(0, &[9], Some(9)), &all),
            Ok(CpuPlan::default())
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_there_is() {
        let two = [0, 1];
        assert_eq!(
            refused(&planned(3, &[], None), &two),
            "3 workers, but there are only 2 CPUs for them (0-1): have fewer workers, or say \
             `workers.share-cpus: true` to let them share"
        );
        let e = refused(&planned(2, &[], Some(1)), &two);
        assert!(
            e.contains("is only 1 CPU for them (0), CPU 1 is the main thread's"),
            "{e}"
        );
        let e = refused(&planned(1, &[7], None), &two);
        assert!(
            e.starts_with("CPU 7 of worker 0 cannot be used: the process may run on 0-1 "),
            "{e}"
        );
        let e = refused(&planned(1, &[], Some(7)), &two);
        assert!(e.starts_with("CPU 7 of the main thread cannot"), "{e}");
        let e = refused(&planned(2, &[1], None), &two);
        assert!(e.contains("1 CPUs are named"), "{e}");
        assert!(refused(&planned(2, &[1, 1], None), &two).contains("two workers"));
        assert!(refused(&planned(1, &[1], Some(1)), &two).contains("main thread's and a worker's"));
    }

    #[test]
    fn sharing_has_to_be_said() {
        let config = EngineConfig {
            share_cpus: true,
            ..planned(4, &[], None)
        };
        assert_eq!(plan(&config, &[0, 1]).map(|p| p.workers), Ok(Vec::new()));
        let config = EngineConfig {
            share_cpus: true,
            ..planned(2, &[1, 1], Some(1))
        };
        assert_eq!(plan(&config, &[0, 1]).map(|p| p.workers), Ok(vec![1, 1]));
    }
}
