//! Tests of the server over real sockets: the protocol, its limits, and coming to an end.

use super::*;
use crate::connection::Connection;
use crate::testing::Router;
use serde_json::{Value, json};
use std::net::Shutdown;

/// Writes `lines` raw and reads one reply for each.
fn raw(router: &Router, lines: &[&str]) -> Vec<Value> {
    let mut stream = UnixStream::connect(router.path()).expect("connected");
    let mut reader = BufReader::new(stream.try_clone().expect("cloned"));
    lines
        .iter()
        .map(|line| {
            writeln!(stream, "{line}").expect("written");
            let mut reply = String::new();
            reader.read_line(&mut reply).expect("read");
            serde_json::from_str(&reply).expect("JSON")
        })
        .collect()
}

#[test]
fn every_kind_of_request_is_answered_with_its_id() {
    let router = Router::start();
    let replies = raw(
        &router,
        &[
            r#"{"id":1,"line":"show version"}"#,
            r#"{"id":"two","line":"sh ver","json":true}"#,
            r#"{"id":{"three":3},"complete":"sh"}"#,
            r#"{"help":"show "}"#,
            r#"{"id":5,"line":"nonsense"}"#,
            r#"{"id":6}"#,
            "not json",
            r#"{"id":8,"line":"show version"}"#,
        ],
    );
    assert_eq!(replies[0], json!({"id":1,"ok":true,"text":"version 1"}));
    assert_eq!(
        replies[1],
        json!({"id":"two","ok":true,"data":{"version":1}})
    );
    assert_eq!(replies[2]["id"], json!({"three":3}));
    assert_eq!(replies[2]["candidates"][0]["text"], "show");
    assert!(
        replies[3]["text"]
            .as_str()
            .expect("text")
            .contains("version")
    );
    assert!(
        replies[4]["error"]
            .as_str()
            .expect("error")
            .contains("unknown word 'nonsense'")
    );
    assert!(
        replies[5]["error"]
            .as_str()
            .expect("error")
            .contains("exactly one")
    );
    assert!(
        replies[6]["error"]
            .as_str()
            .expect("error")
            .contains("not a request")
    );
    assert_eq!(replies[7]["text"], "version 1");
    assert_eq!(router.woken.load(Ordering::Relaxed), 6);
}

#[test]
fn a_request_may_be_as_long_as_the_limit_and_no_longer() {
    let router = Router::start();
    let wrapped = |n: usize| format!(r#"{{"line":"block {{{}}}"}}"#, "x".repeat(n));
    let frame = wrapped(0).len();
    let longest = wrapped(MAX_LINE - frame);
    assert_eq!(longest.len(), MAX_LINE);
    assert_eq!(raw(&router, &[&longest])[0]["ok"], true);
    let reply = &raw(&router, &[&wrapped(MAX_LINE - frame + 1)])[0];
    assert!(
        reply["error"]
            .as_str()
            .expect("error")
            .contains("longer than 8388608 bytes")
    );
    router.wait_for_clients(0);
}

#[test]
fn half_a_request_is_not_executed() {
    let router = Router::start();
    let mut stream = UnixStream::connect(router.path()).expect("connected");
    stream
        .write_all(br#"{"line":"show version"}"#)
        .expect("written");
    stream.shutdown(Shutdown::Write).expect("shut down");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("read");
    assert_eq!(rest, "");
    assert_eq!(router.woken.load(Ordering::Relaxed), 0);
}

#[test]
fn clients_beyond_the_limit_are_told() {
    let router = Router::with(|config| config.max_clients = 2);
    let mut first = Connection::open(&router.path()).expect("connected");
    let _second = Connection::open(&router.path()).expect("connected");
    router.wait_for_clients(2);
    let mut third = Connection::open(&router.path()).expect("connected");
    let reply = third.execute("show version", false).expect("a reply");
    assert_eq!(reply.error.as_deref(), Some("all 2 connections are taken"));
    assert!(first.execute("show version", false).expect("a reply").ok);
    drop(first);
    router.wait_for_clients(1);
    let mut fourth = Connection::open(&router.path()).expect("connected");
    assert!(fourth.execute("show version", false).expect("a reply").ok);
}

#[test]
fn a_client_that_does_not_read_is_dropped_and_others_go_on() {
    let router = Router::with(|config| config.write_timeout = Duration::from_millis(50));
    let mut deaf = UnixStream::connect(router.path()).expect("connected");
    writeln!(deaf, r#"{{"line":"big"}}"#).expect("written");
    let mut other = Connection::open(&router.path()).expect("connected");
    assert!(other.execute("show version", false).expect("a reply").ok);
    drop(other);
    router.wait_for_clients(0);
}

#[test]
fn a_big_reply_arrives_whole() {
    let router = Router::start();
    let mut client = Connection::open(&router.path()).expect("connected");
    assert_eq!(
        client
            .execute("big", false)
            .expect("a reply")
            .text
            .map(|t| t.len()),
        Some(8 << 20)
    );
}

#[test]
fn stopping_answers_what_was_given_fails_what_was_not_and_removes_the_socket() {
    let (mut router, requests) = Router::unanswered(|_| {});
    let ask = |path: PathBuf| {
        std::thread::spawn(move || {
            Connection::open(&path)
                .expect("connected")
                .execute("x", false)
        })
    };
    let (one, two) = (ask(router.path()), ask(router.path()));
    let first = requests.recv().expect("a request");
    let second = requests.recv().expect("a request");
    first.answer(Reply::Text("done".into()));
    // The owner stops the server itself while it still holds a request.
    router.server.stop();
    let mut replies = [one, two].map(|t| t.join().expect("no panic").expect("a reply"));
    replies.sort_by_key(|r| r.ok);
    assert_eq!(
        replies[0].error.as_deref(),
        Some("the router is shutting down")
    );
    assert_eq!(replies[1].text.as_deref(), Some("done"));
    assert!(!router.path().exists());
    drop(second);
}

#[test]
fn requests_fail_when_the_owner_is_gone() {
    let (router, requests) = Router::unanswered(|_| {});
    drop(requests);
    let mut client = Connection::open(&router.path()).expect("connected");
    assert_eq!(
        client
            .execute("x", false)
            .expect("a reply")
            .error
            .as_deref(),
        Some("the router is shutting down")
    );
}

#[test]
fn many_clients_at_once_get_their_own_answers() {
    let router = Router::start();
    let path = router.path();
    let threads: Vec<_> = (0..32)
        .map(|n| {
            let path = path.clone();
            std::thread::spawn(move || {
                let mut client = Connection::open(&path).expect("connected");
                for i in 0..20 {
                    let want = format!("{n}-{i}");
                    let reply = client
                        .execute(&format!("block {{{want}}}"), false)
                        .expect("a reply");
                    assert_eq!(reply.text.as_deref(), Some(want.as_str()));
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    router.wait_for_clients(0);
}
