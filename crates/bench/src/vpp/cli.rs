//! VPP's command line over its socket.
//!
//! It speaks telnet (RFC 854, terminal type RFC 1091): VPP asks for the terminal's type and, when that is
//! `vppctl`, stops prompting and echoing; from then on a command is a line and its answer ends with a NUL.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::BenchError;

const IAC: u8 = 255;
const SB: u8 = 250;
const SE: u8 = 240;
const TERMINAL_TYPE: u8 = 24;
/// Longest time for an answer: a file of a million routes takes seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest answer that is kept.
const LONGEST: usize = 4 << 20;
/// What answers to commands that did not work contain.
const COMPLAINTS: [&str; 6] = [
    "unknown",
    "error",
    "failed",
    "invalid",
    "not found",
    "unsupported",
];

/// A session.
pub struct Cli {
    socket: UnixStream,
    /// Read and not yet looked at.
    rest: Vec<u8>,
}

impl Cli {
    /// Connects to the socket at `path`, which may take `patience` to appear. `alive` says whether VPP
    /// still runs.
    ///
    /// # Errors
    /// When it does not appear, VPP ends, or does not ask for the terminal's type.
    pub fn connect(
        path: &Path,
        patience: Duration,
        mut alive: impl FnMut() -> Result<(), BenchError>,
    ) -> Result<Cli, BenchError> {
        let start = Instant::now();
        let socket = loop {
            match UnixStream::connect(path) {
                Ok(socket) => break socket,
                Err(e) if start.elapsed() > patience => {
                    return Err(BenchError::of("VPP's command socket", e));
                }
                Err(_) => alive()?,
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        socket.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        let mut cli = Cli {
            socket,
            rest: Vec::new(),
        };
        cli.introduce()?;
        Ok(cli)
    }

    /// Answers the question for the terminal's type. What else was offered is left unanswered, as VPP's
    /// own client does.
    fn introduce(&mut self) -> Result<(), BenchError> {
        let question = [IAC, SB, TERMINAL_TYPE];
        while !self.rest.windows(3).any(|w| w == question) {
            self.read()?;
        }
        // The rest of the greeting, up to the last option, is dropped with the answer to the first command.
        let answer = [&[IAC, SB, TERMINAL_TYPE, 0][..], b"vppctl", &[IAC, SE]].concat();
        self.socket.write_all(&answer).map_err(fail)
    }

    /// Gives a command; its answer.
    ///
    /// # Errors
    /// When VPP complains, says nothing for long, or is gone.
    pub fn run(&mut self, command: &str) -> Result<String, BenchError> {
        let answer = self.ask(command)?;
        let lower = answer.to_lowercase();
        // What a `show` prints may contain any word.
        if !command.starts_with("show") && COMPLAINTS.iter().any(|c| lower.contains(c)) {
            return Err(BenchError(format!("VPP: `{command}`: {}", answer.trim())));
        }
        Ok(answer)
    }

    fn ask(&mut self, command: &str) -> Result<String, BenchError> {
        self.socket
            .write_all(format!("{command}\n").as_bytes())
            .map_err(fail)?;
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == 0 || *b == IAC) {
                if self.rest[end] == IAC {
                    match option(&self.rest[end..]) {
                        Some(len) => drop(self.rest.drain(end..end + len)),
                        None => self.read()?,
                    }
                    continue;
                }
                let answer: Vec<u8> = self.rest.drain(..=end).collect();
                let text = String::from_utf8_lossy(&answer[..end]).replace('\r', "");
                return Ok(text);
            }
            self.read()?;
        }
    }

    fn read(&mut self) -> Result<(), BenchError> {
        let mut bytes = [0u8; 4096];
        match self.socket.read(&mut bytes).map_err(fail)? {
            0 => Err(BenchError("VPP closed its command socket".into())),
            _ if self.rest.len() > LONGEST => Err(BenchError("VPP answers without end".into())),
            n => {
                self.rest.extend_from_slice(&bytes[..n]);
                Ok(())
            }
        }
    }
}

fn fail(e: std::io::Error) -> BenchError {
    BenchError::of("VPP's command socket", e)
}

/// Length of the telnet option at the start of `bytes`, `None` while it is not whole.
fn option(bytes: &[u8]) -> Option<usize> {
    match bytes.get(1)? {
        &SB => {
            let end = bytes.windows(2).position(|w| w == [IAC, SE])?;
            Some(end + 2)
        }
        _ => (bytes.len() >= 3).then_some(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_measured() {
        assert_eq!(option(&[IAC, 253, 24, b'x']), Some(3));
        assert_eq!(option(&[IAC, SB, 24, 1, IAC, SE, b'x']), Some(6));
        assert_eq!(option(&[IAC, SB, 24, 1, IAC]), None);
        assert_eq!(option(&[IAC, 253]), None);
        assert_eq!(option(&[IAC]), None);
    }
}
