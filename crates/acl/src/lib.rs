//! Access lists: ordered rules that permit or deny packets by addresses, protocol, ports and TCP flags.
//!
//! Owns the [`Rule`], the [`Key`] (what a packet shows to the rules, read within bounds), the [`Classifier`]
//! that a list of rules is compiled to, and the [`Hits`] that workers count. The meaning is that of VPP's acl
//! plugin: the first rule that matches decides, what matches none is denied. Beside them [`Macip`]: which stations may
//! send from which addresses. Knows no node and no interface.

mod bits;
mod classifier;
mod hits;
mod key;
mod list;
mod macip;
mod rule;
#[cfg(test)]
mod tests;

pub use classifier::Classifier;
pub use hits::Hits;
pub use key::{Key, Key4, Key6, L4, UpperLayer};
pub use list::{AclList, AclTables, Compiled, Entry};
pub use macip::{Macip, MacipRule, MacipTables};
pub use rule::{Action, BadRule, Rule};

/// Rules that the lists of one interface and direction may have together.
pub const MAX_RULES: usize = 16_384;
