//! The command grammar: every command is described once, as data, and from that one description come
//! matching, completion, `?` help, the markdown reference and the JSON listing.
//!
//! The language is VPP's: words, abbreviated by any unique prefix. This crate is pure: it knows no
//! router, no socket and no clock. What it needs to know of the running system (the names of the
//! interfaces, say) it asks through [`Names`].
//!
//! ```
//! use parshall_command::{CommandSpec, CommandTable, NoNames};
//! let table = CommandTable::new(vec![CommandSpec {
//!     pattern: "set interface mtu [packet] <mtu:u32 68..=9216> <if:interface>",
//!     help: "Set the largest packet an interface takes",
//!     detail: "",
//!     params: &[("mtu", "Bytes, without the Ethernet header")],
//!     handler: (),
//! }])
//! .unwrap();
//! let found = table.parse("se int mtu 1500 tap0", &NoNames).unwrap();
//! assert_eq!(found.args.get::<u32>("mtu"), Some(1500));
//! assert_eq!(found.args.get::<&str>("if"), Some("tap0"));
//! let error = table.parse("set int mtu 20 tap0", &NoNames).unwrap_err();
//! assert!(error.message.contains("68..=9216"));
//! ```
//!
//! # The pattern language
//!
//! | construct | meaning |
//! |---|---|
//! | `word` | that word or a unique prefix of it |
//! | `<name:kind>` | an argument; the kinds are listed at [`Kind`] |
//! | `[ a b ]` | optional |
//! | `( a \| b )` | one of several |
//! | `[* a <x:u32> \| b \| c ]` | options in any order, each at most once |
//! | `(+ a <x:u32>)` `(* a)` | one or more times, none or more times: read with [`Args::all`] |
//! | `(+path via <nh:ip>)` | the same with a name: each turn is one [`Args`] of [`Args::group`] |
//!
//! Where several readings of a word are possible, the first of these wins: the exact literal word; an
//! argument whose form is unmistakable (number, address) or that is a known name; a unique prefix of a
//! literal; any other argument. A quoted word is never a literal.

mod complete;
mod docs;
mod error;
mod kind;
mod matcher;
mod pattern;
mod program;
pub mod shell;
mod table;
mod token;
mod value;

pub use complete::Candidate;
pub use error::{ErrorKind, ParseError, distance, shown};
pub use kind::{Kind, Names, NoNames};
pub use pattern::PatternError;
pub use shell::{Asking, Reply, Request, RequestKind, Shell, Waker};
pub use table::{CommandSpec, CommandTable, Matched};
pub use token::{Script, ScriptLine, Token, TokenKind, tokenize};
pub use value::{ArgError, Args, FromValue, Mac, Prefix, Value};
