//! What slices come to: medians, paired differences, tables, bars.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::crew::{Done, Samples};
use super::{Key, SflowRate};
use crate::cases::{self, Case};
use crate::internet::Random;
use crate::report::{Bar, Table, short};
use crate::stats::{Spread, median, round};
use crate::vpp::{self, Peer};
use crate::yardstick;

/// Fewest undisturbed pairs that are trusted alone; with fewer, all pairs count.
const FEWEST_PAIRS: usize = 20;

/// Everything that was measured.
#[derive(Serialize)]
pub struct Figures {
    /// Bytes of a frame, without FCS.
    pub frame_bytes: usize,
    /// Packet buffers of a worker.
    pub buffers: usize,
    /// Allocations on the packet path, in all slices together: must be 0.
    pub allocations: u64,
    /// Packets forwarded in all slices together.
    pub packets: u64,
    /// Where the figures of VPP on record come from.
    pub vpp_record: &'static str,
    /// By case, number of workers and sampling rate.
    pub cases: Vec<Row>,
    /// What the machine does with a program that everybody knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick: Option<yardstick::Figures>,
    /// The same cases on a VPP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
}

/// One case with one number of workers at one sampling rate.
#[derive(Serialize)]
pub struct Row {
    /// Case.
    pub case: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Workers, each on a CPU of its own.
    pub workers: u32,
    /// Rate.
    pub sflow: SflowRate,
    /// Million packets a second of all workers, median of the slices.
    pub mpps: f64,
    /// The slowest visit's median.
    pub mpps_min: f64,
    /// The fastest visit's median.
    pub mpps_max: f64,
    /// Ticks a packet of one worker, median of the slices.
    pub cycles_per_packet: f64,
    /// Ticks a packet by node, over the undisturbed slices (over all, if there is none).
    pub nodes: Map<String, Value>,
    /// Share of the slices in which a worker had to wait for its CPU. That time never counts, and neither do
    /// the slices if there are enough others.
    pub disturbed: f64,
    /// Against the same rig without sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub versus_off: Option<Versus>,
    /// Samples taken while each visit's unbroken window lasted.
    pub samples: u64,
    /// Samples that arrived at a consumer which sleeps as the agent does.
    pub samples_delivered: u64,
    /// Samples lost because the ring was full.
    pub samples_lost: u64,
    /// Allocations: must be 0.
    pub allocations: u64,
    /// Frames made after the start: must be 0.
    pub late_frames: u64,
    /// What VPP did on the same kind of machine, if it is on record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vpp_recorded_mpps: Option<f64>,
    /// Times that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_vpp_recorded: Option<f64>,
    #[serde(skip)]
    packets: u64,
}

/// A rate against off: paired slices of the same rig, next to each other in time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Versus {
    /// Ticks a packet more.
    pub cycles: Spread,
    /// Percent fewer packets a second.
    pub percent: Spread,
    /// Pairs that were undisturbed.
    pub undisturbed: usize,
    /// Pairs in all.
    pub pairs: usize,
}

/// The slices of one row.
#[derive(Default)]
pub struct Track {
    slices: Vec<Slice>,
    visits: usize,
    /// Clocks and vectors by node, in undisturbed slices and in all.
    nodes: [Vec<(String, u64, u64)>; 2],
    samples: Samples,
    allocations: u64,
    late_frames: u64,
    packets: u64,
}

#[derive(Clone, Copy)]
struct Slice {
    visit: usize,
    mpps: f64,
    cycles: f64,
    undisturbed: bool,
}

impl Track {
    /// Takes in a slice of all workers; `first` of a visit.
    pub fn slice(&mut self, done: &[Done], first: bool) {
        let hz = parshall_linux::clock::tsc_hz() as f64;
        self.visits += usize::from(first);
        let (packets, ticks) = sums(done);
        let rate = |d: &Done| d.packets as f64 / (d.ticks.max(1) as f64 / hz) / 1e6;
        let undisturbed = done.iter().all(Done::undisturbed);
        self.slices.push(Slice {
            visit: self.visits,
            mpps: done.iter().map(rate).sum(),
            cycles: ticks as f64 / packets.max(1) as f64,
            undisturbed,
        });
        let [quiet, all] = &mut self.nodes;
        for node in done.iter().flat_map(|d| &d.nodes) {
            add(all, node);
            if undisturbed {
                add(quiet, node);
            }
        }
        self.exact(done);
    }

