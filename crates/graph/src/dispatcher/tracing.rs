//! Marking packets for the trace, and recording what they look like at each node.

use parshall_buffer::{BufferIndex, Flags, Frame, Meta, Pool};

use super::Dispatcher;
use crate::node::{CONSUMED, CONTINUE, Dispatch, NodeId};
use crate::trace::{TRACE_BYTES, TraceRecord};

impl Dispatcher {
    /// Marks the next `count` packets of an input node for the trace.
    pub fn trace(&mut self, input: NodeId, count: u32) {
        if let Some(left) = self.trace_left.get_mut(usize::from(input)) {
            *left = count;
        }
    }

    #[cold]
    pub(super) fn mark_traced(&mut self, input: NodeId, frame: &mut Frame) {
        let left = &mut self.trace_left[usize::from(input)];
        let n = frame.len().min(*left as usize);
        *left -= n as u32;
        frame.traced = true;
        for &b in &frame.packets()[..n] {
            let m = self.pool.meta_mut(b);
            m.flags.set(Flags::TRACED);
            m.trace = self.trace_id;
            self.trace_id = self.trace_id.wrapping_add(1);
        }
        for &b in &frame.packets()[..n] {
            let before = self.capture(b);
            self.record(input, b, CONTINUE, before);
        }
    }

    #[cold]
    pub(super) fn call_traced(&mut self, id: NodeId, mut frame: Box<Frame>) {
        self.recall(id);
        let n = frame.len();
        let traced = |pool: &Pool, b: BufferIndex| pool.meta(b).flags.has(Flags::TRACED);
        let before: Vec<_> = (0..n)
            .filter(|&i| traced(&self.pool, frame.packets()[i]))
            .map(|i| (i, frame.packets()[i], self.capture(frame.packets()[i])))
            .collect();
        let verdict = self.with_node(id, |node, cx| node.process(cx, &mut frame));
        self.clock(id, n);
        for (i, b, record) in before {
            let next = match verdict {
                Dispatch::All(next) => next,
                Dispatch::Each => self.next[i],
            };
            self.record(id, b, next, record);
        }
        self.distribute(id, verdict, frame);
    }

    pub(super) fn capture(&self, b: BufferIndex) -> TraceRecord {
        let mut data = [0; TRACE_BYTES];
        let len = self.pool.copy_out(b, &mut data) as u16;
        let meta = *self.pool.meta(b);
        TraceRecord {
            packet: meta.trace,
            total_len: meta.total_len(),
            len,
            data,
            meta,
            ..TraceRecord::default()
        }
    }

    pub(super) fn record(&mut self, node: NodeId, b: BufferIndex, next: u16, before: TraceRecord) {
        // A packet the node consumed has no metadata of its own any more: keep what it had before.
        let meta: Meta = if next == CONSUMED {
            before.meta
        } else {
            *self.pool.meta(b)
        };
        let mut record = before;
        (record.node, record.next, record.time, record.meta) = (node, next, self.now, meta);
        // A full ring counts the loss, which `show trace` mentions.
        let _ = self.trace.push(record);
    }
}
