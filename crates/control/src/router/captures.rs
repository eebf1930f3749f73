//! `pcap trace` and `drop capture`: copies of packets from the workers' capture rings to a file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use parshall_counters::DropReason;
use parshall_drivers::pcap::{
    CaptureOptions, CaptureReport, CaptureSource, CaptureWriter, Captured,
};
use parshall_nodes::{CaptureFilter, CapturePoint, CaptureSlot};
use parshall_ring::Consumer;

use super::Router;
use crate::error::{Error, Result};

/// The capturing nodes, in the order of a worker's rings.
const NODES: [&str; 3] = ["pcap-rx", "pcap-tx", "pcap-drop"];

/// A worker's ring, lent to the writer's thread for the time of a capture.
type SharedRing = Arc<Mutex<Consumer<CaptureSlot>>>;

/// What is to be captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturePlan {
    /// Received, transmitted, dropped packets.
    pub points: [bool; 3],
    /// Most packets, 0 = no limit.
    pub limit: u64,
    /// The file.
    pub file: PathBuf,
    /// Only this interface.
    pub if_index: Option<u32>,
    /// Of dropped packets only those of this reason.
    pub reason: Option<DropReason>,
}

/// Names for what is said about packets, as they are when a capture starts.
#[derive(Default)]
struct Names {
    interfaces: BTreeMap<u32, String>,
    /// By number of a slot.
    slots: Vec<String>,
}

impl Names {
    fn interface(&self, index: u32) -> &str {
        self.interfaces.get(&index).map_or("?", String::as_str)
    }

    /// Why, where and between which interfaces a packet was dropped.
    fn comment(&self, slot: &CaptureSlot, out: &mut String) {
        out.clear();
        let Some(reason) = DropReason::from_code(slot.reason) else {
            return;
        };
        let _ = write!(out, "{}: {}", reason.name(), reason.text());
        if let Some(name) = self.slots.get(usize::from(slot.slot)) {
            let _ = write!(out, "; at {name}");
        }
        for (word, index) in [("from", slot.if_index), ("to", slot.tx_if)] {
            if index != u32::MAX {
                let _ = write!(out, "; {word} {}", self.interface(index));
            }
        }
        let _ = write!(out, "; sFlow {}", reason.sflow_code());
    }
}

/// A capture that runs.
struct Active {
    plan: CapturePlan,
    writer: CaptureWriter,
}

/// Captures: the rings, the one that runs, and how the last one ended.
pub struct CaptureState {
    rings: Vec<Vec<SharedRing>>,
    active: Option<Active>,
    last: Option<CaptureReport>,
}

impl CaptureState {
    /// Over the rings of all workers.
    pub fn new(rings: Vec<Vec<Consumer<CaptureSlot>>>) -> CaptureState {
        let share = |r: Consumer<CaptureSlot>| Arc::new(Mutex::new(r));
        CaptureState {
            rings: rings
                .into_iter()
                .map(|w| w.into_iter().map(share).collect())
                .collect(),
            active: None,
            last: None,
        }
    }
    /// What is being captured and how far it is.
    pub fn running(&self) -> Option<(&CapturePlan, CaptureReport)> {
        let a = self.active.as_ref()?;
        Some((&a.plan, a.writer.report()))
    }
    /// How the last one ended.
    pub fn last(&self) -> Option<&CaptureReport> {
        self.last.as_ref()
    }
    /// Whether the one that runs has come to its end by itself.
    fn is_over(&self) -> bool {
        self.active.as_ref().is_some_and(|a| !a.writer.is_running())
    }

    fn sources(&self, points: [bool; 3], names: &Arc<Names>) -> Vec<Box<dyn CaptureSource>> {
        let mut out: Vec<Box<dyn CaptureSource>> = Vec::new();
        for worker in &self.rings {
            for (ring, _) in worker.iter().zip(points).filter(|(_, on)| *on) {
                let source = RingSource::new(ring.clone(), names.clone());
                out.push(Box::new(source));
            }
        }
        out
    }
}

/// A worker's ring as the writer sees it.
struct RingSource {
    ring: SharedRing,
    /// Lost before this capture began.
    lost_before: u64,
    names: Arc<Names>,
    comment: String,
}

impl RingSource {
    /// What was left in the ring by an earlier capture is forgotten.
    fn new(ring: SharedRing, names: Arc<Names>) -> RingSource {
        let lost_before = {
            let mut r = ring.lock().unwrap_or_else(PoisonError::into_inner);
            while r.read(|_| ()).is_some() {}
            r.overflows()
        };
        RingSource {
            ring,
            lost_before,
            names,
            comment: String::new(),
        }
    }
}

