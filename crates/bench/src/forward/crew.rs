//! The crew: pinned threads, each with its own rig of every case, that turn when told to.
//!
//! Nothing is measured across threads. Each counts its own packets against its own clock, and the figures
//! of a slice are put together afterwards.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parshall_counters::NodeTotals;
use parshall_graph::tsc;

use crate::cases::Case;
use crate::drain::Drain;
use crate::rig::{Bed, Rig, Totals};
use crate::{BenchError, SflowRate, alloc};

/// Time in which a rig that was just switched gets its memory back into the caches.
const WARM: Duration = Duration::from_micros(500);
/// Sleep before each slice. A scheduler treats a thread that has slept better than one that has not, and only
/// after slices with samples is there something to wait for: without this, sampling would look cheap.
const REST: Duration = Duration::from_millis(1);
/// Longest wait for the consumer to have what is in the ring.
const DELIVERY: Duration = Duration::from_secs(2);
/// A slice counts as undisturbed when its thread waited for its CPU for less than this share of it.
const DISTURBED: f64 = 0.002;

/// A slice of time to work for.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Which of the crew's cases.
    pub case: usize,
    /// Sampling.
    pub sflow: SflowRate,
    /// In both directions, and with drops monitored.
    pub everything: bool,
    /// How long.
    pub time: Duration,
}

/// What one thread did in a slice.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Packets forwarded.
    pub packets: u64,
    /// Ticks of the time-stamp counter it took, without those that the thread waited for its CPU.
    pub ticks: u64,
    /// Ticks that the thread was ready and something else ran on its CPU, as far as the scheduler knows.
    pub waited: u64,
    /// Allocations of the thread in that time.
    pub allocations: u64,
    /// Frames the dispatcher made in that time and before: an allocation too.
    pub late_frames: u64,
    /// Clocks and vectors by node.
    pub nodes: Vec<(String, u64, u64)>,
    /// Samples taken, delivered and lost.
    pub samples: Samples,
}

impl Done {
    /// The thread had its CPU to itself.
    pub fn undisturbed(&self) -> bool {
        (self.waited as f64) < DISTURBED * self.ticks as f64
    }
}

/// What became of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Samples {
    /// Taken by the sampler.
    pub taken: u64,
    /// Arrived at the consumer.
    pub delivered: u64,
    /// Found the ring full.
    pub lost: u64,
}

impl std::ops::AddAssign for Samples {
    fn add_assign(&mut self, other: Samples) {
        self.taken += other.taken;
        self.delivered += other.delivered;
        self.lost += other.lost;
    }
}

/// The threads.
pub struct Crew {
    members: Vec<Member>,
}

struct Member {
    jobs: Sender<Job>,
    done: Receiver<Result<Done, BenchError>>,
}

impl Crew {
    /// `workers` threads on CPUs `first_cpu` and up, with rigs of these cases.
    ///
    /// # Errors
    /// When a rig cannot be set up, or there are not as many CPUs.
    pub fn new(
        cases: &[&'static Case],
        workers: u32,
        first_cpu: usize,
    ) -> Result<Crew, BenchError> {
        let beds = cases.iter().map(|case| {
            eprintln!("setting up {} ({})", case.name, case.what);
            Bed::new(case)
        });
        let beds = Arc::new(beds.collect::<Result<Vec<_>, _>>()?);
        let drain = Arc::new(Drain::start()?);
        let member = |n| Member::start(n, first_cpu + n as usize, beds.clone(), drain.clone());
        let members = (0..workers).map(member).collect::<Result<Vec<_>, _>>()?;
        let crew = Crew { members };
        // Each thread says once whether its rigs stand.
        crew.members.iter().try_for_each(|m| m.wait().map(drop))?;
        Ok(crew)
    }

    /// Lets the first `workers` threads work at the same time.
    ///
    /// # Errors
    /// When a thread is gone.
    pub fn work(&self, workers: u32, job: Job) -> Result<Vec<Done>, BenchError> {
        let members = || self.members.iter().take(workers as usize);
        for m in members() {
            m.jobs.send(job).map_err(|_| gone())?;
        }
        members().map(Member::wait).collect()
    }
}

impl Member {
    fn start(
        n: u32,
        cpu: usize,
        beds: Arc<Vec<Bed>>,
        drain: Arc<Drain>,
    ) -> Result<Member, BenchError> {
        let (jobs, inbox) = channel();
        let (report, done) = channel();
        std::thread::Builder::new()
            .name(format!("bench-wk{n}"))
            .spawn(move || match Hand::new(n, cpu, &beds, &drain) {
                Ok(mut hand) => {
                    let mut said = report.send(Ok(Done::default()));
                    while let (Ok(()), Ok(job)) = (said, inbox.recv()) {
                        said = report.send(Ok(hand.work(job)));
                    }
                }
                Err(error) => drop(report.send(Err(error))),
            })
            .map_err(|e| BenchError::of("thread", e))?;
        Ok(Member { jobs, done })
    }

