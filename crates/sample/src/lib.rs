//! Packet sampling: skip arithmetic, pool and drop accounting, sample record.