impl CaptureSource for RingSource {
    fn drain(&mut self, most: usize, put: &mut dyn FnMut(Captured<'_>)) -> usize {
        // Nobody but the writer's thread takes this lock while a capture runs.
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        let (names, comment) = (&self.names, &mut self.comment);
        let mut one = |slot: &mut CaptureSlot| {
            comment.clear();
            if slot.point == CapturePoint::Drop {
                names.comment(slot, comment);
            }
            let len = usize::from(slot.len).min(slot.data.len());
            put(Captured {
                at: slot.time,
                wire_len: slot.wire_len,
                bytes: &slot.data[..len],
                // What the router made itself is shown where it was to leave.
                if_index: match slot.if_index {
                    u32::MAX => slot.tx_if,
                    index => index,
                },
                comment,
            });
        };
        (0..most)
            .take_while(|_| ring.read(&mut one).is_some())
            .count()
    }
    fn lost(&self) -> u64 {
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        ring.overflows().saturating_sub(self.lost_before)
    }
}

impl Router {
    /// Starts a capture.
    ///
    /// # Errors
    /// When one runs, nothing is asked for, or the file cannot be made.
    pub fn start_capture(&mut self, plan: CapturePlan) -> Result<()> {
        if self.captures.is_over() {
            self.stop_capture();
        }
        if let Some((running, _)) = self.captures.running() {
            return Err(Error::refused(format!(
                "a capture to {} is running: `pcap trace off` ends it",
                running.file.display()
            )));
        }
        if plan.points == [false; 3] {
            return Err(Error::refused("say what to capture: rx, tx or drop"));
        }
        if self.is_model() {
            return Ok(());
        }
        let names = Arc::new(self.capture_names());
        let options = CaptureOptions {
            limit: plan.limit,
            names: names.interfaces.clone(),
            ..CaptureOptions::new(&plan.file)
        };
        let filter = CaptureFilter {
            reason: plan.reason.map(DropReason::code),
        };
        self.engine.message("pcap-drop", &filter)?;
        let sources = self.captures.sources(plan.points, &names);
        let writer = CaptureWriter::start(&options, Arc::<AtomicBool>::default(), sources)?;
        self.switch_capture(&plan, true)?;
        self.captures.active = Some(Active { plan, writer });
        self.undo(|r| {
            r.stop_capture();
            Ok(())
        });
        Ok(())
    }

    /// Ends the capture; `None` when there was none.
    pub fn stop_capture(&mut self) -> Option<CaptureReport> {
        let active = self.captures.active.take()?;
        if let Err(e) = self.switch_capture(&active.plan, false) {
            tracing::error!("{e}");
        }
        // What workers have in hand is still to be written.
        if let Err(e) = self.engine.settle() {
            tracing::error!("{e}");
        }
        match active.writer.finish() {
            Ok(mut report) => {
                // Behind the limit nothing was wanted any more.
                if active.plan.limit != 0 && report.written >= active.plan.limit {
                    report.lost = 0;
                }
                self.captures.last = Some(report);
            }
            Err(e) => tracing::error!("{e}"),
        }
        self.captures.last.clone()
    }

    /// Ends a capture that has reached its limit.
    pub(super) fn reap_capture(&mut self) {
        if self.captures.is_over() {
            self.stop_capture();
        }
    }

    fn capture_names(&self) -> Names {
        let graph = &self.engine.graph;
        let interfaces: BTreeMap<u32, String> = self
            .interfaces
            .iter()
            .map(|i| (i.index, i.name.clone()))
            .collect();
        let slot = |n: usize| {
            let slot = u16::try_from(n).ok()?;
            match graph.spec(slot) {
                Some(spec) => Some(spec.name.to_owned()),
                None => interfaces
                    .get(&graph.tx_interface(slot)?)
                    .map(|name| format!("{name}-tx")),
            }
        };
        let slots = (0..graph.slots()).map(|n| slot(n).unwrap_or_default());
        Names {
            slots: slots.collect(),
            interfaces,
        }
    }

    fn switch_capture(&mut self, plan: &CapturePlan, on: bool) -> Result<()> {
        let graph = &self.engine.graph;
        for (node, _) in NODES.iter().zip(plan.points).filter(|(_, on)| *on) {
            match plan.if_index {
                Some(i) => graph.set_feature(node, i, on)?,
                None => graph.set_feature_everywhere(node, on)?,
            }
        }
        Ok(())
    }
}
