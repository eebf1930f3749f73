//! Longest-prefix match, MPLS labels, adjacencies, load balance.
#![allow(unsafe_code)]
