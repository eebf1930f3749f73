//! The forwarding bench for a moment: every case runs and says what it should. How fast is not asked here.

use std::process::Command;

use serde_json::Value;

#[test]
fn every_case_forwards_without_allocating_and_accounts_for_its_samples() {
    let output = Command::new(env!("CARGO_BIN_EXE_parshall"))
        .args(["bench", "forward", "--sflow", "off,100", "--json"])
        .args(["--repeats", "1", "--window-ms", "20"])
        .output()
        .expect("the program runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    for key in [
        "cpu",
        "cpus",
        "tsc_hz",
        "kernel",
        "date",
        "version",
        "frame_bytes",
        "buffers",
        "packets",
    ] {
        assert!(!report[key].is_null(), "no {key}");
    }
    assert_eq!(
        (&report["allocations"], &report["faults"]),
        (&0.into(), &Value::Null)
    );
    let rows = report["cases"].as_array().expect("rows");
    let names: Vec<_> = rows
        .iter()
        .filter(|r| r["sflow"] == "off")
        .map(|r| &r["case"])
        .collect();
    let expected = [
        "l2xc",
        "l2bridge-16k",
        "l2bridge-100k",
        "ip4",
        "ip4-acl200",
        "ip4-1m",
        "ip4-full",
        "ip4-grown",
        "ip6",
        "ip6-500k",
        "ip6-full",
        "ip6-grown",
        "mpls-swap",
        "vxlan4-encap",
        "vxlan4-decap",
    ];
    assert_eq!(names, expected);
    assert_eq!(rows.len(), 2 * expected.len());
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
        assert!(
            number("mpps") > 0.0 && number("cycles_per_packet") > 0.0,
            "{row}"
        );
        let arrived = number("samples_delivered") + number("samples_lost");
        assert_eq!(number("samples"), arrived, "{row}");
        let sampled = row["sflow"] == 100;
        assert_eq!(sampled, number("samples") > 0.0, "{row}");
        assert_eq!(sampled, row.get("versus_off").is_some(), "{row}");
    }
}

#[test]
fn what_cannot_run_says_what_there_is() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_parshall"))
            .arg("bench")
            .args(args)
            .output();
        let output = output.expect("the program runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = run(&["forward", "--case", "ipx"]);
    assert!(
        text.contains("no case ipx; there are l2xc, l2bridge-16k, "),
        "{text}"
    );
    let text = run(&["forward", "--case", "l2xc", "--peer-vpp", "/nowhere"]);
    assert!(text.contains("no VPP at /nowhere"), "{text}");
    let text = run(&["all", "--only", "everything"]);
    assert!(
        text.contains("no part everything; there are forward, "),
        "{text}"
    );
}
