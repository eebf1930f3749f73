//! memif: sockets, and the commands that make interfaces.

use std::collections::BTreeSet;

use super::Builder;
use super::devices::option;
use super::interfaces::Interface;
use crate::plan::word;
use crate::record::{Checked, Record};

/// Whether a name is one that memif gives by itself: `memif`, the number of a socket, a slash, the number
/// on it. Says the two.
pub fn numbers(suffix: &str) -> Option<(u32, u32)> {
    let (socket, id) = suffix.split_once('/')?;
    // `memif00/0` would be made as `memif0/0`.
    let number = |text: &str| {
        let n = text.parse::<u32>().ok().filter(|n| *n < u32::MAX);
        n.filter(|n| n.to_string() == text)
    };
    Some((number(socket)?, number(id)?))
}

impl Builder<'_, '_> {
    /// Commands for sockets.
    pub(super) fn memif_sockets(&mut self) {
        let file = self.file;
        let Some(section) = file.record("memif") else {
            return;
        };
        let mut seen = BTreeSet::new();
        for item in section.list("sockets") {
            let Checked::Record(r) = &item.value else {
                continue;
            };
            for field in ["id", "filename"] {
                if !r.has(field) && !r.flawed {
                    self.error(r, field, format!("`{field}` is missing"));
                }
            }
            let (Some(id), Some(path)) = (r.uint("id"), r.text("filename")) else {
                continue;
            };
            if !seen.insert(id) {
                self.error(r, "id", format!("socket {id} is in this list already"));
            }
            let line = format!("create memif socket id {id} filename {}", word(path));
            self.line(r, "", line);
        }
    }

    /// The command that makes an interface.
    pub(super) fn memif(&mut self, i: Interface<'_>) -> String {
        let r = i.record;
        let said = i.suffix.and_then(numbers);
        let socket = self.number_of(r, "socket-id", said.map(|s| s.0));
        let id = self.number_of(r, "id", said.map(|s| s.1));
        self.check_socket(r, socket);
        let role = r.text("role").unwrap_or("master");
        let mut line = format!("create interface memif socket-id {socket} id {id} {role}");
        if i.suffix.is_none() {
            line += &format!(" name {}", i.name);
        }
        for (field, words) in [
            ("mac", "hw-addr"),
            ("ring-size", "ring-size"),
            ("buffer-size", "buffer-size"),
            ("queues", "rx-queues"),
            ("tx-queues", "tx-queues"),
            ("secret", "secret"),
        ] {
            line += &option(r, field, words);
        }
        line
    }

    /// A number that a field says, or the name, or neither; not both.
    fn number_of(&mut self, r: &Record, field: &str, said: Option<u32>) -> u32 {
        let given = r.uint(field).map(|n| n as u32);
        if let (Some(given), Some(said)) = (given, said)
            && given != said
        {
            let message = format!("the interface's name says {said}; leave this out or rename it");
            self.error(r, field, message);
        }
        given.or(said).unwrap_or(0)
    }

    fn check_socket(&mut self, r: &Record, socket: u32) {
        let file = self.file;
        let sockets = file.record("memif").map_or(&[][..], |m| m.list("sockets"));
        let is = |item: &crate::record::Item| match &item.value {
            Checked::Record(s) => s.flawed || s.uint("id") == Some(u64::from(socket)),
            _ => true,
        };
        if socket != 0 && !sockets.iter().any(is) && !file.flawed {
            let message = format!(
                "there is no memif socket {socket} in this file; add it under `memif.sockets`"
            );
            let field = if r.has("socket-id") { "socket-id" } else { "" };
            self.error(r, field, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_others() {
        assert_eq!(numbers("0/0"), Some((0, 0)));
        assert_eq!(numbers("12/4294967294"), Some((12, 4_294_967_294)));
        for wrong in [
            "",
            "0",
            "0/",
            "/0",
            "00/1",
            "0/01",
            "+1/1",
            "0/4294967295",
            "0/0/0",
            "a/b",
        ] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }
}