    /// Takes in an unbroken window.
    pub fn sustained(&mut self, done: &[Done]) {
        done.iter().for_each(|d| self.samples += d.samples);
        self.exact(done);
    }

    fn exact(&mut self, done: &[Done]) {
        self.packets += sums(done).0;
        self.allocations += done.iter().map(|d| d.allocations).sum::<u64>();
        let late = done.iter().map(|d| d.late_frames).sum::<u64>();
        self.late_frames = self.late_frames.max(late);
    }

    /// The undisturbed slices, all if they are few.
    fn counting(&self) -> Vec<Slice> {
        trusted(&self.slices, |s| s.undisturbed)
    }

    /// A node's clocks go on while its thread waits for the CPU, so undisturbed slices are better if there are any.
    fn by_node(&self) -> &[(String, u64, u64)] {
        let [quiet, all] = &self.nodes;
        if quiet.is_empty() { all } else { quiet }
    }

    fn versus(&self, off: &Track) -> Versus {
        let pairs: Vec<_> = self.slices.iter().zip(&off.slices).collect();
        let clean = |(on, off): &(&Slice, &Slice)| on.undisturbed && off.undisturbed;
        let used = trusted(&pairs, clean);
        let mut random = Random::new(1);
        let cycles = used.iter().map(|(on, off)| on.cycles - off.cycles);
        let cycles = Spread::of(cycles, &mut random);
        let percent = used
            .iter()
            .map(|(on, off)| 100.0 * (1.0 - on.mpps / off.mpps));
        Versus {
            cycles: cycles.map(|x| round(x, 3)),
            percent: Spread::of(percent, &mut random).map(|x| round(x, 3)),
            undisturbed: pairs.iter().filter(|p| clean(p)).count(),
            pairs: pairs.len(),
        }
    }
}

fn add(sums: &mut Vec<(String, u64, u64)>, (name, clocks, vectors): &(String, u64, u64)) {
    match sums.iter_mut().find(|(n, ..)| n == name) {
        Some((_, c, v)) => (*c, *v) = (*c + clocks, *v + vectors),
        None => sums.push((name.clone(), *clocks, *vectors)),
    }
}

fn sums(done: &[Done]) -> (u64, u64) {
    done.iter()
        .fold((0, 0), |(p, t), d| (p + d.packets, t + d.ticks))
}

/// Those that hold, all if those are too few to trust.
fn trusted<T: Clone>(all: &[T], hold: impl Fn(&T) -> bool) -> Vec<T> {
    let some: Vec<T> = all.iter().filter(|x| hold(x)).cloned().collect();
    match some.len() >= FEWEST_PAIRS.min(all.len()) {
        true => some,
        false => all.to_vec(),
    }
}

impl Row {
    /// The row of a track; `off` is its case's without sampling.
    pub fn new(
        case: &Case,
        workers: u32,
        sflow: SflowRate,
        track: &Track,
        off: Option<&Track>,
    ) -> Row {
        let slices = track.counting();
        let visits = 1..=track.visits;
        let visits = visits.filter_map(|v| {
            let of = slices.iter().filter(|s| s.visit == v).map(|s| s.mpps);
            let of: Vec<f64> = of.collect();
            (!of.is_empty()).then(|| median(of))
        });
        let (min, max) = visits.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), m| {
            (a.min(m), b.max(m))
        });
        let mpps = round(median(slices.iter().map(|s| s.mpps)), 2);
        let disturbed = track.slices.iter().filter(|s| !s.undisturbed).count();
        let recorded = (workers == 1 && sflow == SflowRate::Off)
            .then(|| vpp::recorded(case.name))
            .flatten();
        Row {
            case: case.name,
            what: case.what,
            workers,
            sflow,
            mpps,
            mpps_min: round(min, 2),
            mpps_max: round(max, 2),
            cycles_per_packet: round(median(slices.iter().map(|s| s.cycles)), 2),
            nodes: track
                .by_node()
                .iter()
                .map(|(name, c, v)| (name.clone(), round(*c as f64 / *v as f64, 2).into()))
                .collect(),
            disturbed: round(disturbed as f64 / track.slices.len().max(1) as f64, 3),
            versus_off: off.map(|off| track.versus(off)),
            samples: track.samples.taken,
            samples_delivered: track.samples.delivered,
            samples_lost: track.samples.lost,
            allocations: track.allocations,
            late_frames: track.late_frames,
            vpp_recorded_mpps: recorded.map(|r| r.mpps),
            times_vpp_recorded: recorded.map(|r| round(mpps / r.mpps, 2)),
            packets: track.packets,
        }
    }

    fn plain(&self) -> bool {
        self.workers == 1 && self.sflow == SflowRate::Off
    }
}

