//! Fuzzes what files and routers say of BGP: MRT files, BMP streams, UPDATE messages and lines of text.
//!
//! The first byte chooses (modulo 4) which. What is read of a route must survive being written into a dump and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_bgp::mrt::{DumpWriter, Header, Peer, Record};
use parshall_bgp::update::{Change, Dialect, Message, Update};
use parshall_bgp::{Net, PathAttributes, PathBuilder, bmp, text};

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    match choice % 4 {
        0 => mrt(data),
        1 => monitored(data),
        2 => update(data, dialect(*choice)),
        _ => lines(data),
    }
});

fn dialect(bits: u8) -> Dialect {
    Dialect {
        as4: bits & 4 != 0,
        add_path: [bits & 8 != 0, bits & 16 != 0],
    }
}

fn mrt(mut data: &[u8]) {
    let mut b = PathBuilder::default();
    while let Some((head, rest)) = data.split_first_chunk() {
        let Ok(header) = Header::parse(head) else {
            return;
        };
        let n = header.length.min(rest.len());
        match Record::parse(&header, &rest[..n]) {
            Ok(Record::Peers(peers)) => assert!(peers.len() <= n),
            Ok(Record::Rib(rib)) => {
                check_net(rib.net);
                for entry in rib.entries().flatten() {
                    if let Ok(path) = entry.path(&mut b) {
                        check_path(rib.net, &path);
                    }
                }
            }
            Ok(Record::Message { dialect, bytes, .. }) => message(bytes, dialect),
            Ok(Record::Down(_) | Record::Other) | Err(_) => {}
        }
        data = &rest[n..];
    }
}

fn monitored(mut data: &[u8]) {
    let mut how = Dialect::default();
    while let Ok(Some(n)) = bmp::frame(data) {
        let Some((bytes, rest)) = data.split_at_checked(n) else {
            return;
        };
        match bmp::Message::parse(bytes) {
            Ok(bmp::Message::PeerUp(_, dialect, _)) => how = dialect,
            Ok(bmp::Message::RouteMonitoring(_, body)) => update(body, how),
            _ => {}
        }
        data = rest;
    }
}

fn message(bytes: &[u8], dialect: Dialect) {
    if let Ok((Message::Update(body), _)) = Message::parse(bytes) {
        update(body, dialect);
    }
}

fn update(body: &[u8], dialect: Dialect) {
    let Ok(u) = Update::parse(body, dialect, &mut PathBuilder::default()) else {
        return;
    };
    let mut changes = 0;
    for c in u.changes() {
        changes += 1;
        match c {
            Change::Announce(net, _, path) => check_path(net, path),
            Change::Withdraw(net, _) => check_net(net),
        }
    }
    // A network takes a byte at least.
    assert!(changes <= body.len());
}

fn lines(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let mut b = PathBuilder::default();
    for line in text.lines() {
        if let Ok(Some((net, path))) = text::parse_line(line, &mut b) {
            check_path(net, &path);
        }
    }
}

fn check_net(net: Net) {
    assert_eq!(Net::new(net.addr(), net.len()), Some(net));
    assert_eq!(net.to_string().parse(), Ok(net));
}

/// Through a dump and back it is the same, as far as a dump can tell.
fn check_path(net: Net, path: &PathAttributes) {
    check_net(net);
    let peer = Peer {
        address: net.addr(),
        asn: 1,
    };
    let mut w = DumpWriter::new(peer);
    w.route(net, path);
    let bytes = w.finish();
    let mut left = &bytes[..];
    let mut seen = None;
    while let Some((head, rest)) = left.split_first_chunk() {
        let header = Header::parse(head).expect("a header that was written");
        if let Ok(Record::Rib(rib)) = Record::parse(&header, &rest[..header.length]) {
            assert_eq!(rib.net, net);
            let entry = rib.entries().next().expect("one route").expect("whole");
            seen = Some(entry.path(&mut PathBuilder::default()).expect("readable"));
        }
        left = &rest[header.length..];
    }
    let again = seen.expect("a route");
    assert_eq!(again.to_string().replace("} {", "}{"), path.to_string().replace("} {", "}{"));
    assert_eq!(again.communities(), path.communities());
    assert_eq!(
        (again.next_hop, again.local_pref, again.med, again.origin),
        (path.next_hop, path.local_pref, path.med, path.origin)
    );
    if let Some(first) = path.neighbor_as()
        && let Some(shorter) = path.without_leading(first)
    {
        assert_eq!(shorter.path_length() + 1, path.path_length());
        assert_eq!(shorter.communities(), path.communities());
    }
}
