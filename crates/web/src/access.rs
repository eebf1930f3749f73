//! Who may do what: the token, the host that is named, and where a request comes from.
//!
//! Reading is open to whoever reaches the listener, unless there is a token: then TCP clients show it (RFC 6750). Commands
//! change the router: they are off, and then want the UNIX socket (whose mode and group say who may) or the token. A
//! page in somebody's browser must not read a router on the loopback by a name that it made point there (DNS
//! rebinding): there the Host header is an address or `localhost`.

use std::io::Read;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::answer::Problem;

/// Shortest token in bytes: 16 of them at random cannot be guessed.
const SHORTEST: usize = 16;
/// Longest token in bytes.
const LONGEST: usize = 4096;

/// A bearer token.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// The token that a file holds: one line of at least 16 characters, for the owner and the group alone.
    ///
    /// # Errors
    /// What is wrong with the file, and what to do about it.
    pub fn load(path: &Path) -> Result<Token, String> {
        let cannot = |e: std::io::Error| format!("{}: cannot be read: {e}", path.display());
        let file = std::fs::File::open(path).map_err(cannot)?;
        let about = file.metadata().map_err(cannot)?;
        if !about.is_file() {
            return Err(format!("{}: is not a plain file", path.display()));
        }
        if about.mode() & 0o007 != 0 {
            return Err(format!(
                "{0}: everybody may read or write this token; run: chmod o= {0}",
                path.display()
            ));
        }
        let mut text = String::new();
        file.take(LONGEST as u64 + 1)
            .read_to_string(&mut text)
            .map_err(cannot)?;
        Token::new(text.trim()).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// This text as a token.
    ///
    /// # Errors
    /// When it is too short or too long, or no header could carry it.
    pub fn new(text: &str) -> Result<Token, String> {
        let fits = (SHORTEST..=LONGEST).contains(&text.len());
        if !fits || !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!(
                "a token has {SHORTEST} to {LONGEST} printable characters without blanks; make one with: openssl rand -hex 32"
            ));
        }
        Ok(Token(text.as_bytes().to_vec()))
    }

    /// Whether this is the token. Takes as long whatever part of it is right.
    fn is(&self, text: &[u8]) -> bool {
        let differs = |(a, b): (&u8, &u8)| a ^ b;
        let wrong = self.0.iter().zip(text).map(differs).fold(0, |x, y| x | y);
        wrong == 0 && self.0.len() == text.len()
    }
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The UNIX socket: the system has checked who may.
    Unix,
    /// TCP, and whether the address it came to is the loopback's.
    Tcp {
        /// It is.
        loopback: bool,
    },
}

/// What a route asks of whoever calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: whether the router is there is no secret.
    Nothing,
    /// That it may read.
    Read,
    /// That it may give commands.
    Command,
}

/// The rules of a server.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The token, if there is one.
    pub token: Option<Token>,
    /// Whether commands are served at all.
    pub commands: bool,
}

impl Rules {
    /// Whether a request with these headers may do what needs `need`.
    pub fn check(
        &self,
        need: Need,
        origin: Origin,
        host: Option<&str>,
        authorization: Option<&[u8]>,
    ) -> Result<(), Problem> {
        let known = match (authorization, &self.token) {
            (Some(header), Some(token)) => {
                let shown = bearer(header).is_some_and(|t| token.is(t));
                if !shown {
                    return Err(Problem::unauthorized("this is not the router's token"));
                }
                true
            }
            _ => origin == Origin::Unix,
        };
        if need == Need::Nothing {
            return Ok(());
        }
        if origin == (Origin::Tcp { loopback: true }) && !known && !host.is_none_or(is_plain_host) {
            return Err(Problem::new(
                421,
                "the loopback is called by an address or `localhost`, not by another name",
            ));
        }
        if need == Need::Command && !self.commands {
            return Err(Problem::new(
                403,
                "commands over HTTP are off; turn them on with `http: {commands: true}` in the configuration",
            ));
        }
        let open = need == Need::Read && self.token.is_none();
        if known || open {
            return Ok(());
        }
        Err(Problem::unauthorized(
            "show the token of the configuration's `http.token-file`, or use the UNIX socket",
        ))
    }
}

fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then_some(token.trim_ascii())
}

/// Whether a Host header names an address or `localhost`.
fn is_plain_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const LOCAL: Origin = Origin::Tcp { loopback: true };
    const FAR: Origin = Origin::Tcp { loopback: false };

    fn status(rules: &Rules, need: Need, origin: Origin, host: &str, token: Option<&str>) -> u16 {
        let header = token.map(|t| format!("Bearer {t}"));
        let got = rules.check(
            need,
            origin,
            Some(host),
            header.as_deref().map(str::as_bytes),
        );
        got.err().map_or(200, |p| p.status)
    }

    #[test]
    fn reading_and_commanding() {
        let right = "0123456789abcdef";
        let open = Rules::default();
        let token = Some(Token::new(right).unwrap());
        let guarded = Rules {
            token: token.clone(),
            commands: false,
        };
        let all = Rules {
            token,
            commands: true,
        };
        let socket_only = Rules {
            token: None,
            commands: true,
        };
        for (rules, need, origin, shown, want) in [
            (&open, Need::Read, LOCAL, None, 200),
            (&open, Need::Read, FAR, None, 200),
            (&open, Need::Command, Origin::Unix, None, 403),
            (&guarded, Need::Read, FAR, None, 401),
            (&guarded, Need::Nothing, FAR, None, 200),
            (&guarded, Need::Read, FAR, Some(right), 200),
            (&guarded, Need::Read, FAR, Some("0123456789abcdeX"), 401),
            (&guarded, Need::Read, FAR, Some("0123456789abcde"), 401),
            (&guarded, Need::Read, FAR, Some("0123456789abcdef0"), 401),
            (&guarded, Need::Read, Origin::Unix, None, 200),
            (&guarded, Need::Command, FAR, Some(right), 403),
            (&all, Need::Command, FAR, Some(right), 200),
            (&all, Need::Command, FAR, None, 401),
            (&all, Need::Command, Origin::Unix, None, 200),
            (&socket_only, Need::Command, FAR, None, 401),
            (&socket_only, Need::Command, FAR, Some(right), 401),
        ] {
            let got = status(rules, need, origin, "127.0.0.1:1", shown);
            assert_eq!(got, want, "{need:?} {origin:?} {shown:?}");
        }
    }

    #[test]
    fn the_loopback_is_not_called_by_a_foreign_name() {
        let open = Rules::default();
        for (host, want) in [
            ("localhost", 200),
            ("LOCALHOST:9481", 200),
            ("127.0.0.1:9481", 200),
            ("[::1]:9481", 200),
            ("evil.example:9481", 421),
            ("", 421),
            ("[", 421),
        ] {
            assert_eq!(status(&open, Need::Read, LOCAL, host, None), want, "{host}");
            assert_eq!(status(&open, Need::Read, FAR, host, None), 200, "{host}");
        }
    }

    #[test]
    fn a_token_file_is_for_few_eyes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let made = |text: &str, mode: u32| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Token::load(&path)
        };
        assert!(
            made("0123456789abcdef\n", 0o640)
                .unwrap()
                .is(b"0123456789abcdef")
        );
        assert!(
            made("0123456789abcdef\n", 0o644)
                .unwrap_err()
                .contains("chmod o=")
        );
        assert!(made("short\n", 0o600).unwrap_err().contains("openssl rand"));
        assert!(made("two words of some length\n", 0o600).is_err());
        assert!(made(&"x".repeat(5000), 0o600).is_err());
        assert!(Token::load(dir.path()).is_err());
        assert!(!format!("{:?}", Token::new("0123456789abcdef").unwrap()).contains("0123"));
    }
}
