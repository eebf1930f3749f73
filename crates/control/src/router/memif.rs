//! The sockets that memif interfaces meet their peers on, by number.

use std::collections::BTreeMap;

use parshall_drivers::memif::MAX_SOCKET;

use super::Router;
use crate::drivers::DeviceKind;
use crate::error::{Error, Result};

/// Where socket 0 is, which is always there.
pub const DEFAULT_SOCKET: &str = "/run/parshall/memif.sock";

/// Sockets by number.
pub type MemifSockets = BTreeMap<u32, String>;

/// Those that are there from the start.
pub fn default_sockets() -> MemifSockets {
    MemifSockets::from([(0, DEFAULT_SOCKET.to_owned())])
}

impl Router {
    /// Gives a socket a number. Nobody listens or connects before an interface uses it.
    ///
    /// # Errors
    /// When the number is taken, or the path can be no socket's.
    pub fn add_memif_socket(&mut self, id: u32, path: &str) -> Result<()> {
        if path.is_empty() || path == "@" || path.len() > MAX_SOCKET {
            return Err(Error::refused(format!(
                "{path:?} cannot be the path of a socket: 1 to {MAX_SOCKET} bytes will do"
            )));
        }
        if let Some(there) = self.memif_sockets.get(&id) {
            let why = match id {
                0 => "it is always there".to_owned(),
                _ => format!("delete it first: delete memif socket id {id}"),
            };
            return Err(Error::refused(format!(
                "memif socket {id} is {there} already; {why}"
            )));
        }
        self.memif_sockets.insert(id, path.to_owned());
        self.undo(move |r| r.delete_memif_socket(id));
        Ok(())
    }

    /// Takes a socket's number away.
    ///
    /// # Errors
    /// When there is none of that number, it is number 0, or an interface uses it.
    pub fn delete_memif_socket(&mut self, id: u32) -> Result<()> {
        if id == 0 {
            return Err(Error::refused("memif socket 0 is always there"));
        }
        let path = self.memif_socket(id)?.to_owned();
        let uses = |kind: &DeviceKind| matches!(kind, DeviceKind::Memif(m) if m.socket_id == id);
        let user = self
            .interfaces
            .iter()
            .find(|i| i.spec.as_ref().is_some_and(|s| uses(&s.kind)));
        if let Some(user) = user {
            let name = &user.name;
            return Err(Error::refused(format!(
                "memif socket {id} is used by {name}; delete that first: delete interface memif {name}"
            )));
        }
        self.memif_sockets.remove(&id);
        self.undo(move |r| r.add_memif_socket(id, &path));
        Ok(())
    }

    /// Path of a socket.
    ///
    /// # Errors
    /// When there is none of that number.
    pub fn memif_socket(&self, id: u32) -> Result<&str> {
        let path = self.memif_sockets.get(&id).map(String::as_str);
        path.ok_or_else(|| {
            Error::refused(format!(
                "there is no memif socket {id}; make it with: create memif socket id {id} filename PATH"
            ))
        })
    }
}
