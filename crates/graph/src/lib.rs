//! Nodes, feature arcs, dispatcher, worker loop, trace; knows no protocol.
#![allow(unsafe_code)]
