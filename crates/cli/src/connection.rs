//! The client's end of the command socket, and what to tell a person when it cannot be reached.

use crate::protocol::{WireReply, WireRequest};
use nix::unistd::{Gid, Group, Uid, User};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the router cannot be asked.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// There is no such socket.
    #[error(
        "{0}: no such socket. Is the router running? Start it with: parshall run -c FILE.yaml (if it listens elsewhere, say --socket PATH)"
    )]
    NoSocket(PathBuf),
    /// Nobody listens on it.
    #[error(
        "{0}: nobody listens there any more: the router ended without removing it. Start it with: parshall run -c FILE.yaml"
    )]
    Stale(PathBuf),
    /// The user may not use it.
    #[error("{path}: permission denied: {who}")]
    Denied {
        /// The socket.
        path: PathBuf,
        /// Who may, and how to become one of them.
        who: String,
    },
    /// The router closed the connection.
    #[error("the router closed the connection")]
    Closed,
    /// The system refused.
    #[error("{path}: {error}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// What came back is not a reply.
    #[error("the router's reply makes no sense: {0}")]
    Nonsense(String),
}

/// A connection to a running router.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    reader: BufReader<UnixStream>,
    next_id: u64,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Why not, with what to do about it.
    pub fn open(path: &Path) -> Result<Connection, ConnectionError> {
        let stream = UnixStream::connect(path).map_err(|error| explain(path, error))?;
        Ok(Connection {
            path: path.to_owned(),
            reader: BufReader::new(stream),
            next_id: 1,
        })
    }

    /// Executes a command; with `json` the reply is data where the command has any.
    ///
    /// # Errors
    /// Only if the router cannot be asked; a command that fails is a reply with an error.
    pub fn execute(&mut self, line: &str, json: bool) -> Result<WireReply, ConnectionError> {
        self.ask(WireRequest {
            line: Some(line.to_owned()),
            json,
            ..WireRequest::default()
        })
    }

    /// Executes a command that is about a text.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    pub fn execute_with(
        &mut self,
        line: &str,
        json: bool,
        input: Option<String>,
    ) -> Result<WireReply, ConnectionError> {
        self.ask(WireRequest {
            line: Some(line.to_owned()),
            json,
            input,
            ..WireRequest::default()
        })
    }

    /// Asks what may stand at byte `cursor` of `line`.
    ///
    /// # Errors
    /// If the router cannot be asked.
    pub fn complete(&mut self, line: &str, cursor: usize) -> Result<WireReply, ConnectionError> {
        self.ask(WireRequest {
            complete: Some(line.to_owned()),
            cursor: Some(cursor),
            ..WireRequest::default()
        })
    }

    /// Asks for the help behind `line`.
    ///
    /// # Errors
    /// If the router cannot be asked.
    pub fn help(&mut self, line: &str) -> Result<WireReply, ConnectionError> {
        self.ask(WireRequest {
            help: Some(line.to_owned()),
            ..WireRequest::default()
        })
    }

    fn ask(&mut self, mut request: WireRequest) -> Result<WireReply, ConnectionError> {
        let id = serde_json::Value::from(self.next_id);
        self.next_id += 1;
        request.id = Some(id.clone());
        let mut line =
            serde_json::to_vec(&request).map_err(|e| ConnectionError::Nonsense(e.to_string()))?;
        line.push(b'\n');
        // A server that has no room says so and closes: then writing fails but a reply waits.
        let written = self.reader.get_mut().write_all(&line);
        let mut reply = Vec::new();
        let got = self.reader.read_until(b'\n', &mut reply);
        if reply.is_empty() {
            return Err(match written.and(got.map(drop)) {
                Err(error) if !is_hang_up(&error) => ConnectionError::Io {
                    path: self.path.clone(),
                    error,
                },
                _ => ConnectionError::Closed,
            });
        }
        let reply: WireReply =
            serde_json::from_slice(&reply).map_err(|e| ConnectionError::Nonsense(e.to_string()))?;
        // A refusal of the connection as a whole has no id.
        if reply.id.as_ref().is_some_and(|got| *got != id) {
            return Err(ConnectionError::Nonsense(
                "it answers another request".to_owned(),
            ));
        }
        Ok(reply)
    }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof
    )
}

fn explain(path: &Path, error: io::Error) -> ConnectionError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound => ConnectionError::NoSocket(path),
        io::ErrorKind::ConnectionRefused => ConnectionError::Stale(path),
        io::ErrorKind::PermissionDenied => ConnectionError::Denied {
            who: who_may(&path),
            path,
        },
        _ => ConnectionError::Io { path, error },
    }
}

fn who_may(path: &Path) -> String {
    let Ok(metadata) = fs::metadata(path) else {
        return "its folder cannot be entered; try it as root".to_owned();
    };
    let owner = match User::from_uid(Uid::from_raw(metadata.uid())) {
        Ok(Some(user)) => user.name,
        _ => metadata.uid().to_string(),
    };
    let group = match Group::from_gid(Gid::from_raw(metadata.gid())) {
        Ok(Some(group)) => group.name,
        _ => metadata.gid().to_string(),
    };
    denied_text(&owner, &group)
}

fn denied_text(owner: &str, group: &str) -> String {
    if group == owner {
        return format!(
            "only {owner} may; use sudo, or set the socket's group in the router's configuration"
        );
    }
    format!(
        "only {owner} and members of group {group} may; join it with: sudo usermod -aG {group} $USER, and log in again"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn an_unreachable_router_is_explained() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("cli.sock");
        let error = Connection::open(&path).expect_err("no socket");
        assert!(error.to_string().contains("parshall run -c"), "{error}");
        drop(UnixListener::bind(&path).expect("bound"));
        let error = Connection::open(&path).expect_err("stale");
        assert!(error.to_string().contains("nobody listens"), "{error}");
        let error = explain(&path, io::ErrorKind::PermissionDenied.into());
        assert!(
            error.to_string().contains("permission denied: only "),
            "{error}"
        );
    }

    #[test]
    fn a_denial_names_the_group_to_join() {
        assert!(denied_text("root", "parshall").contains("usermod -aG parshall"));
        assert!(denied_text("root", "root").contains("sudo"));
    }

    #[test]
    fn a_server_that_hangs_up_or_babbles_is_an_error() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("cli.sock");
        let listener = UnixListener::bind(&path).expect("bound");
        for (answer, want) in [
            ("", "closed the connection"),
            ("hello\n", "no sense"),
            ("{\"id\":9,\"ok\":true}\n", "another request"),
        ] {
            let mut connection = Connection::open(&path).expect("connected");
            let (mut stream, _) = listener.accept().expect("accepted");
            stream.write_all(answer.as_bytes()).expect("written");
            drop(stream);
            let error = connection
                .execute("show version", false)
                .expect_err("no reply");
            assert!(error.to_string().contains(want), "{answer:?}: {error}");
        }
    }
}