impl Figures {
    /// The rows of all tracks.
    pub fn new(
        cases: &[&'static Case],
        workers: &[u32],
        rates: &[SflowRate],
        tracks: &BTreeMap<Key, Track>,
    ) -> Figures {
        let mut rows = Vec::new();
        for (c, case) in cases.iter().enumerate() {
            for &workers in workers {
                let off = tracks.get(&(c, workers, SflowRate::Off));
                for &sflow in rates {
                    if let Some(track) = tracks.get(&(c, workers, sflow)) {
                        let off = off.filter(|_| sflow != SflowRate::Off);
                        rows.push(Row::new(case, workers, sflow, track, off));
                    }
                }
            }
        }
        Figures {
            frame_bytes: cases::FRAME_BYTES,
            buffers: crate::rig::BUFFERS,
            allocations: rows.iter().map(|r| r.allocations + r.late_frames).sum(),
            packets: rows.iter().map(|r| r.packets).sum(),
            vpp_record: vpp::RECORD,
            cases: rows,
            yardstick: None,
            peer: None,
        }
    }

    /// For people.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.rates()];
        tables.extend(self.sampling());
        tables.push(self.by_node());
        tables.extend(self.yardstick.as_ref().map(yardstick::Figures::table));
        tables.extend(self.peer.as_ref().map(|peer| self.against(peer)));
        tables
    }

    fn rates(&self) -> Table {
        let columns = [
            "case",
            "workers",
            "Mpps",
            "slowest",
            "fastest",
            "cycles",
            "VPP Mpps",
            "VPP cycles",
            "times",
            "disturbed",
            "what",
        ];
        let mut table = Table::new("Packets a second, sFlow off", &columns);
        let rows = self.cases.iter().filter(|r| r.sflow == SflowRate::Off);
        let or_dash = |x: Option<f64>| x.map_or("-".into(), short);
        for r in rows {
            table.push([
                r.case.to_owned(),
                r.workers.to_string(),
                short(r.mpps),
                short(r.mpps_min),
                short(r.mpps_max),
                short(r.cycles_per_packet),
                or_dash(r.vpp_recorded_mpps),
                or_dash(
                    r.vpp_recorded_mpps
                        .and(vpp::recorded(r.case))
                        .map(|v| v.clocks),
                ),
                or_dash(r.times_vpp_recorded),
                format!("{:.0} %", 100.0 * r.disturbed),
                r.what.to_owned(),
            ]);
        }
        table
    }

