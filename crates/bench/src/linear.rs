//! So many turns by so many workers over the same tables, for counting instructions.
//!
//! Nothing is timed: an instruction counter (callgrind) collects inside [`turns`] only, and the sum over all
//! threads, divided by the packets, says what a packet costs with one worker and with several. What it cannot
//! say is what the caches of several CPUs cost each other; that no line is written by two workers is tested
//! where the memory is made.

use std::sync::{Arc, Barrier};

use crate::BenchError;
use crate::cases::CASES;
use crate::drain::Drain;
use crate::rig::{Bed, Rig};

/// Forwards `n` turns of case `case` on each of `workers` threads, at the same time, over shared tables. Says
/// how many packets that were in all.
///
/// # Errors
/// When there is no such case, or it cannot be set up.
pub fn forward(case: &str, workers: u32, n: u32) -> Result<u64, BenchError> {
    let found = CASES.iter().find(|c| c.name == case);
    let found = found.ok_or_else(|| BenchError(format!("no case {case}")))?;
    let bed = Arc::new(Bed::new(found)?);
    let drain = Arc::new(Drain::start()?);
    let start = Arc::new(Barrier::new(workers as usize));
    let threads: Vec<_> = (0..workers)
        .map(|worker| {
            let (bed, drain, start) = (bed.clone(), drain.clone(), start.clone());
            std::thread::spawn(move || {
                let rig = Rig::new(&bed, worker, &drain);
                // All come here, also one that failed: nobody waits for it in vain.
                start.wait();
                Ok(turns(&mut rig?, n))
            })
        })
        .collect();
    let mut packets = 0;
    for thread in threads {
        let done = thread.join();
        packets += done.map_err(|_| BenchError("a worker panicked".into()))??;
    }
    Ok(packets)
}

/// Turns `n` times; says how many packets came by.
#[inline(never)]
pub(crate) fn turns(rig: &mut Rig, n: u32) -> u64 {
    (0..n).map(|_| rig.turn() as u64).sum()
}
