//! The numbers of one source: its sequence, and for flow samples rate, pool and drops.

use parshall_sflow_wire::FlowSampleHead;

use super::finding::Cx;
use super::rules::Rule;

/// Half the range of a number that wraps: a larger step is one back.
const HALF: u32 = u32::MAX / 2;
/// Samples that may be in a pool before it is counted: workers count by the frame.
const POOL_SLACK: u64 = 512;
/// Samples without a pool before that is told.
const POOL_AFTER: u64 = 10;
/// Samples between two pools before they are held against each other.
const RATE_AFTER: u64 = 100;
/// Standard deviations, and share of the expected, that the pool may be off.
const RATE_DEVIATIONS: f64 = 6.0;
const RATE_SHARE: f64 = 0.05;
/// Flow samples without a switch record before that is told.
const SWITCH_AFTER: u32 = 100;

/// What a sample's number tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The first of its source; the flag: it should have been number 1 and is not.
    First(bool),
    /// The one after the last, or one further on behind datagrams that were lost.
    Forward(u32),
    /// So many are missing although no datagram is.
    Gap(u32),
    /// The count began anew.
    Restart,
    /// It went back, but not to 1.
    Back(u32),
}

impl Step {
    /// Whether values must not be compared with those before.
    pub fn begins(self) -> bool {
        matches!(self, Step::First(_) | Step::Restart | Step::Back(_))
    }

    /// Tells what is wrong. `pool_went_on`: a restart lost something that could have been used.
    pub fn report(self, cx: &mut Cx<'_>, number: u32, offset: usize, pool_went_on: bool) {
        match self {
            Step::First(true) => cx.find(
                Rule::SampleStart,
                offset,
                format_args!("the first is number {number}"),
            ),
            Step::Gap(n) => cx.find(
                Rule::SampleGap,
                offset,
                format_args!("{n} missing in front of number {number}"),
            ),
            Step::Back(last) => cx.find(
                Rule::SampleBack,
                offset,
                format_args!("number {number} after {last}"),
            ),
            Step::Restart if pool_went_on => {
                cx.find(Rule::SampleRestart, offset, format_args!(""));
            }
            _ => {}
        }
    }
}

/// The sequence and drops of one source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    last: Option<u32>,
    /// The agent's count of missing datagrams when the last sample came.
    gaps: u64,
    drops: u32,
}

impl Numbers {
    /// Takes in a sample's number.
    pub fn step(&mut self, number: u32, gaps: u64, whole: bool) -> Step {
        let since = gaps != std::mem::replace(&mut self.gaps, gaps);
        let Some(last) = self.last.replace(number) else {
            return Step::First(whole && number != 1);
        };
        match number.wrapping_sub(last) {
            1 => Step::Forward(1),
            ahead @ 2..=HALF if since => Step::Forward(ahead),
            ahead @ 2..=HALF => Step::Gap(ahead - 1),
            _ if number == 1 => Step::Restart,
            // The first of the new count may have been in what was lost.
            _ if since => Step::Restart,
            _ => Step::Back(last),
        }
    }

    /// Takes in the drops; whether they fell.
    pub fn drops(&mut self, drops: u32, step: Step) -> bool {
        let was = std::mem::replace(&mut self.drops, drops);
        !step.begins() && drops.wrapping_sub(was) > HALF
    }
}

/// The numbers of a source of flow samples.
#[derive(Clone, Debug, Default)]
pub struct FlowNumbers {
    numbers: Numbers,
    rate: u32,
    pool: u32,
    /// How the pool compares with what the rates say.
    check: PoolCheck,
    told_missing: bool,
    samples: u64,
    no_switch: u32,
}

impl FlowNumbers {
    /// Takes in a sample.
    pub fn observe(
        &mut self,
        cx: &mut Cx<'_>,
        head: &FlowSampleHead,
        gaps: u64,
        whole: bool,
        offset: usize,
    ) {
        let step = self.numbers.step(head.sequence, gaps, whole);
        let drops_were = self.numbers.drops;
        let went_on = head.pool.wrapping_sub(self.pool) <= HALF && head.pool != 0;
        step.report(cx, head.sequence, offset, went_on);
        if self.numbers.drops(head.drops, step) {
            cx.find(
                Rule::DropsFell,
                offset,
                format_args!("{drops_were}, then {}", head.drops),
            );
        }
        if !matches!(step, Step::First(_)) && head.rate != self.rate {
            cx.find(
                Rule::RateChanged,
                offset,
                format_args!("1 in {}, then 1 in {}", self.rate, head.rate),
            );
        }
        let growth = head.pool.wrapping_sub(self.pool);
        if step.begins() {
            self.check = PoolCheck::new(head);
            self.samples = 0;
        } else if growth > HALF {
            cx.find(
                Rule::PoolFell,
                offset,
                format_args!("{}, then {}", self.pool, head.pool),
            );
            self.check = PoolCheck::new(head);
        } else {
            let lost = head.drops.wrapping_sub(drops_were);
            let taken = u64::from(head.sequence.wrapping_sub(self.check.sequence));
            let drawn = taken + u64::from(if lost > HALF { 0 } else { lost });
            self.check.add(head, growth, drawn);
            self.check.report(cx, head, offset);
        }
        self.samples += 1;
        (self.rate, self.pool) = (head.rate, head.pool);
        if self.samples == POOL_AFTER
            && self.pool == 0
            && !std::mem::replace(&mut self.told_missing, true)
        {
            cx.find(
                Rule::PoolMissing,
                offset,
                format_args!("0 after {POOL_AFTER} samples"),
            );
        }
    }

