//! Interface drivers, one folder each: pg, pcap, tap, af_packet, af_xdp, loopback, memif.
#![allow(unsafe_code)]

pub mod af_packet;
pub mod af_xdp;
mod host;
pub mod loopback;
pub mod memif;
pub mod pcap;
pub mod pg;
mod taken;
pub mod tap;
