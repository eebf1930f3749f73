//! BGP routes as others tell them: MRT files, BMP sessions, UPDATE messages, a text form.
//!
//! Pure codecs, bytes or lines in, routes out: no socket, no file, no clock, and no BGP speaker. What a route says
//! is kept as a [`PathAttributes`], as far as telemetry has a use for it: AS path, communities, next hop, local
//! preference, and what a comparison of paths needs (RFC 4271 section 9.1).
//!
//! - [`update`]: messages and path attributes (RFC 4271, RFC 4760, RFC 6793, RFC 7911, RFC 1997); errors in them
//!   are handled as RFC 7606 says.
//! - [`mrt`]: routing tables and updates in files (RFC 6396, RFC 8050).
//! - [`bmp`]: what routers send to a monitoring station (RFC 7854, RFC 9069).
//! - [`text`]: a route a line, for people and scripts.
//!
//! All bytes are hostile: every length and count is checked against what is there, and nothing is allocated that the
//! input merely claims.

mod attributes;
pub mod bmp;
mod error;
pub mod mrt;
mod net;
mod open;
mod path;
mod reader;
pub mod text;
pub mod update;

pub use error::BgpError;
pub use net::{Net, Nlri};
pub use path::{Origin, PathAttributes, PathBuilder, SegmentKind};