    fn sampling(&self) -> Option<Table> {
        let columns = [
            "case",
            "workers",
            "sflow",
            "Mpps",
            "more cycles",
            "quartiles",
            "95 %",
            "fewer packets",
            "samples",
            "delivered",
            "lost",
        ];
        let mut table = Table::new("Sampling, against off in neighbouring slices", &columns);
        for r in self.cases.iter().filter(|r| r.sflow != SflowRate::Off) {
            let (cycles, percent) = match &r.versus_off {
                Some(v) => (v.cycles, format!("{:+.2} %", v.percent.median)),
                None => (Spread::default(), "-".into()),
            };
            table.push([
                r.case.to_owned(),
                r.workers.to_string(),
                r.sflow.to_string(),
                short(r.mpps),
                format!("{:+.2}", cycles.median),
                format!("{:+.2} to {:+.2}", cycles.q1, cycles.q3),
                format!("{:+.2} to {:+.2}", cycles.low, cycles.high),
                percent,
                r.samples.to_string(),
                r.samples_delivered.to_string(),
                r.samples_lost.to_string(),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    fn by_node(&self) -> Table {
        let mut table = Table::new("Cycles a packet by node", &["case", "sflow", "nodes"]);
        for r in self.cases.iter().filter(|r| r.workers == 1) {
            let nodes: Vec<_> = r.nodes.iter().map(|(n, c)| format!("{n} {c}")).collect();
            table.push([r.case.to_owned(), r.sflow.to_string(), nodes.join(", ")]);
        }
        table
    }

    fn against(&self, peer: &Peer) -> Table {
        let columns = [
            "case",
            "sflow",
            "Mpps",
            "VPP Mpps",
            "VPP clocks",
            "times",
            "VPP clocks by node",
        ];
        let mut table = Table::new(format!("Against {}", peer.version), &columns);
        for p in &peer.cases {
            let same = |r: &&Row| r.workers == 1 && r.case == p.case && r.sflow == p.sflow;
            let ours = self.cases.iter().find(same).map_or(0.0, |r| r.mpps);
            let nodes: Vec<_> = p.nodes.iter().map(|(n, c)| format!("{n} {c}")).collect();
            table.push([
                p.case.to_owned(),
                p.sflow.to_string(),
                short(ours),
                short(p.mpps),
                short(p.clocks),
                short(ours / p.mpps),
                nodes.join(", "),
            ]);
        }
        table
    }

    fn plain(&self, case: &str) -> Option<f64> {
        let mut rows = self.cases.iter();
        rows.find(|r| r.plain() && r.case == case).map(|r| r.mpps)
    }

    /// What must hold of what was measured.
    pub fn bars(&self) -> Vec<Bar> {
        let mut bars = Vec::new();
        for case in ["l2xc", "ip4", "ip4-1m", "mpls-swap"] {
            if let (Some(mpps), Some(vpp)) = (self.plain(case), vpp::recorded(case)) {
                let measure = format!("{case}, times VPP's recorded {} Mpps", short(vpp.mpps));
                bars.push(Bar::at_least(measure, mpps / vpp.mpps, 4.0, "times"));
            }
        }
        for case in ["l2bridge-16k", "l2bridge-100k"] {
            if let (Some(mpps), Some(vpp)) = (self.plain(case), vpp::recorded(case)) {
                let measure = format!("{case}, times VPP's recorded {} Mpps", short(vpp.mpps));
                bars.push(Bar::at_least(measure, mpps / vpp.mpps, 3.0, "times"));
            }
        }
        for (case, least) in [("ip4-full", 45.0), ("ip6", 50.0), ("ip6-full", 30.0)] {
            let of = self.plain(case);
            bars.extend(of.map(|mpps| Bar::at_least(case, mpps, least, "Mpps")));
        }
        for (grown, real) in [("ip4-grown", "ip4-full"), ("ip6-grown", "ip6-full")] {
            if let (Some(g), Some(r)) = (self.plain(grown), self.plain(real)) {
                bars.push(Bar::at_least(
                    format!("{grown} of {real}"),
                    g / r,
                    0.9,
                    "times",
                ));
            }
        }
        let cycles = |v: &Versus| v.cycles.median;
        let percent = |v: &Versus| v.percent.median;
        bars.extend(self.worst(
            "sFlow on, no sample taken",
            1_000_000,
            cycles,
            0.3,
            "cycles more",
        ));
        bars.extend(self.worst("sFlow 1:1000", 1000, percent, 0.5, "% fewer packets"));
        bars.extend(self.worst("sFlow 1:100", 100, percent, 2.0, "% fewer packets"));
        if self.cases.iter().any(|r| r.samples > 0) {
            let lost = self.cases.iter().map(|r| r.samples_lost).sum::<u64>();
            let measure = "samples lost on the way to the consumer";
            bars.push(Bar::at_most(measure, lost as f64, 0.0, "samples"));
        }
        let measure = "allocations on the packet path";
        bars.push(Bar::at_most(
            measure,
            self.allocations as f64,
            0.0,
            "allocations",
        ));
        bars
    }

    /// The bar of the case that sampling costs most.
    fn worst(
        &self,
        what: &str,
        rate: u32,
        cost: impl Fn(&Versus) -> f64,
        most: f64,
        unit: &str,
    ) -> Option<Bar> {
        let of_rate = |r: &&Row| r.workers == 1 && r.sflow == SflowRate::OneIn(rate);
        let rows = self.cases.iter().filter(of_rate);
        let costs = rows.filter_map(|r| r.versus_off.as_ref().map(|v| (cost(v), r.case)));
        let (found, case) = costs.max_by(|a, b| a.0.total_cmp(&b.0))?;
        let measure = format!("{what}, worst case ({case})");
        Some(Bar::at_most(measure, found, most, unit))
    }

    /// What must be exact and is not.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for r in &self.cases {
            let place = || format!("{} with {} workers, sFlow {}", r.case, r.workers, r.sflow);
            if r.allocations + r.late_frames != 0 {
                let n = r.allocations + r.late_frames;
                faults.push(format!("{}: {n} allocations on the packet path", place()));
            }
            if r.samples != r.samples_delivered + r.samples_lost {
                let text = "samples that were neither delivered nor counted as lost";
                let n = r.samples.abs_diff(r.samples_delivered + r.samples_lost);
                faults.push(format!("{}: {n} {text}", place()));
            }
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(packets: u64, ticks: u64, undisturbed: bool) -> Done {
        Done {
            packets,
            ticks,
            waited: if undisturbed { 0 } else { ticks / 2 },
            nodes: vec![("pg-input".into(), ticks / 2, packets)],
            ..Done::default()
        }
    }

    fn tracks() -> BTreeMap<Key, Track> {
        let (mut off, mut on) = (Track::default(), Track::default());
        for i in 0..60u64 {
            // The machine slows down by a factor; the difference of neighbours stays.
            let slow = 40_000 + 1000 * i;
            off.slice(&[done(1000, slow, true)], i % 30 == 0);
            on.slice(&[done(1000, slow + 200, i % 3 != 0)], i % 30 == 0);
        }
        let samples = Samples {
            taken: 9,
            delivered: 7,
            lost: 2,
        };
        on.sustained(&[Done {
            samples,
            ..done(5, 5, true)
        }]);
        BTreeMap::from([
            ((0, 1, SflowRate::Off), off),
            ((0, 1, SflowRate::OneIn(1_000_000)), on),
        ])
    }

    fn figures() -> Figures {
        let cases = cases::chosen(&["ip4".into()]).unwrap();
        Figures::new(
            &cases,
            &[1],
            &[SflowRate::Off, SflowRate::OneIn(1_000_000)],
            &tracks(),
        )
    }

    #[test]
    fn differences_are_of_neighbours() {
        let figures = figures();
        let [off, on] = &figures.cases[..] else {
            panic!()
        };
        assert!(off.versus_off.is_none());
        let v = on.versus_off.unwrap();
        assert_eq!((v.pairs, v.undisturbed, v.cycles.n), (60, 40, 40));
        assert_eq!(
            (v.cycles.median, v.cycles.q1, v.cycles.high),
            (0.2, 0.2, 0.2)
        );
        assert!(v.percent.median > 0.1 && v.percent.median < 0.6, "{v:?}");
        assert_eq!(
            (on.samples, on.samples_delivered, on.samples_lost),
            (9, 7, 2)
        );
        assert_eq!(off.cycles_per_packet, 69.5);
        assert_eq!(on.disturbed, 0.333);
        assert_eq!(off.nodes["pg-input"], 34.75);
        assert!(off.mpps_min < off.mpps && off.mpps < off.mpps_max);
    }

    #[test]
    fn bars_and_faults_follow() {
        let mut figures = figures();
        assert!(figures.faults().is_empty());
        let bars = figures.bars();
        let by = |text: &str| bars.iter().find(|b| b.measure.contains(text)).unwrap();
        assert!(by("ip4, times VPP").bar.starts_with("at least 4.00"));
        assert!(by("no sample taken, worst case (ip4)").holds);
        assert!(!by("samples lost").holds);
        assert!(by("allocations").holds);
        figures.cases[1].samples_delivered = 6;
        figures.cases[0].allocations = 3;
        let faults = figures.faults();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("3 allocations") && faults[1].contains("1 samples"));
    }

    #[test]
    fn a_few_undisturbed_slices_are_not_trusted_alone() {
        let all: Vec<u32> = (0..100).collect();
        assert_eq!(trusted(&all, |x| *x < 50).len(), 50);
        assert_eq!(trusted(&all, |x| *x < 5).len(), 100);
        assert_eq!(trusted(&all[..3], |x| *x < 3).len(), 3);
    }

    #[test]
    fn workers_add_up() {
        let mut track = Track::default();
        track.slice(&[done(1000, 50_000, true), done(3000, 50_000, true)], true);
        let case = cases::chosen(&["ip4".into()]).unwrap()[0];
        let row = Row::new(case, 2, SflowRate::Off, &track, None);
        let hz = parshall_linux::clock::tsc_hz() as f64;
        assert_eq!(row.mpps, round(4000.0 * hz / 50_000.0 / 1e6, 2));
        assert_eq!(row.cycles_per_packet, 25.0);
        assert_eq!(row.vpp_recorded_mpps, None);
    }
}
