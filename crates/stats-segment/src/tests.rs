//! The segment read back by a reader of its own, written from the specification of the format and not from the
//! writer; and handed out over the socket. The clients of others read it in the tests of the whole router.

use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, connect, recvmsg,
    socket,
};
use proptest::prelude::*;

use crate::{Counters, Full, Segment, StatsServer};

#[derive(Debug, PartialEq, Clone)]
enum Read {
    Scalar(u64),
    Rows(Vec<Vec<u64>>),
    Both(Vec<Vec<(u64, u64)>>),
    Names(Vec<String>),
}

/// What a reader sees of these bytes, by name.
fn read(bytes: &[u8]) -> BTreeMap<String, Read> {
    let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap());
    let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let text = |at: usize| {
        let end = bytes[at..].iter().position(|b| *b == 0).unwrap();
        String::from_utf8(bytes[at..at + end].to_vec()).unwrap()
    };
    let base = u64_at(8) as usize;
    let vector = |pointer: u64, size: usize| {
        let at = pointer as usize - base;
        let n = u32_at(at - 8);
        assert!(
            at.is_multiple_of(8) && at + n * size < bytes.len(),
            "a vector behind the end"
        );
        (0..n).map(move |i| at + i * size)
    };
    assert_eq!((u64_at(0), u64_at(24), u64_at(40)), (2, 0, 0));
    assert!(u64_at(16) > 0);
    let entries: Vec<usize> = vector(u64_at(32), 144).collect();
    let value = |at: usize| match u32_at(at) {
        1 => Read::Scalar(u64_at(at + 8)),
        2 => {
            let rows = vector(u64_at(at + 8), 8);
            Read::Rows(
                rows.map(|r| vector(u64_at(r), 8).map(u64_at).collect())
                    .collect(),
            )
        }
        3 => {
            let rows = vector(u64_at(at + 8), 8);
            let both = |at| (u64_at(at), u64_at(at + 8));
            Read::Both(
                rows.map(|r| vector(u64_at(r), 16).map(both).collect())
                    .collect(),
            )
        }
        4 => {
            let names = vector(u64_at(at + 8), 8);
            Read::Names(names.map(|n| text(u64_at(n) as usize - base)).collect())
        }
        kind => panic!("kind {kind}"),
    };
    let mut all = BTreeMap::new();
    for at in &entries {
        let shown = match u32_at(*at) {
            6 => {
                let column = u32_at(at + 12);
                match value(entries[u32_at(at + 8)]) {
                    Read::Rows(rows) => Read::Rows(rows.iter().map(|r| vec![r[column]]).collect()),
                    Read::Both(rows) => Read::Both(rows.iter().map(|r| vec![r[column]]).collect()),
                    other => panic!("a symlink to {other:?}"),
                }
            }
            _ => value(*at),
        };
        assert_eq!(all.insert(text(at + 16), shown), None, "twice");
    }
    all
}

