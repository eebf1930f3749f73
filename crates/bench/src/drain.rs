//! A consumer of samples that sleeps as the agent does: a millisecond after it found some, ever
//! longer, up to ten milliseconds, when there are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parshall_ring::Consumer;
use parshall_sample::SampleSlot;

use crate::BenchError;

const SHORTEST_SLEEP: Duration = Duration::from_millis(1);
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// One thread that takes samples out of all rings given to it. It ends when this is dropped.
pub struct Drain {
    rings: Sender<Ring>,
}

struct Ring {
    samples: Consumer<SampleSlot>,
    delivered: Arc<AtomicU64>,
}

impl Drain {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub fn start() -> Result<Drain, BenchError> {
        let (rings, inbox) = channel();
        std::thread::Builder::new()
            .name("bench-drain".into())
            .spawn(move || run(&inbox))
            .map_err(|e| BenchError::of("thread", e))?;
        Ok(Drain { rings })
    }

    /// Takes samples out of this ring too; says how many so far, through the number returned.
    ///
    /// # Errors
    /// When the thread is gone.
    pub fn add(&self, samples: Consumer<SampleSlot>) -> Result<Arc<AtomicU64>, BenchError> {
        let delivered = Arc::new(AtomicU64::new(0));
        let ring = Ring {
            samples,
            delivered: delivered.clone(),
        };
        match self.rings.send(ring) {
            Ok(()) => Ok(delivered),
            Err(_) => Err(BenchError("the thread that takes samples has ended".into())),
        }
    }
}

fn run(inbox: &Receiver<Ring>) {
    let mut rings: Vec<Ring> = Vec::new();
    let mut sleep = SHORTEST_SLEEP;
    loop {
        let found = rings.iter_mut().map(empty).sum::<u64>();
        sleep = match found {
            0 => (sleep * 2).min(LONGEST_SLEEP),
            _ => SHORTEST_SLEEP,
        };
        match inbox.recv_timeout(sleep) {
            Ok(ring) => rings.push(ring),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Takes out what is there now.
fn empty(ring: &mut Ring) -> u64 {
    let mut taken = 0;
    let read = |s: &mut SampleSlot| std::hint::black_box(s.header_len);
    while ring.samples.read(read).is_some() {
        taken += 1;
    }
    ring.delivered.fetch_add(taken, Ordering::Relaxed);
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_delivered() {
        let drain = Drain::start().unwrap();
        let (mut from, samples) = parshall_ring::ring(64);
        let delivered = drain.add(samples).unwrap();
        for n in 1..=200u64 {
            while !from.write(|s: &mut SampleSlot| s.header_len = 1) {
                std::thread::sleep(SHORTEST_SLEEP);
            }
            if n % 50 == 0 {
                while delivered.load(Ordering::Relaxed) != n {
                    std::thread::sleep(SHORTEST_SLEEP);
                }
            }
        }
        assert_eq!(delivered.load(Ordering::Relaxed), 200);
    }
}
