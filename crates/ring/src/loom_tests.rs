//! Every interleaving of small models: `make loom`.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

use crate::{Sleeper, ring};

#[test]
fn every_interleaving_hands_slots_over_whole() {
    loom::model(|| {
        let (mut p, mut c) = ring::<(u32, u32)>(2);
        let t = thread::spawn(move || {
            let mut sent = 0;
            for i in 1..=3 {
                sent += u32::from(p.push((i, i)).is_ok());
            }
            sent
        });
        let mut got = 0;
        let mut last = 0;
        for _ in 0..3 {
            if let Some((a, b)) = c.pop() {
                assert_eq!(a, b);
                assert!(a > last);
                last = a;
                got += 1;
            }
        }
        let sent = t.join().unwrap();
        while c.pop().is_some() {
            got += 1;
        }
        assert_eq!(sent, got);
    });
}

/// A sample, trace or capture ring: the producer never waits, and what it could not write is counted.
#[test]
fn what_does_not_fit_is_counted_exactly() {
    loom::model(|| {
        let (mut p, mut c) = ring::<u32>(2);
        let t = thread::spawn(move || {
            for i in 1..=4 {
                p.write(|slot| *slot = i);
            }
            p.overflows()
        });
        let mut got = u64::from(c.pop().is_some());
        let lost = t.join().unwrap();
        assert_eq!(c.overflows(), lost);
        got += std::iter::from_fn(|| c.pop()).count() as u64;
        assert_eq!(got + lost, 4);
    });
}

/// Commands go one way and come back as garbage: what the worker got is what control frees, once.
#[test]
fn what_goes_through_two_rings_comes_back_whole() {
    loom::model(|| {
        let (mut commands, mut at_worker) = ring::<Option<Box<u32>>>(2);
        let (mut garbage, mut at_control) = ring::<Option<Box<u32>>>(2);
        let worker = thread::spawn(move || {
            for _ in 0..2 {
                if let Some(Some(mut message)) = at_worker.pop() {
                    *message += 10;
                    assert!(garbage.push(Some(message)).is_ok());
                }
            }
            // What was not taken is dropped with the ring.
        });
        for i in 1..=2 {
            assert!(commands.push(Some(Box::new(i))).is_ok());
        }
        worker.join().unwrap();
        let back: Vec<u32> = std::iter::from_fn(|| at_control.pop())
            .flatten()
            .map(|m| *m)
            .collect();
        assert!(back == [11, 12][..back.len()]);
    });
}

/// Hand-over between workers: whoever puts something into a sleeper's ring sees that it sleeps, or the
/// sleeper sees what was put there.
#[test]
fn a_sleeper_misses_nothing() {
    loom::model(|| {
        let (mut p, mut c) = ring::<u32>(2);
        let sleeper = Arc::new(Sleeper::new());
        let bell = Arc::new(AtomicBool::new(false));
        let writer = thread::spawn({
            let (sleeper, bell) = (sleeper.clone(), bell.clone());
            move || {
                assert!(p.push(7).is_ok());
                if sleeper.must_be_woken() {
                    bell.store(true, Ordering::Release);
                }
            }
        });
        sleeper.lie_down();
        let sleeps = c.is_empty();
        if !sleeps {
            sleeper.get_up();
            assert_eq!(c.pop(), Some(7));
        }
        writer.join().unwrap();
        assert!(!sleeps || bell.load(Ordering::Acquire), "asleep for ever");
    });
}