    fn wait(&self) -> Result<Done, BenchError> {
        self.done.recv().map_err(|_| gone())?
    }
}

fn gone() -> BenchError {
    BenchError("a bench thread has ended".into())
}

/// What a thread holds.
struct Hand {
    rigs: Vec<Rig>,
    scheduler: Option<File>,
}

impl Hand {
    fn new(n: u32, cpu: usize, beds: &[Bed], drain: &Drain) -> Result<Hand, BenchError> {
        parshall_linux::affinity::pin(cpu).map_err(|e| BenchError::of("pinning", e))?;
        let rigs = beds.iter().map(|b| Rig::new(b, n, drain));
        Ok(Hand {
            rigs: rigs.collect::<Result<_, _>>()?,
            scheduler: File::open("/proc/thread-self/schedstat").ok(),
        })
    }

    fn work(&mut self, job: Job) -> Done {
        let rig = &mut self.rigs[job.case];
        let before = settled(rig);
        rig.set_sflow(job.sflow, job.everything);
        std::thread::sleep(REST);
        turn_for(rig, WARM);
        let nodes_before = rig.totals().nodes;
        let waited = waited_ns(self.scheduler.as_ref());
        let start = tsc();
        let (packets, allocations) = alloc::during(|| turn_for(rig, job.time));
        let ticks = tsc().wrapping_sub(start);
        let waited = waited_ns(self.scheduler.as_ref()) - waited;
        let nodes_after = rig.totals().nodes;
        let after = settled(rig);
        let hz = parshall_linux::clock::tsc_hz();
        let waited = (waited as f64 * hz as f64 / 1e9) as u64;
        Done {
            packets,
            ticks: ticks.saturating_sub(waited),
            waited,
            allocations,
            late_frames: after.late_frames,
            nodes: nodes(rig, &nodes_before, &nodes_after),
            samples: Samples {
                taken: after.samples + after.samples_lost - before.samples - before.samples_lost,
                delivered: after.samples_delivered - before.samples_delivered,
                lost: after.samples_lost - before.samples_lost,
            },
        }
    }
}

fn turn_for(rig: &mut Rig, time: Duration) -> u64 {
    let start = Instant::now();
    let mut packets = 0;
    while start.elapsed() < time {
        for _ in 0..64 {
            packets += rig.turn() as u64;
        }
    }
    packets
}

/// The counters, once the consumer has what the rings held.
fn settled(rig: &Rig) -> Totals {
    let start = Instant::now();
    loop {
        let totals = rig.totals();
        if totals.samples_delivered >= totals.samples || start.elapsed() > DELIVERY {
            return totals;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn nodes(rig: &Rig, before: &[NodeTotals], after: &[NodeTotals]) -> Vec<(String, u64, u64)> {
    let slots = before.iter().zip(after).enumerate();
    slots
        .map(|(i, (b, a))| (i, a.since(b)))
        .filter(|(_, d)| d.vectors != 0)
        .map(|(i, d)| (rig.slot_name(i), d.clocks, d.vectors))
        .collect()
}

/// Nanoseconds that the thread was ready to run and did not: the second number of its `schedstat`
/// (proc(5), Documentation/scheduler/sched-stats.rst). 0 where the kernel does not say.
pub(crate) fn waited_ns(scheduler: Option<&File>) -> u64 {
    let mut text = [0u8; 96];
    let read = scheduler.and_then(|f| f.read_at(&mut text, 0).ok());
    let text = std::str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
    second_number(text)
}

fn second_number(text: &str) -> u64 {
    let word = text.split_whitespace().nth(1);
    word.and_then(|w| w.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_is_the_second_number() {
        assert_eq!(second_number("316072 52638 1\n"), 52_638);
        assert_eq!(second_number(""), 0);
    }

    #[test]
    fn a_crew_forwards_samples_and_does_not_allocate() {
        let cases = crate::cases::chosen(&["l2xc".into(), "ip4".into()]).unwrap();
        let crew = Crew::new(&cases, 1, 0).unwrap();
        for case in 0..2 {
            let job = Job {
                case,
                sflow: SflowRate::OneIn(100),
                everything: case == 1,
                time: Duration::from_millis(5),
            };
            let done = crew.work(1, job).unwrap().remove(0);
            assert!(done.packets > 0 && done.ticks > 0);
            assert_eq!((done.allocations, done.late_frames), (0, 0));
            let Samples {
                taken,
                delivered,
                lost,
            } = done.samples;
            assert!(taken > 0);
            assert_eq!(taken, delivered + lost);
            assert!(
                done.nodes
                    .iter()
                    .any(|(name, _, vectors)| name == "sflow" && *vectors > 0)
            );
        }
    }
}
