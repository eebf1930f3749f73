//! VPP's binary API as data: frames, messages with their CRCs, and the API JSON that clients read.
//!
//! What a message is stands once, in a text of `api/`: from it come the Rust structs of [`msg`] with their encoding, the table
//! [`MESSAGES`], the JSON of each of [`MODULES`] and the reference page. Pure: bytes in, bytes out. Whatever arrives is bounded by
//! the bytes that are there, never by a count in them.

mod address;
mod frame;
pub mod schema;
mod wire;

pub use frame::{FRAME_HEADER, FrameError, Frames, frame};
pub use wire::{DecodeError, Lead, Message, Reader, Wire, error_reply};

pub use schema::Header;

/// All types and messages, by their names in CamelCase.
pub mod msg {
    use crate::schema::Header;
    use crate::wire::{DecodeError, Message, Reader, Wire, count, put_long_text, put_text};

    include!(concat!(env!("OUT_DIR"), "/messages.rs"));
}

/// What is known of a message.
#[derive(Clone, Copy, Debug)]
pub struct MessageInfo {
    /// Its name.
    pub name: &'static str,
    /// Its CRC.
    pub crc: u32,
    /// The module it is of.
    pub module: &'static str,
    /// What leads it.
    pub header: Header,
    /// Its first field says how it went.
    pub retval: bool,
    /// Fewest bytes after what leads it.
    pub least: usize,
    /// The message that ends the answer to it; a dump has none.
    pub reply: Option<&'static str>,
}

impl MessageInfo {
    /// Name and CRC, as clients look it up.
    pub fn tagged(&self) -> String {
        format!("{}_{:08x}", self.name, self.crc)
    }
}

/// What is known of a module.
#[derive(Clone, Copy, Debug)]
pub struct ModuleInfo {
    /// Its name.
    pub name: &'static str,
    /// Major, minor and patch.
    pub version: [u32; 3],
    /// CRC of VPP's file of that name.
    pub crc: u32,
    /// Number of its first message.
    pub first: u16,
    /// Messages it has.
    pub count: u16,
    /// Its API JSON.
    pub json: &'static str,
}

fn body_again<M: Message>(body: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::new();
    M::get(&mut Reader::new(body))?.put(&mut out);
    Ok(out)
}

include!(concat!(env!("OUT_DIR"), "/info.rs"));

/// A message by its number.
pub fn message(id: u16) -> Option<&'static MessageInfo> {
    MESSAGES.get(usize::from(id).checked_sub(1)?)
}

/// The number of a message.
pub fn id_of(name: &str) -> Option<u16> {
    let at = MESSAGES.iter().position(|m| m.name == name)?;
    u16::try_from(at + 1).ok()
}

/// The JSON of all modules, as one array: what `get_api_json` answers.
pub fn all_json() -> String {
    let all: Vec<&str> = MODULES.iter().map(|m| m.json).collect();
    format!("[{}]", all.join(","))
}

#[cfg(test)]
mod tests;
