//! Which worker polls which receive queue, and how.

use parshall_graph::{RxMode, WorkerCommand};

use super::Router;
use crate::error::{Error, Result};
use crate::interface::Placement;

impl Router {
    /// Moves a receive queue to a worker. Packets that arrive meanwhile wait in the device; no packet of a
    /// flow overtakes another.
    ///
    /// # Errors
    /// When there is no such interface, queue or worker.
    pub fn set_rx_placement(&mut self, name: &str, queue: usize, worker: usize) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        self.tell(index, |t| _ = t.placement.insert(queue, worker));
        if self.is_model() {
            return Ok(());
        }
        let place = self.placement_of(name, index, queue)?;
        let workers = self.engine.workers();
        if worker >= workers {
            return Err(Error::refused(format!(
                "there is no worker {worker}: {}",
                match workers {
                    1 => "worker 0 is the only one".to_owned(),
                    n => format!("they are 0 to {}", n - 1),
                }
            )));
        }
        if place.worker == worker {
            return Ok(());
        }
        let Some(i) = self.interfaces.get(index) else {
            return Ok(());
        };
        let Some(spec) = &i.spec else { return Ok(()) };
        let node = self.engine.node(spec.kind.input_node())?;
        let how = (node, i.up, place.mode);
        self.engine
            .move_rx((index, queue), (place.worker, worker), how)?;
        self.note_placement(index, queue, |p| p.worker = worker);
        let name = name.to_owned();
        self.undo(move |r| r.set_rx_placement(&name, queue, place.worker));
        Ok(())
    }

    /// Sets how one receive queue, or each, is looked at.
    ///
    /// # Errors
    /// When there is no such interface or queue, or the queue has nothing that would wake a worker.
    pub fn set_rx_mode(&mut self, name: &str, queue: Option<usize>, mode: RxMode) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        if queue.is_none() {
            self.tell(index, |t| t.rx_mode = Some(mode));
        }
        if self.is_model() {
            return Ok(());
        }
        let places = match queue {
            Some(q) => vec![self.placement_of(name, index, q)?],
            None => self
                .interfaces
                .get(index)
                .map(|i| i.placement.clone())
                .unwrap_or_default(),
        };
        if let Some(p) = places
            .iter()
            .find(|p| mode == RxMode::Interrupt && !p.can_wait)
        {
            return Err(Error::Interface {
                name: name.into(),
                why: format!(
                    "cannot be in interrupt mode: nothing tells when packets wait in queue {}; \
                     `adaptive` polls and sleeps in turn",
                    p.queue
                ),
            });
        }
        for p in places {
            self.apply_mode(name, index, p, mode);
        }
        Ok(())
    }

    /// Leaves a queue (`None` = each) to the router again; it stays where it is.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn reset_rx_placement(&mut self, name: &str, queue: Option<usize>) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        self.tell(index, |t| {
            t.placement.retain(|q, _| queue.is_some_and(|x| x != *q));
        });
        Ok(())
    }

    /// Looks at the queues of an interface as at those of a new one.
    ///
    /// # Errors
    /// As [`set_rx_mode`](Self::set_rx_mode).
    pub fn reset_rx_mode(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        self.set_rx_mode(name, None, self.default_mode())?;
        self.tell(index, |t| t.rx_mode = None);
        Ok(())
    }

    fn apply_mode(&mut self, name: &str, index: u32, place: Placement, mode: RxMode) {
        self.engine.tell(
            place.worker,
            WorkerCommand::SetRxMode {
                if_index: index,
                queue_id: place.queue,
                mode,
            },
        );
        self.note_placement(index, place.queue, |p| p.mode = mode);
        let name = name.to_owned();
        self.undo(move |r| r.set_rx_mode(&name, Some(place.queue), place.mode));
    }

    fn placement_of(&self, name: &str, index: u32, queue: usize) -> Result<Placement> {
        let places = self
            .interfaces
            .get(index)
            .map(|i| i.placement.as_slice())
            .unwrap_or_default();
        let found = places.iter().find(|p| p.queue == queue).copied();
        found.ok_or_else(|| Error::Interface {
            name: name.into(),
            why: match places.len() {
                0 => "has no receive queue".into(),
                1 => format!("has no queue {queue}: 0 is its only one"),
                n => format!("has no queue {queue}: they are 0 to {}", n - 1),
            },
        })
    }

    fn note_placement(&mut self, index: u32, queue: usize, change: impl FnOnce(&mut Placement)) {
        if let Some(i) = self.interfaces.get_mut(index)
            && let Some(p) = i.placement.iter_mut().find(|p| p.queue == queue)
        {
            change(p);
        }
    }

    /// Puts the queues of an interface that was made again where they were.
    pub(super) fn restore_placement(&mut self, name: &str, places: &[Placement]) -> Result<()> {
        for p in places {
            self.set_rx_placement(name, p.queue, p.worker)?;
            self.set_rx_mode(name, Some(p.queue), p.mode)?;
        }
        Ok(())
    }
}
