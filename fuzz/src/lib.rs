//! What several fuzz targets share: datagrams built from a plan, the properties of what is decoded, and a meter of memory.

pub mod heap;
pub mod plan;
pub mod properties;
