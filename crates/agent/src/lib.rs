//! The sFlow agent: drains sample rings, polls counters, builds and sends datagrams.
