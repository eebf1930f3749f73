//! Feeds of BGP routes: files that are read, read again and broken, and routers that come and go.

use std::io::Write;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use parshall_bgp::mrt::{DumpWriter, Peer};
use parshall_bgp::{Net, PathBuilder, text};
use parshall_command::{Reply, Shell};
use parshall_control::{EngineConfig, Router};
use serde_json::Value;

fn router() -> Router {
    Router::new(EngineConfig {
        buffers: 1024,
        interfaces: 4,
        ..EngineConfig::default()
    })
    .unwrap()
}

fn run(r: &mut Router, line: &str) {
    if let Reply::Error(e) = r.execute(line, false) {
        panic!("{line}: {e}");
    }
}

fn refused(r: &mut Router, line: &str) -> String {
    match r.execute(line, false) {
        Reply::Error(e) => e,
        other => panic!("{line}: {other:?}"),
    }
}

fn json(r: &mut Router, line: &str) -> Option<Value> {
    match r.execute(line, true) {
        Reply::Data(v) => Some(v),
        Reply::Error(_) => None,
        other => panic!("{line}: {other:?}"),
    }
}

fn feeds(r: &mut Router) -> Value {
    json(r, "show bgp feed").unwrap()
}

fn until(r: &mut Router, what: &str, done: impl Fn(&mut Router) -> bool) {
    let start = Instant::now();
    while !done(r) {
        let late = start.elapsed() > Duration::from_secs(30);
        assert!(!late, "{what} did not happen: {}", feeds(r));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The best AS path to an address, and the prefix it is of.
fn path(r: &mut Router, addr: &str) -> Option<(String, String)> {
    let v = json(r, &format!("show bgp route {addr}"))?;
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    Some((text(&v["prefix"]), text(&v["paths"][0]["as_path"])))
}

fn loaded(r: &mut Router) {
    until(r, "reading", |r| {
        let v = feeds(r);
        v["feeds"]
            .as_array()
            .unwrap()
            .iter()
            .all(|f| f["state"] != "loading")
    });
}

#[test]
fn a_file_is_read_and_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("paths");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    let mut r = router();
    let add = format!("bgp feed file {}", file.display());
    assert!(refused(&mut r, &add).contains("cannot read"));
    write("10.0.0.0/8 as-path 1 2 communities 1:2\n\n# nothing\n2001:db8::/32 as-path 3\n");
    run(&mut r, &add);
    loaded(&mut r);
    assert_eq!(
        path(&mut r, "10.1.1.1"),
        Some(("10.0.0.0/8".into(), "1 2".into()))
    );
    assert_eq!(path(&mut r, "2001:db8::1").unwrap().1, "3");
    assert_eq!(path(&mut r, "11.1.1.1"), None);
    let v = json(&mut r, "show bgp route 10.0.0.0/8").unwrap();
    assert_eq!(v["paths"][0]["communities"][0], "1:2");
    // A slip: the line is named, and what was there stays.
    write("10.0.0.0/8 as-path 9\n11.0.0.0/8 as-path x\n");
    run(&mut r, &add);
    loaded(&mut r);
    let v = feeds(&mut r);
    assert_eq!(v["feeds"][0]["state"], "failed");
    let e = v["feeds"][0]["last_error"].as_str().unwrap();
    assert!(e.contains("line 2: \"x\" is no AS number"), "{e}");
    assert_eq!(path(&mut r, "10.1.1.1").unwrap().1, "1 2");
    // Whole again: what is no longer in it goes.
    write("10.0.0.0/8 as-path 9\n");
    run(&mut r, &add);
    loaded(&mut r);
    assert_eq!(path(&mut r, "10.1.1.1").unwrap().1, "9");
    until(&mut r, "clearing", |r| path(r, "2001:db8::1").is_none());
    run(&mut r, &add.replace("feed ", "feed del "));
    until(&mut r, "clearing", |r| path(r, "10.1.1.1").is_none());
    assert_eq!(feeds(&mut r)["attributes"], 0);
    let e = refused(&mut r, &add.replace("feed ", "feed del "));
    assert!(e.contains("there is no feed file"), "{e}");
}

/// Networks in order, with a fifth as many paths.
fn dump(count: u32) -> Vec<u8> {
    let mut b = PathBuilder::default();
    let peer = Peer {
        address: "192.0.2.1".parse().unwrap(),
        asn: 65_001,
    };
    let mut w = DumpWriter::new(peer);
    for n in 0..count {
        let addr = IpAddr::from((0x0100_0000 + (n << 8)).to_be_bytes());
        let net = Net::new(addr, 24).unwrap();
        let line = format!(
            "::/0 as-path 65001 {} {} communities 65001:{}",
            n / 5,
            n / 50,
            n / 5 % 65_536
        );
        w.route(net, &text::parse_line(&line, &mut b).unwrap().unwrap().1);
    }
    w.finish()
}

#[test]
fn a_dump_is_read_packed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = dump(20_000);
    let packed = |path: &Path| {
        let mut z = GzEncoder::new(std::fs::File::create(path).unwrap(), Compression::fast());
        z.write_all(&bytes).unwrap();
        z.finish().unwrap();
    };
    let (plain, gz) = (dir.path().join("rib"), dir.path().join("rib.gz"));
    std::fs::write(&plain, &bytes).unwrap();
    packed(&gz);
    let mut r = router();
    for file in [&plain, &gz] {
        run(&mut r, &format!("bgp feed mrt {}", file.display()));
        loaded(&mut r);
        let v = feeds(&mut r);
        assert_eq!(
            (&v["ip4_prefixes"], &v["paths"], &v["attributes"]),
            (&20_000.into(), &20_000.into(), &4000.into())
        );
        assert_eq!(path(&mut r, "1.0.7.1").unwrap().1, "65001 1 0");
        run(&mut r, &format!("bgp feed del mrt {}", file.display()));
        until(&mut r, "clearing", |r| feeds(r)["paths"] == 0);
    }
    // Broken off in the middle: what came is kept, and it is said where.
    std::fs::write(&plain, &bytes[..bytes.len() / 2]).unwrap();
    run(&mut r, &format!("bgp feed mrt {}", plain.display()));
    loaded(&mut r);
    let v = feeds(&mut r);
    assert_eq!(v["feeds"][0]["state"], "failed");
    assert!(
        v["feeds"][0]["last_error"]
            .as_str()
            .unwrap()
            .starts_with("record "),
        "{v}"
    );
    assert!(v["paths"].as_u64().unwrap() > 5000);
    // What is no dump at all.
    for (text, why) in [
        ("BZh91AY", "bunzip2"),
        ("", "is empty"),
        ("what is this, a text?", "record 1: "),
    ] {
        std::fs::write(&gz, text).unwrap();
        run(&mut r, &format!("bgp feed mrt {}", gz.display()));
        loaded(&mut r);
        let v = feeds(&mut r);
        let e = v["feeds"][1]["last_error"].as_str().unwrap();
        assert!(e.contains(why), "{text}: {e}");
    }
}

