//! Packet memory: who owns a packet's bytes and what travels beside them.
//!
//! Owns the [`Pool`] (one per worker, never shared), the one-cache-line [`Meta`] beside each packet
//! and the [`Frame`], a vector of up to 256 packets on their way to the same node. Knows no protocol,
//! no driver and no thread: a pool is plain memory behind `&mut`.
//!
//! A buffer is one stride of the pool's mapping:
//!
//! ```text
//! | Meta 64 | headroom 128 | data 2,176 |      stride 2,368 = 37 cache lines
//! ```
//!
//! The stride is an odd number of cache lines on purpose: consecutive buffers then spread over all
//! sets of the first-level cache, where a power of two would put every header into the same few.
#![allow(unsafe_code)]

mod frame;
mod meta;
mod pages;
mod pool;
mod view;

pub use frame::{FRAME_SIZE, Frame, IF_MIXED};
pub use meta::{BufferIndex, Flags, IF_NONE, Meta};
pub use pages::PageKind;
pub use pool::{DATA_SIZE, HEADROOM, Pool, STRIDE};
pub use view::PoolView;

#[cfg(all(test, loom))]
mod loom_tests;
