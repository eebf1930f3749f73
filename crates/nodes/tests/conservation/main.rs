//! Conservation: whatever comes in, received + made = sent + consumed + dropped by reason + waiting, exactly,
//! and no buffer is lost.
//!
//! Millions of frames, most of them mutated, go through a router whose routes, labels and neighbours are
//! chosen at random and change on the way. What it sends is looked at, too: an IP packet that leaves has a
//! right header. Everything follows from a seed that a failure names.
//!
//! `PARSHALL_FRAMES` sets how many frames (4 million), `PARSHALL_SEED` the first seed (1).

mod corpus;
mod link;
mod mutate;
mod totals;
mod world;

use totals::Totals;
use world::World;

/// Frames a world lives for.
const FRAMES_A_WORLD: u64 = 100_000;

fn from_env(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

/// Says which seed failed.
struct Witness(u64);

impl Drop for Witness {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with PARSHALL_SEED={}", self.0);
        }
    }
}

#[test]
fn nothing_is_lost_whatever_comes_in() {
    let frames = from_env("PARSHALL_FRAMES", 4_000_000);
    let first = from_env("PARSHALL_SEED", 1);
    let mut sum = Totals::default();
    for seed in first..first + frames.div_ceil(FRAMES_A_WORLD) {
        let _witness = Witness(seed);
        let mut world = World::new(seed);
        while world.counters().received.get() < FRAMES_A_WORLD {
            world.turn();
        }
        world.end();
        sum.add(world.counters());
    }
    eprintln!("{sum}");
    // Were the frames all dropped at the door, nothing would have been tested.
    sum.assert_varied();
}