#[test]
fn a_table_without_room_says_so_and_what_helps() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rib");
    std::fs::write(&file, dump(60_000)).unwrap();
    let mut r = router();
    run(&mut r, "bgp memory-limit 2");
    run(&mut r, &format!("bgp feed mrt {}", file.display()));
    loaded(&mut r);
    let v = feeds(&mut r);
    let (paths, memory) = (v["paths"].as_u64().unwrap(), v["memory"].as_u64().unwrap());
    assert!(paths > 1000 && memory < 4 << 20, "{v}");
    let f = &v["feeds"][0];
    assert_eq!(f["refused"].as_u64().unwrap() + paths, 60_000);
    let e = f["last_error"].as_str().unwrap();
    assert!(
        e.contains("limit of 2 MiB") && e.contains("bgp memory-limit"),
        "{e}"
    );
    run(&mut r, "bgp memory-limit 100");
    run(&mut r, &format!("bgp feed mrt {}", file.display()));
    loaded(&mut r);
    until(&mut r, "clearing", |r| feeds(r)["paths"] == 60_000);
}

/// A router that monitors, as bytes on a connection.
struct Monitored(TcpStream);

impl Monitored {
    fn send(&mut self, kind: u8, body: &[u8]) {
        let mut m = vec![3];
        m.extend((6 + body.len() as u32).to_be_bytes());
        m.push(kind);
        m.extend(body);
        self.0.write_all(&m).unwrap();
    }

