//! Packet memory: pool, buffer metadata, frame.
#![allow(unsafe_code)]
