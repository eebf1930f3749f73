//! The one choke point for Linux: namespaces, links, addresses, ioctls, affinity.
#![allow(unsafe_code)]