    /// The header of a peer: 192.0.2.`last`, AS 65001, after the policy or before.
    fn peer(last: u8, post: bool) -> Vec<u8> {
        let mut p = vec![0, if post { 0x40 } else { 0 }];
        p.extend([0; 20]);
        p.extend([192, 0, 2, last, 0, 0, 0xFD, 0xE9, 10, 0, 0, 1]);
        p.extend([0; 8]);
        p
    }

    fn bgp(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut m = vec![0xFF; 16];
        m.extend((19 + body.len() as u16).to_be_bytes());
        m.push(kind);
        m.extend(body);
        m
    }

    fn up(&mut self, last: u8) {
        let open = Self::bgp(1, &[4, 0, 7, 0, 180, 1, 2, 3, 4, 0]);
        let body = [Self::peer(last, false), vec![0; 20], open.clone(), open].concat();
        self.send(3, &body);
    }

    /// A route to 10.0.0.0/8 by the AS, or none any more.
    fn route(&mut self, last: u8, post: bool, asn: Option<u8>) {
        let update = match asn {
            #[rustfmt::skip]
            Some(a) => vec![0, 0, 0, 20, 0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0, a, 0x40, 3, 4, 192, 0, 2, 9, 8, 10],
            None => vec![0, 2, 8, 10, 0, 0],
        };
        self.send(0, &[Self::peer(last, post), Self::bgp(2, &update)].concat());
    }
}

#[test]
fn routers_come_and_go_with_their_routes() {
    let mut r = router();
    let port = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let add = format!("bgp feed bmp listen 127.0.0.1:{port}");
    run(&mut r, &add);
    assert!(refused(&mut r, &add).contains("is a feed already"));
    assert!(refused(&mut r, "bgp feed bmp listen 127.0.0.1").contains("ADDRESS:PORT"));
    let best = |r: &mut Router| path(r, "10.1.1.1").map(|p| p.1);
    let expect = |r: &mut Router, what: Option<&str>| {
        until(r, &format!("path {what:?}"), |r| best(r).as_deref() == what);
    };
    let connect = || Monitored(TcpStream::connect(("127.0.0.1", port)).unwrap());
    let mut a = connect();
    a.send(4, &[0, 2, 0, 4, b'e', b'd', b'g', b'e']);
    a.up(1);
    a.route(1, false, Some(11));
    expect(&mut r, Some("11"));
    until(&mut r, "name", |r| {
        feeds(r)["feeds"][0]["routers"][0]
            .as_str()
            .is_some_and(|n| n.ends_with("(edge)"))
    });
    // After the policy counts more than before it.
    a.route(1, true, Some(12));
    expect(&mut r, Some("12"));
    a.route(1, true, None);
    expect(&mut r, Some("11"));
    a.route(1, true, Some(12));
    // A second peer; the first goes down, with both of its tables.
    a.up(2);
    a.route(2, false, Some(13));
    a.send(2, &[Monitored::peer(1, false), vec![1]].concat());
    expect(&mut r, Some("13"));
    // Another router; the first is lost.
    let mut b = connect();
    b.up(3);
    b.route(3, false, Some(14));
    until(&mut r, "both", |r| feeds(r)["paths"] == 2);
    drop(a);
    expect(&mut r, Some("14"));
    // A message that makes no sense is skipped, one that is none ends the session.
    b.send(0, &[1, 2, 3]);
    b.route(3, false, Some(15));
    expect(&mut r, Some("15"));
    assert_eq!(feeds(&mut r)["feeds"][0]["skipped"], 1);
    b.0.write_all(&[9; 10]).unwrap();
    expect(&mut r, None);
    let v = feeds(&mut r);
    let e = v["feeds"][0]["last_error"].as_str().unwrap();
    assert!(e.contains("BMP version cannot be 9"), "{e}");
    // The end of the feed ends its sessions, and the address is free again.
    let mut c = connect();
    c.up(4);
    c.route(4, false, Some(16));
    expect(&mut r, Some("16"));
    run(&mut r, &add.replace("feed ", "feed del "));
    expect(&mut r, None);
    run(&mut r, &add);
}