fn contents(segment: &Segment) -> Vec<u8> {
    let file = std::fs::File::from(segment.read_only().try_clone_to_owned().unwrap());
    let mut bytes = vec![0; segment.size().1];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn simple(segment: &mut Segment, name: &str, threads: usize, columns: usize) -> Counters {
    segment
        .change(|c| c.counters(name, (false, threads), columns))
        .unwrap()
}

#[test]
fn what_is_written_is_what_is_read() {
    let mut s = Segment::new(1 << 20).unwrap();
    let (beat, rx, drops, mut names) = s.change(|c| {
        (
            c.scalar("/sys/heartbeat").unwrap(),
            c.counters("/if/rx", (true, 2), 3).unwrap(),
            c.counters("/if/drops", (false, 2), 3).unwrap(),
            c.names("/if/names").unwrap(),
        )
    });
    s.change(|c| {
        c.set_names(
            &mut names,
            ["local0", "pg0", "a name of more than eight"].into_iter(),
        )
        .unwrap();
        c.symlink("/interfaces/pg0/rx", &rx, 1).unwrap();
        c.symlink("/interfaces/pg0/drops", &drops, 1).unwrap();
    });
    s.set(beat, 7);
    s.count_both(&rx, 1, 1, [5, 500]);
    s.count(&drops, 0, 1, 9);
    // Out of range: nothing happens.
    s.count(&drops, 0, 3, 1);
    s.count(&drops, 2, 0, 1);
    let read = read(&contents(&s));
    let want = [
        ("/if/drops", Read::Rows(vec![vec![0, 9, 0], vec![0, 0, 0]])),
        (
            "/if/names",
            Read::Names(
                ["local0", "pg0", "a name of more than eight"]
                    .map(String::from)
                    .into(),
            ),
        ),
        (
            "/if/rx",
            Read::Both(vec![vec![(0, 0); 3], vec![(0, 0), (5, 500), (0, 0)]]),
        ),
        ("/interfaces/pg0/drops", Read::Rows(vec![vec![9], vec![0]])),
        (
            "/interfaces/pg0/rx",
            Read::Both(vec![vec![(0, 0)], vec![(5, 500)]]),
        ),
        ("/sys/heartbeat", Read::Scalar(7)),
    ];
    assert_eq!(read, want.map(|(n, v)| (n.to_owned(), v)).into());
    assert_eq!(s.epoch(), 4);
}

#[test]
fn a_change_that_panics_leaves_no_reader_waiting() {
    let mut s = Segment::new(1 << 16).unwrap();
    let jump = std::panic::AssertUnwindSafe(|| s.change(|_| panic!("on purpose")));
    assert!(std::panic::catch_unwind(jump).is_err());
    assert_eq!(read(&contents(&s)), BTreeMap::new());
}

#[test]
fn a_full_segment_says_so_and_stays_readable() {
    let mut s = Segment::new(64 << 10).unwrap();
    let mut rows = simple(&mut s, "/if/drops", 2, 100);
    s.count(&rows, 1, 99, 1);
    let before = read(&contents(&s));
    assert_eq!(s.change(|c| c.resize(&mut rows, 1 << 20)), Err(Full));
    assert_eq!(read(&contents(&s)), before);
    let many = s.change(|c| (0..10_000).find_map(|i| c.scalar(&format!("/{i}")).err()));
    assert_eq!(many, Some(Full));
    assert!(read(&contents(&s)).len() > 64);
}

#[test]
fn symlinks_are_made_anew() {
    let mut s = Segment::new(1 << 20).unwrap();
    let rows = simple(&mut s, "/if/drops", 1, 200);
    let keep = s.entries();
    for n in [100, 3, 200] {
        s.change(|c| {
            c.drop_symlinks(keep);
            (0..n).try_for_each(|i| c.symlink(&format!("/interfaces/{i}/drops"), &rows, i))
        })
        .unwrap();
        assert_eq!(read(&contents(&s)).len(), 1 + n);
    }
}

#[test]
fn names_that_readers_cannot_decode_are_made_readable() {
    let mut s = Segment::new(1 << 16).unwrap();
    let long = "x".repeat(500);
    s.change(|c| {
        c.scalar("/a\u{e9}\n").unwrap();
        c.scalar(&long).unwrap();
    });
    let names: Vec<String> = read(&contents(&s)).into_keys().collect();
    assert_eq!(names, ["/a___", &long[..127]]);
}

#[test]
fn the_memory_cannot_be_written_through_what_readers_get() {
    let s = Segment::new(1 << 16).unwrap();
    let file = std::fs::File::from(s.read_only().try_clone_to_owned().unwrap());
    assert!(file.write_at(&[1], 0).is_err());
    assert!(file.set_len(0).is_err());
}

fn fetch(path: &std::path::Path) -> OwnedFd {
    let client = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::empty(),
        None,
    )
    .unwrap();
    connect(client.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    let (mut data, mut space) = ([0; 16], nix::cmsg_space!(std::os::fd::RawFd));
    let mut iov = [IoSliceMut::new(&mut data)];
    let got = recvmsg::<()>(
        client.as_fd().as_raw_fd(),
        &mut iov,
        Some(&mut space),
        MsgFlags::empty(),
    );
    let got = got.unwrap();
    let fds: Vec<_> = got.cmsgs().unwrap().collect();
    match &fds[..] {
        // SAFETY: the kernel has just put this descriptor into our table.
        [ControlMessageOwned::ScmRights(fds)] => unsafe { OwnedFd::from_raw_fd(fds[0]) },
        other => panic!("{other:?}"),
    }
}

#[test]
fn whoever_connects_gets_the_memory() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stats.sock");
    let mut s = Segment::new(1 << 16).unwrap();
    let beat = s.change(|c| c.scalar("/sys/heartbeat")).unwrap();
    s.set(beat, 3);
    let asked = Arc::<AtomicUsize>::default();
    let count = asked.clone();
    let before = move || {
        count.fetch_add(1, Ordering::SeqCst);
    };
    let segment = s.read_only().try_clone_to_owned().unwrap();
    let server = StatsServer::start(&path, None, segment, before).unwrap();
    for n in 1..=3 {
        let file = std::fs::File::from(fetch(&path));
        assert_eq!(file.metadata().unwrap().len(), 1 << 16);
        let mut bytes = vec![0; 1 << 16];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(read(&bytes)["/sys/heartbeat"], Read::Scalar(3));
        assert_eq!(asked.load(Ordering::SeqCst), n);
    }
    drop(server);
    assert!(!path.exists());
}

#[derive(Clone, Debug)]
enum Step {
    Resize(usize, usize),
    Count(usize, usize, usize, u64),
    Names(Vec<String>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..3usize, 0..70usize).prop_map(|(of, n)| Step::Resize(of, n)),
        (0..3usize, 0..2usize, 0..70usize, any::<u64>())
            .prop_map(|(o, t, c, v)| Step::Count(o, t, c, v)),
        prop::collection::vec("[a-z0-9/]{0,40}", 0..40).prop_map(Step::Names),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Rows that grow, shrink and move keep their values and those of their neighbours.
    #[test]
    fn rows_and_names_keep_what_is_theirs(steps in prop::collection::vec(step(), 0..60)) {
        let mut s = Segment::new(4 << 20).unwrap();
        let mut rows: Vec<Counters> = (0..3).map(|i| simple(&mut s, &format!("/{i}"), 2, 1)).collect();
        let mut names = s.change(|c| c.names("/names")).unwrap();
        let mut want = vec![vec![vec![0u64; 1]; 2]; 3];
        let mut want_names: Vec<String> = Vec::new();
        for step in steps {
            match step {
                Step::Resize(of, n) => {
                    s.change(|c| c.resize(&mut rows[of], n)).unwrap();
                    want[of].iter_mut().for_each(|r| r.resize(n, 0));
                }
                Step::Count(of, thread, column, value) => {
                    s.count(&rows[of], thread, column, value);
                    if let Some(v) = want[of][thread].get_mut(column) {
                        *v = value;
                    }
                }
                Step::Names(new) => {
                    s.change(|c| c.set_names(&mut names, new.iter().map(String::as_str))).unwrap();
                    want_names = new;
                }
            }
            let got = read(&contents(&s));
            for (i, rows) in want.iter().enumerate() {
                prop_assert_eq!(&got[&format!("/{i}")], &Read::Rows(rows.clone()));
            }
            prop_assert_eq!(&got["/names"], &Read::Names(want_names.clone()));
        }
    }
}
