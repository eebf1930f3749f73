//! The client's side of telnet, taken apart: bytes, and what it says of its terminal. Pure.
//!
//! Options are neither granted nor refused: what the server wants it has said in its greeting, and what a client
//! says of others is not answered, as VPP does not.

/// Interpret as command (RFC 854).
const IAC: u8 = 255;
/// Sub-negotiation begins and ends (RFC 855).
const SB: u8 = 250;
const SE: u8 = 240;
/// WILL, WONT, DO, DONT: each is followed by an option.
const WITH_OPTION: std::ops::RangeInclusive<u8> = 251..=254;
/// Option terminal type (RFC 1091).
const TERMINAL_TYPE: u8 = 24;
/// "The terminal's type is", behind it.
const IS: u8 = 0;
/// Most bytes kept of a sub-negotiation.
const MAX_SUB: usize = 64;

/// Something received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A byte of data.
    Byte(u8),
    /// The type of the terminal.
    Terminal(String),
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Data,
    Command,
    Option,
    Sub,
    SubCommand,
}

/// Takes a stream apart.
#[derive(Clone, Debug, Default)]
pub struct Telnet {
    state: State,
    sub: Vec<u8>,
}

impl Telnet {
    /// Takes the next byte.
    pub fn feed(&mut self, byte: u8) -> Option<Input> {
        match self.state {
            State::Data if byte == IAC => self.state = State::Command,
            State::Data => return Some(Input::Byte(byte)),
            State::Command => {
                self.state = State::Data;
                match byte {
                    IAC => return Some(Input::Byte(IAC)),
                    SB => {
                        self.sub.clear();
                        self.state = State::Sub;
                    }
                    b if WITH_OPTION.contains(&b) => self.state = State::Option,
                    _ => {}
                }
            }
            State::Option => self.state = State::Data,
            State::Sub if byte == IAC => self.state = State::SubCommand,
            State::Sub => self.keep(byte),
            State::SubCommand => match byte {
                SE => {
                    self.state = State::Data;
                    return self.negotiated();
                }
                _ => {
                    self.keep(byte);
                    self.state = State::Sub;
                }
            },
        }
        None
    }

    fn keep(&mut self, byte: u8) {
        if self.sub.len() < MAX_SUB {
            self.sub.push(byte);
        }
    }

    fn negotiated(&self) -> Option<Input> {
        match self.sub.split_first_chunk() {
            Some((&[TERMINAL_TYPE, IS], name)) => {
                Some(Input::Terminal(String::from_utf8_lossy(name).into_owned()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Input> {
        let mut telnet = Telnet::default();
        bytes.iter().filter_map(|b| telnet.feed(*b)).collect()
    }

    #[test]
    fn a_terminal_is_told_from_data() {
        // What vppctl sends: its terminal, a window, a command; a client of telnet sends options as well.
        let got = all(b"\xff\xfa\x18\x00vppctl\xff\xf0\xff\xfa\x1f\x00\x50\x00\x18\xff\xf0ab\xff\xfb\x18c\xff\xff");
        let bytes = b"abc\xff".map(Input::Byte);
        assert_eq!(got[0], Input::Terminal("vppctl".into()));
        assert_eq!(got[1..], bytes);
    }

    #[test]
    fn a_negotiation_without_an_end_takes_no_memory() {
        let mut telnet = Telnet::default();
        for byte in [IAC, SB] {
            assert_eq!(telnet.feed(byte), None);
        }
        for _ in 0..10_000 {
            assert_eq!(telnet.feed(b'x'), None);
        }
        assert_eq!(telnet.sub.len(), MAX_SUB);
        assert_eq!(telnet.feed(IAC), None);
        assert_eq!(telnet.feed(SE), None);
        assert_eq!(telnet.feed(b'y'), Some(Input::Byte(b'y')));
    }
}
