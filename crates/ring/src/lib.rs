//! Bounded single-producer single-consumer rings with an overflow count.
#![allow(unsafe_code)]