    /// Whether the sample had a switch record.
    pub fn switch_record(&mut self, cx: &mut Cx<'_>, has: bool) {
        if has {
            self.no_switch = u32::MAX;
        } else if self.no_switch < SWITCH_AFTER {
            self.no_switch += 1;
            if self.no_switch == SWITCH_AFTER {
                let at = cx.at.offset;
                cx.find(Rule::NoSwitch, at, format_args!("{SWITCH_AFTER} samples"));
            }
        }
    }
}

/// Holds the growth of the pool against the number of samples.
///
/// An agent that takes samples in batches reads the pool once for each: samples of one pool were taken before it was
/// read. So only whole batches are compared, from the pool of the first to that of the last that is complete.
#[derive(Clone, Debug, Default)]
struct PoolCheck {
    /// Of the last sample.
    sequence: u32,
    /// Counted from 1, so that the pool counts from 0.
    from_one: bool,
    first_pool: u64,
    /// Of the pool since the first sample.
    growth: u64,
    drawn: u64,
    /// Packets that samples stand for, and the sum of their squares: whole batches since the first, and the open one.
    closed: (f64, f64, u64),
    open: Option<(f64, f64, u64)>,
    /// The largest batch so far: that much the ends may be off.
    largest: f64,
    told_short: bool,
    told_rate: bool,
}

impl PoolCheck {
    fn new(head: &FlowSampleHead) -> PoolCheck {
        PoolCheck {
            sequence: head.sequence,
            from_one: head.sequence == 1,
            first_pool: u64::from(head.pool),
            drawn: 1,
            ..PoolCheck::default()
        }
    }

    /// A sample that stands for itself and `drawn - 1` others that did not come.
    fn add(&mut self, head: &FlowSampleHead, growth: u32, drawn: u64) {
        self.sequence = head.sequence;
        self.drawn += drawn;
        let (rate, n) = (f64::from(head.rate), drawn as f64);
        if growth > 0 {
            if let Some(done) = self.open.replace((0.0, 0.0, 0)) {
                self.closed.0 += done.0;
                self.closed.1 += done.1;
                self.closed.2 += done.2;
                self.largest = self.largest.max(done.0);
            }
            self.growth += u64::from(growth);
        }
        if let Some(open) = &mut self.open {
            open.0 += rate * n;
            open.1 += rate * rate * n;
            open.2 += drawn;
            self.largest = self.largest.max(open.0);
        }
    }

    fn report(&mut self, cx: &mut Cx<'_>, head: &FlowSampleHead, offset: usize) {
        let pool = self.first_pool + self.growth;
        if self.from_one && pool > 0 && pool + POOL_SLACK < self.drawn && !self.told_short {
            self.told_short = true;
            cx.find(
                Rule::PoolShort,
                offset,
                format_args!("{pool} packets, {} samples", self.drawn),
            );
        }
        let (expected, squares, samples) = match self.open {
            Some(open) => (
                self.closed.0 + open.0,
                self.closed.1 + open.1,
                self.closed.2 + open.2,
            ),
            None => return,
        };
        if samples < RATE_AFTER || self.told_rate || head.rate == 0 {
            return;
        }
        let slack = RATE_DEVIATIONS * squares.sqrt() + RATE_SHARE * expected + 2.0 * self.largest;
        let growth = self.growth as f64;
        // The open batch may still grow: it counts to the expected only where that is the more lenient.
        if growth > expected + slack || growth + slack < self.closed.0 {
            self.told_rate = true;
            cx.find(
                Rule::PoolRate,
                offset,
                format_args!(
                    "{samples} samples stand for {expected:.0} packets, the pool grew by {growth:.0}"
                ),
            );
        }
    }
}
