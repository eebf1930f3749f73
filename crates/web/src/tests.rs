//! The server over its sockets, with a router behind it that only thinks; what others may send; the pages.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;

use parshall_control::run::{Wakeup, run};
use parshall_control::{EngineConfig, Router};
use serde_json::Value;

use crate::{HttpConfig, HttpServer, Token};

/// A router in a thread, and its server.
struct Rig {
    server: HttpServer,
    asker: parshall_control::Asker,
    thread: Option<std::thread::JoinHandle<()>>,
    _dir: tempfile::TempDir,
    socket: std::path::PathBuf,
}

impl Rig {
    fn new(token: Option<&str>, commands: bool) -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("http.sock");
        let (tell, told) = channel();
        let thread = std::thread::spawn(move || {
            let mut wakeup = Wakeup::without_signals().unwrap();
            tell.send(wakeup.asker()).unwrap();
            let (_requests, inbox) = channel();
            let mut router = Router::model(&EngineConfig::default()).unwrap();
            let script = "create packet-generator interface pg0\nset interface state pg0 up\n\
                set interface ip address pg0 10.0.0.1/24\nip route add 20.0.0.0/8 via 10.0.0.2\n";
            router.run_script(script, "test").unwrap();
            run(&mut router, &inbox, &mut wakeup);
        });
        let asker = told.recv().unwrap();
        let config = HttpConfig {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            socket: Some(socket.clone()),
            group: None,
            token: token.map(|t| Token::new(t).unwrap()),
            commands,
        };
        let server = HttpServer::start(config, asker.clone()).unwrap();
        Rig {
            server,
            asker,
            thread: Some(thread),
            _dir: dir,
            socket,
        }
    }

    fn address(&self) -> SocketAddr {
        self.server.address().unwrap()
    }

    /// Status, head and body of the answer to these bytes.
    fn raw(&self, bytes: &[u8]) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        // Who is refused early may not be read to the end.
        let _ = stream.write_all(bytes);
        answer(stream)
    }

    fn get(&self, path: &str, more: &str) -> (u16, String, String) {
        self.raw(
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n")
                .as_bytes(),
        )
    }

    fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.server.stop();
        self.asker.ask(|r| r.run_line("shutdown", false).is_ok());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn answer(mut stream: impl Read) -> (u16, String, String) {
    let mut text = Vec::new();
    // A connection that is reset has said what it had to say.
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.get(9..12).and_then(|s| s.parse().ok()).unwrap_or(0);
    (status, head.to_owned(), body.to_owned())
}

