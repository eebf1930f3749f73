//! The socket that VPP's `vppctl` speaks to: a little of telnet (RFC 854, 855, 1073, 1091) as VPP's
//! `vlib/unix/cli.c` has it.
//!
//! The server speaks first and asks for the terminal's type. A client that calls itself `vppctl` is a program:
//! it gets no banner, no prompt and no echo, and a zero byte behind the output of each command. Any other is a
//! person: the server echoes, edits the line ([`Editor`]) and prompts. One that says nothing for a second is
//! taken for a person with a plain terminal. There is no pager.

mod editor;
mod telnet;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use parshall_command::{Candidate, Reply, RequestKind};

pub use editor::{Editor, Event};
pub use telnet::{Input, Telnet};

/// What the server says first, in one piece: `vppctl` reads it with one call. LINEMODE and ECHO are the server's
/// business, go-aheads are not sent, terminal type and window size are wanted.
pub const GREETING: [u8; 36] = [
    0xff, 0xfc, 0x22, 0xff, 0xfe, 0x22, 0xff, 0xfb, 0x03, 0xff, 0xfd, 0x03, 0xff, 0xfb, 0x01, 0xff,
    0xfe, 0x01, 0xff, 0xfd, 0x18, 0xff, 0xfa, 0x18, 0x01, 0xff, 0xf0, 0xff, 0xfd, 0x1f, 0xff, 0xfa,
    0x1f, 0x01, 0xff, 0xf0,
];

/// What a person is asked with.
pub const PROMPT: &str = "vpp# ";
/// Longest line in bytes.
pub const MAX_LINE: usize = 64 << 10;
/// How long a client may take to say what terminal it has.
const NEGOTIATION: Duration = Duration::from_secs(1);

/// Whoever carries commands out.
pub(crate) type Ask<'a> = &'a dyn Fn(RequestKind, &str) -> Reply;

/// Serves one client until it leaves.
///
/// # Errors
/// When the connection breaks.
pub(crate) fn serve(stream: &UnixStream, ask: Ask<'_>) -> io::Result<()> {
    (&*stream).write_all(&GREETING)?;
    stream.set_read_timeout(Some(NEGOTIATION))?;
    let mut session = Session {
        stream,
        ask,
        telnet: Telnet::default(),
        early: Vec::new(),
        mode: Mode::Unknown,
    };
    let mut bytes = [0; 1024];
    loop {
        let n = match (&*stream).read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                session.begin(false)?;
                continue;
            }
            Err(e) => return Err(e),
        };
        if !session.take(&bytes[..n])? {
            return Ok(());
        }
    }
}

/// How a client is served.
enum Mode {
    /// It has not said yet.
    Unknown,
    /// A program: the line so far.
    Program(Vec<u8>),
    /// A person.
    Person(Box<Editor>),
}

struct Session<'s> {
    stream: &'s UnixStream,
    ask: Ask<'s>,
    telnet: Telnet,
    /// What came before it was known who sends it.
    early: Vec<u8>,
    mode: Mode,
}

