//! Interface drivers, one folder each: pg, pcap, tap, af_packet, loopback.
#![allow(unsafe_code)]