fn post(path: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[test]
fn what_is_set_is_told() {
    let rig = Rig::new(None, false);
    let names: Vec<String> = rig
        .json("/api/v1/interfaces")
        .as_array()
        .unwrap()
        .iter()
        .map(|i| i["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["local0", "pg0"]);
    assert_eq!(
        rig.json("/api/v1/interfaces/pg0")["addresses"][0],
        "10.0.0.1/24"
    );
    assert_eq!(rig.json("/api/v1/version")["program"], "parshall");
    assert_eq!(rig.json("/healthz")["status"], "ok");
    let first = rig.json("/api/v1/routes/ip4/0?limit=2");
    assert_eq!(first["routes"].as_array().unwrap().len(), 2);
    let after = first["next"].as_str().unwrap().replace('/', "%2F");
    let second = rig.json(&format!("/api/v1/routes/ip4/0?after={after}"));
    assert_ne!(second["routes"][0]["prefix"], first["routes"][0]["prefix"]);
    for (path, status) in [
        ("/api/v1/interfaces/nosuch", 404),
        ("/api/v1/routes/ip5/0", 400),
        ("/api/v1/routes/ip4/x", 400),
        ("/api/v1/routes/ip4/9", 404),
        ("/api/v1/routes/ip4/0?limit=0", 400),
        ("/api/v1/routes/ip4/0?limit=1001", 400),
        ("/api/v1/routes/ip4/0?after=::/0", 400),
        ("/api/v1/neighbors?interface=nosuch", 404),
        ("/nosuch", 404),
    ] {
        let (got, head, body) = rig.get(path, "");
        assert_eq!(got, status, "{path}: {body}");
        assert!(head.contains("application/problem+json"), "{head}");
        let problem: Value = serde_json::from_str(&body).unwrap();
        assert!(!problem["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn metrics_come_in_both_formats() {
    let rig = Rig::new(None, false);
    let (status, head, body) = rig.get("/metrics", "");
    assert_eq!(status, 200);
    assert!(
        head.to_lowercase()
            .contains("content-type: text/plain; version=0.0.4"),
        "{head}"
    );
    assert!(
        body.contains("parshall_interface_admin_up{interface=\"pg0\"} 1\n"),
        "{body}"
    );
    assert!(!body.contains("# EOF"));
    let (_, head, body) = rig.get("/metrics", "Accept: application/openmetrics-text\r\n");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(body.ends_with("# EOF\n"));
    let (status, head, body) =
        rig.raw(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!((status, body.as_str()), (200, ""));
    assert!(head.to_lowercase().contains("content-length: "), "{head}");
}

#[test]
fn scraping_costs_control_one_copy_a_second() {
    let rig = Rig::new(None, false);
    let one = rig.json("/api/v1/snapshot")["uptime_seconds"].clone();
    let two = rig.json("/api/v1/snapshot")["uptime_seconds"].clone();
    let late = std::time::Instant::now();
    let mut three = two.clone();
    while three == one && late.elapsed() < Duration::from_secs(20) {
        three = rig.json("/api/v1/snapshot")["uptime_seconds"].clone();
    }
    assert_ne!(one, three);
}

#[test]
fn commands_are_for_those_who_may() {
    const TOKEN: &str = "0123456789abcdef0123";
    let json = "Content-Type: application/json\r\n";
    let bearer = format!("{json}Authorization: Bearer {TOKEN}\r\n");
    let up = r#"{"line":"show version","json":true}"#;
    let rig = Rig::new(Some(TOKEN), true);
    assert_eq!(rig.get("/metrics", "").0, 401);
    assert_eq!(rig.get("/healthz", "").0, 200);
    assert_eq!(rig.raw(&post("/api/v1/cli", json, up)).0, 401);
    let (status, _, body) = rig.raw(&post("/api/v1/cli", &bearer, up));
    assert_eq!(status, 200);
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap()["data"]["program"],
        "parshall"
    );
    for (headers, body, want) in [
        (bearer.as_str(), r#"{"line":"no such thing"}"#, 422),
        (bearer.as_str(), r#"{"lime":"x"}"#, 400),
        (bearer.as_str(), "", 400),
        (&bearer.replace("application/json", "text/plain"), up, 415),
        (&bearer.replace("0123\r\n", "0124\r\n"), up, 401),
    ] {
        assert_eq!(
            rig.raw(&post("/api/v1/cli", headers, body)).0,
            want,
            "{headers}{body}"
        );
    }
    // The UNIX socket needs no token: its mode says who may.
    let mut stream = UnixStream::connect(&rig.socket).unwrap();
    stream.write_all(&post("/api/v1/cli", json, up)).unwrap();
    assert_eq!(answer(stream).0, 200);
    let closed = Rig::new(None, false);
    assert_eq!(closed.raw(&post("/api/v1/cli", json, up)).0, 403);
}

#[test]
fn hostile_requests_are_refused_and_others_served() {
    let rig = Rig::new(None, true);
    let long = format!(
        "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a".repeat(1 << 20)
    );
    let many: String = (0..1000).map(|i| format!("X{i}: y\r\n")).collect();
    let many = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{many}\r\n");
    let big = post(
        "/api/v1/cli",
        "Content-Type: application/json\r\n",
        &"x".repeat(1 << 20),
    );
    let rebound = b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    for (bytes, wanted) in [
        (long.as_bytes(), &[400, 414, 431][..]),
        (many.as_bytes(), &[400, 431]),
        // Refused before a byte of the body is read.
        (&big, &[401]),
        (&rebound[..], &[421]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", &[400, 0]),
        (b"GET / HTTP/9.9\r\n\r\n", &[400, 505, 0]),
        (b"GET /api/v1/interfaces/%00%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &[400]),
        (b"GET /metrics?%ff HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", &[400]),
        (b"POST /api/v1/cli HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", &[400, 0]),
        (b"POST /api/v1/cli HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", &[400, 401, 0]),
    ] {
        let (status, head, _) = rig.raw(bytes);
        assert!(wanted.contains(&status), "{status} {head} {:?}", &bytes[..bytes.len().min(60)]);
    }
    // Half requests hold their places for seconds; one more than there are is closed, the socket still serves.
    let half: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut s = TcpStream::connect(rig.address()).unwrap();
            let _ = s.write_all(b"GET /metrics HTT");
            s
        })
        .collect();
    let mut stream = UnixStream::connect(&rig.socket).unwrap();
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert_eq!(answer(stream).0, 200);
    drop(half);
    assert_eq!(rig.get("/readyz", "").0, 200);
}

#[test]
fn a_large_body_is_refused_when_commands_are_allowed() {
    let rig = Rig::new(Some("0123456789abcdef"), true);
    let headers = "Content-Type: application/json\r\nAuthorization: Bearer 0123456789abcdef\r\n";
    // Chunks, so that no length warns.
    let mut request = format!(
        "POST /api/v1/cli HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
    );
    for _ in 0..9 {
        request += &format!("2000\r\n{}\r\n", "x".repeat(0x2000));
    }
    request += "0\r\n\r\n";
    assert_eq!(rig.raw(request.as_bytes()).0, 413);
}

#[test]
fn the_description_names_every_route_and_resolves() {
    let document = crate::document();
    for route in crate::routes::ROUTES {
        assert!(
            document["paths"][route.path][route.method.to_lowercase()].is_object(),
            "{}",
            route.path
        );
    }
    fn references(v: &Value, out: &mut Vec<String>) {
        match v {
            Value::Object(map) => map.iter().for_each(|(k, v)| match v.as_str() {
                Some(text) if k == "$ref" => out.push(text.to_owned()),
                _ => references(v, out),
            }),
            Value::Array(all) => all.iter().for_each(|v| references(v, out)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    references(&document, &mut all);
    assert!(all.len() > 20);
    for r in all {
        assert!(document.pointer(r.trim_start_matches('#')).is_some(), "{r}");
    }
}

fn page(name: &str, text: &str) {
    let path = format!("{}/../../docs/reference/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("PARSHALL_BLESS").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == text,
        "docs/reference/{name} is out of date: PARSHALL_BLESS=1 cargo test -p parshall-web writes it"
    );
}

#[test]
fn the_pages_are_current() {
    page("metrics.md", &crate::metrics::page());
    page("http-api.md", &crate::api_page());
}
