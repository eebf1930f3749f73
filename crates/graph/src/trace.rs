//! Packet trace: what a marked packet looked like at each node it passed.
//!
//! The dispatcher captures, before a node works, the bytes the node is about to parse and, after it, the
//! metadata and the verdict. Nodes do nothing for it; each only has a formatter for the record.

use parshall_buffer::Meta;

use crate::NodeId;

/// Packet bytes a trace record keeps.
pub const TRACE_BYTES: usize = 96;

/// One traced packet at one node.
#[derive(Clone, Copy)]
pub struct TraceRecord {
    /// Identity of the packet within the worker.
    pub packet: u32,
    /// Node that worked on it.
    pub node: NodeId,
    /// Verdict: index into the node's next list, or a special one.
    pub next: u16,
    /// Monotonic time in ns.
    pub time: u64,
    /// Metadata after the node's work.
    pub meta: Meta,
    /// Bytes of `data` in use.
    pub len: u16,
    /// Bytes of the whole packet before the node's work.
    pub total_len: u32,
    /// First bytes from the current header, before the node's work.
    pub data: [u8; TRACE_BYTES],
}

impl Default for TraceRecord {
    fn default() -> Self {
        TraceRecord {
            packet: 0,
            node: 0,
            next: 0,
            time: 0,
            meta: Meta::received(0, 0, 0),
            len: 0,
            total_len: 0,
            data: [0; TRACE_BYTES],
        }
    }
}

impl TraceRecord {
    /// The captured bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.data[..usize::from(self.len).min(TRACE_BYTES)]
    }
}

/// The default formatter: length and the first bytes in hex.
pub fn hex_line(r: &TraceRecord) -> String {
    let mut out = format!("length {}:", r.total_len);
    for (i, b) in r.bytes().iter().take(32).enumerate() {
        out.push_str(if i % 4 == 0 { " " } else { "" });
        out.push_str(&format!("{b:02x}"));
    }
    out
}
