//! The server as `vppctl` (VPP's `src/vpp/app/vppctl.c`) and a person's terminal meet it, byte for byte.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::GREETING;
use crate::server::{CliServer, Protocol, ServerConfig};
use crate::testing::Router;

/// A router with a second socket, for vppctl.
fn router() -> (Router, CliServer, UnixStream) {
    let router = Router::start();
    let path = router.path().with_file_name("vppctl.sock");
    let waker = std::sync::Arc::new(|| {});
    let config = ServerConfig::new(&path, None);
    let server = CliServer::listen(config, Protocol::Vppctl, router.server.requests(), waker);
    let server = server.expect("a server");
    let client = connect(&path);
    (router, server, client)
}

fn connect(path: &Path) -> UnixStream {
    let mut client = UnixStream::connect(path).expect("connected");
    client
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a limit");
    // As vppctl does: one call has to bring the whole greeting.
    let mut greeting = [0; 100];
    let n = client.read(&mut greeting).expect("greeted");
    assert_eq!(greeting[..n], GREETING);
    client
}

/// Reads up to and with `end`.
fn until(client: &mut UnixStream, end: &[u8]) -> String {
    let (mut got, mut byte) = (Vec::new(), [0]);
    while !got.ends_with(end) {
        client.read_exact(&mut byte).expect("more");
        got.push(byte[0]);
    }
    String::from_utf8(got).expect("text")
}

fn say(client: &mut UnixStream, bytes: &[u8]) {
    client.write_all(bytes).expect("written");
}

#[test]
fn vppctl_with_a_command_gets_its_output_and_a_zero_byte() {
    let (_router, _server, mut client) = router();
    say(&mut client, b"\xff\xfa\x18\x00vppctl\xff\xf0");
    // The arguments with a blank behind each; the last becomes the end of the line, then the string's end.
    say(&mut client, b"show version\n\0");
    assert_eq!(until(&mut client, b"\0"), "version 1\n\0");
    say(&mut client, b"fail\n\n");
    assert_eq!(until(&mut client, b"\0"), "it fails\n\0");
    assert_eq!(until(&mut client, b"\0"), "\0");
    say(&mut client, b"quit\n");
    assert_eq!(client.read(&mut [0; 9]).expect("the end"), 0);
}

#[test]
fn what_is_said_before_the_terminal_is_kept() {
    let (_router, _server, mut client) = router();
    say(
        &mut client,
        b"silent\nshow version\n\xff\xfa\x18\x00vppctl\xff\xf0",
    );
    assert_eq!(until(&mut client, b"\0"), "\0");
    assert_eq!(until(&mut client, b"\0"), "version 1\n\0");
}

#[test]
fn a_person_gets_a_prompt_an_echo_and_help() {
    let (_router, _server, mut client) = router();
    say(
        &mut client,
        b"\xff\xfa\x18\x00xterm\xff\xf0\xff\xfa\x1f\x00\x50\x00\x18\xff\xf0",
    );
    assert!(until(&mut client, b"vpp# ").starts_with("Parshall v"));
    say(&mut client, b"sh\tver\t");
    assert_eq!(until(&mut client, b"version "), "show version ");
    say(&mut client, b"\r");
    assert_eq!(until(&mut client, b"vpp# "), "\r\nversion 1\r\nvpp# ");
    say(&mut client, b"show ?");
    let help = until(&mut client, b"\rvpp# show \x1b[K");
    assert!(
        help.contains("version") && !help.contains("?\r\n"),
        "{help}"
    );
    say(&mut client, b"\x15\x04");
    client.read_to_end(&mut Vec::new()).expect("the end");
}

#[test]
fn one_that_says_nothing_is_a_person() {
    let (_router, _server, mut client) = router();
    until(&mut client, b"vpp# ");
    say(&mut client, b"silent\r\n");
    assert_eq!(until(&mut client, b"vpp# "), "silent\r\nvpp# ");
}

#[test]
fn a_line_without_an_end_ends_the_client() {
    let (_router, server, mut client) = router();
    say(&mut client, b"\xff\xfa\x18\x00vppctl\xff\xf0");
    let long = vec![b'x'; super::MAX_LINE + 1];
    // It may be let go before all is written.
    let _ = client.write_all(&long);
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert_eq!(got, b"the line is too long\n\0");
    while server.clients() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn stopping_lets_clients_go() {
    let (_router, mut server, mut client) = router();
    say(&mut client, b"\xff\xfa\x18\x00vppctl\xff\xf0");
    server.stop();
    assert_eq!(client.read_to_end(&mut Vec::new()).unwrap_or(0), 0);
}
