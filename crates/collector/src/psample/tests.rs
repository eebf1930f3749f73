//! The command on datagrams of the tests.

use super::*;

/// A message of type `family`: command 0 and these attributes.
fn message(family: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut m = vec![0; 16];
    m.extend([0, 1, 0, 0]);
    for (kind, value) in attributes {
        m.extend((4 + value.len() as u16).to_ne_bytes());
        m.extend(kind.to_ne_bytes());
        m.extend(*value);
        m.resize(m.len().next_multiple_of(4), 0);
    }
    let length = m.len() as u32;
    m[..4].copy_from_slice(&length.to_ne_bytes());
    m[4..6].copy_from_slice(&family.to_ne_bytes());
    m
}

fn sample(group: u32, sequence: u32) -> Vec<u8> {
    message(
        33,
        &[
            (0, &7u16.to_ne_bytes()),
            (1, &70_000u32.to_ne_bytes()),
            (2, &98u32.to_ne_bytes()),
            (3, &group.to_ne_bytes()),
            (4, &sequence.to_ne_bytes()),
            (5, &100u32.to_ne_bytes()),
            (6, &[0xAB, 0xCD, 0xEF]),
            (12, &1234u64.to_ne_bytes()),
            (13, &1_700_000_000_000_000_005u64.to_ne_bytes()),
            (14, &0x0800u16.to_ne_bytes()),
        ],
    )
}

/// Runs the command on these datagrams; what it printed and what it said.
fn run_on(args: &PsampleArgs, datagrams: Vec<io::Result<Vec<u8>>>) -> (String, String) {
    let stop = AtomicBool::new(false);
    let mut datagrams = datagrams.into_iter();
    let receive = |buffer: &mut [u8]| {
        let Some(next) = datagrams.next() else {
            stop.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        next.map(|d| {
            buffer[..d.len()].copy_from_slice(&d);
            Some(d.len())
        })
    };
    let (mut out, mut log) = (Vec::new(), Vec::new());
    read(args, 33, receive, &mut out, &mut log, &stop).unwrap();
    let text = |b| String::from_utf8(b).unwrap();
    (text(out), text(log))
}

#[test]
fn a_sample_is_a_line_of_text() {
    let (out, log) = run_on(&PsampleArgs::default(), vec![Ok(sample(5, 1))]);
    assert_eq!(
        out,
        "group 5 seq 1 in 7 out 70000 rate 100 length 98 protocol 0x0800 latency 1234 ns time 1700000000.000000005 \
         header 3 abcdef\n"
    );
    assert_eq!(log, "1 samples, group 5: 1 and 0 missing\n");
}

#[test]
fn json_has_a_sample_per_line_and_the_counts() {
    let args = PsampleArgs {
        json: true,
        ..PsampleArgs::default()
    };
    let (out, log) = run_on(&args, vec![Ok([sample(3, 1), sample(4, 1)].concat())]);
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(
        (&lines[0]["group"], &lines[1]["group"]),
        (&3.into(), &4.into())
    );
    assert_eq!(
        (&lines[0]["output"], &lines[0]["latency"]),
        (&70_000.into(), &1234.into())
    );
    assert_eq!(lines[0]["header"], "abcdef");
    let status: serde_json::Value = serde_json::from_str(&log).unwrap();
    assert_eq!(status["samples"], 2);
    let quiet = PsampleArgs {
        quiet: true,
        ..args
    };
    let (out, log) = run_on(&quiet, vec![Ok(sample(3, 1))]);
    let status: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&status["groups"]["3"]["samples"], log.as_str()),
        (&1.into(), "")
    );
}

#[test]
fn groups_are_selected_and_the_count_ends_the_run() {
    let args = PsampleArgs {
        group: vec![3],
        count: Some(2),
        ..PsampleArgs::default()
    };
    let all = vec![Ok(
        [sample(3, 1), sample(4, 1), sample(3, 2), sample(3, 3)].concat()
    )];
    let (out, log) = run_on(&args, all);
    assert_eq!(out.lines().count(), 2);
    assert_eq!(log, "2 samples, group 3: 2 and 0 missing\n");
}

#[test]
fn losses_are_counted_and_do_not_end_the_run() {
    let full = || Err(io::Error::from_raw_os_error(Errno::ENOBUFS as i32));
    let signal = Err(io::Error::from(io::ErrorKind::Interrupted));
    let args = PsampleArgs {
        quiet: true,
        ..PsampleArgs::default()
    };
    let all = vec![
        Ok(sample(3, 5)),
        full(),
        signal,
        Ok(sample(3, 9)),
        // Another command of the family, another family, a broken message.
        Ok(message(33, &[(3, &[1, 0, 0, 0])])),
        Ok(message(34, &[])),
        Ok(vec![1, 2, 3]),
        // The sampler starts again: nothing is missing.
        Ok(sample(3, 1)),
    ];
    let (out, log) = run_on(&args, all);
    assert_eq!(out, "");
    assert_eq!(
        log,
        "3 samples, group 3: 3 and 3 missing, 1 messages that are no samples, 1 times the receive buffer was full\n"
    );
}

#[test]
fn without_the_module_the_error_says_what_to_load() {
    // Where there is a psample module this joins the group or names the privilege; both are right.
    if let Err(e) = join() {
        let e = e.to_string();
        assert!(
            e.contains("modprobe psample") || e.contains("CAP_NET_ADMIN"),
            "{e}"
        );
    }
}
