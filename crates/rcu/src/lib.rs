//! Publish and retire: wait-free readers, quiescent-state reclamation.
#![allow(unsafe_code)]
