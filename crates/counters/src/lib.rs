//! Drop reasons and per-worker counters, written by one, read by all.
#![allow(unsafe_code)]