impl Session<'_> {
    /// Takes what was received. False when the client is to go.
    fn take(&mut self, bytes: &[u8]) -> io::Result<bool> {
        for byte in bytes {
            let goes_on = match self.telnet.feed(*byte) {
                Some(Input::Byte(byte)) => self.byte(byte)?,
                Some(Input::Terminal(term)) if matches!(self.mode, Mode::Unknown) => {
                    self.begin(term == "vppctl")?
                }
                Some(Input::Terminal(_)) | None => true,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins to serve, now that it is known whom.
    fn begin(&mut self, program: bool) -> io::Result<bool> {
        self.stream.set_read_timeout(None)?;
        if program {
            self.mode = Mode::Program(Vec::new());
        } else {
            self.mode = Mode::Person(Box::default());
            let version = env!("CARGO_PKG_VERSION");
            self.write(format!("Parshall v{version}\r\n\r\n{PROMPT}").as_bytes())?;
        }
        for byte in std::mem::take(&mut self.early) {
            if !self.byte(byte)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn byte(&mut self, byte: u8) -> io::Result<bool> {
        match &mut self.mode {
            Mode::Unknown if self.early.len() >= MAX_LINE => Ok(false),
            Mode::Unknown => {
                self.early.push(byte);
                Ok(true)
            }
            Mode::Program(line) => match byte {
                0 | b'\r' => Ok(true),
                b'\n' => {
                    let line = std::mem::take(line);
                    self.program(&String::from_utf8_lossy(&line))
                }
                _ if line.len() >= MAX_LINE => {
                    self.write(b"the line is too long\n\0")?;
                    Ok(false)
                }
                _ => {
                    line.push(byte);
                    Ok(true)
                }
            },
            Mode::Person(editor) => {
                let event = editor.feed(byte);
                let shown = editor.output();
                self.write(&shown)?;
                self.person(event)
            }
        }
    }

    /// A program's line.
    fn program(&mut self, line: &str) -> io::Result<bool> {
        if is_quit(line) {
            return Ok(false);
        }
        let mut text = self.execute(line);
        // The one byte that cannot be in it: it ends the output.
        text.retain(|c| c != '\0');
        text.push('\0');
        self.write(text.as_bytes())?;
        Ok(true)
    }

    fn person(&mut self, event: Event) -> io::Result<bool> {
        match event {
            Event::None => return Ok(true),
            Event::Quit => return Ok(false),
            Event::Line(line) if is_quit(&line) => return Ok(false),
            Event::Line(line) => {
                let text = self.execute(&line);
                self.write(format!("{}{PROMPT}", for_terminal(&text)).as_bytes())?;
            }
            Event::Help(before) => {
                let text = match (self.ask)(RequestKind::Help, &before) {
                    Reply::Text(text) | Reply::Error(text) => text,
                    _ => String::new(),
                };
                self.show_and_redraw(&ended(text))?;
            }
            Event::Complete(before) => {
                let cursor = before.len();
                if let Reply::Candidates(all) =
                    (self.ask)(RequestKind::Complete { cursor }, &before)
                {
                    self.complete(&before, &all)?;
                }
            }
        }
        Ok(true)
    }

    /// Puts in what all candidates begin with, or lists them when that is nothing new.
    fn complete(&mut self, before: &str, all: &[Candidate]) -> io::Result<()> {
        let Some(first) = all.first() else {
            return Ok(());
        };
        let typed = before.get(first.start..).unwrap_or_default();
        let common = all.iter().fold(first.text.as_str(), |common, c| {
            let same = common.bytes().zip(c.text.bytes());
            let n = same.take_while(|(a, b)| a == b).count();
            common.get(..n).unwrap_or_default()
        });
        let mut added = common.strip_prefix(typed).unwrap_or_default().to_owned();
        if all.len() == 1 {
            added.push(' ');
        }
        if added.is_empty() {
            let list: String = all
                .iter()
                .map(|c| format!("  {:<24} {}\n", c.text, c.help))
                .collect();
            return self.show_and_redraw(&list);
        }
        let Mode::Person(editor) = &mut self.mode else {
            return Ok(());
        };
        editor.insert(&added);
        let shown = editor.output();
        self.write(&shown)
    }

    /// Prints something between the line being typed and itself.
    fn show_and_redraw(&mut self, text: &str) -> io::Result<()> {
        self.write(format!("\r\n{}", for_terminal(text)).as_bytes())?;
        if let Mode::Person(editor) = &mut self.mode {
            editor.redraw();
            let shown = editor.output();
            self.write(&shown)?;
        }
        Ok(())
    }

    fn execute(&mut self, line: &str) -> String {
        if line.trim().is_empty() {
            return String::new();
        }
        match (self.ask)(RequestKind::Execute { json: false }, line.trim()) {
            Reply::Text(text) | Reply::Error(text) => ended(text),
            Reply::Data(data) => ended(data.to_string()),
            Reply::Candidates(_) => String::new(),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.stream).write_all(bytes)
    }
}

fn is_quit(line: &str) -> bool {
    matches!(line.trim(), "quit" | "exit" | "q")
}

/// With an end of line at its end, if it is anything.
fn ended(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Text as a terminal wants it.
fn for_terminal(text: &str) -> String {
    text.replace('\0', "").replace('\n', "\r\n")
}
