//! Interface drivers, one folder each: pg, pcap, tap, af_packet, loopback, memif.
#![allow(unsafe_code)]

pub mod af_packet;
pub mod loopback;
pub mod memif;
pub mod pcap;
pub mod pg;
pub mod tap;
