//! What start-up configurations of VPP come to: its own test framework's, its packages', and wrong ones.

use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Startup {
    Startup::parse(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn error(text: &str) -> String {
    Startup::parse(text).expect_err(text).to_string()
}

#[test]
fn the_arguments_of_vpps_tests_are_taken() {
    let s = parse(
        "unix { nodaemon nosyslog  full-coredump coredump-size unlimited runtime-dir /tmp/t cli-listen  /tmp/t/cli.sock   } \
         api-trace { on } api-segment { prefix t } cpu { main-core 3 corelist-workers 4,6-7 } \
         physmem { max-size 32m } statseg { socket-name /tmp/t/stats.sock  } socksvr { socket-name /tmp/t/api.sock } \
         node {   } api-fuzz { off } plugins { plugin dpdk_plugin.so { disable } plugin x.so { enable } }",
    );
    assert_eq!(s.cli_sockets, [Path::new("/tmp/t/cli.sock")]);
    assert_eq!(s.api_sockets, [Path::new("/tmp/t/api.sock")]);
    assert_eq!(s.stats_socket, Path::new("/tmp/t/stats.sock"));
    assert_eq!(s.runtime_dir, Path::new("/tmp/t"));
    assert_eq!((s.engine.workers, s.engine.main_cpu), (3, Some(3)));
    assert_eq!(s.engine.cpus, [4, 6, 7]);
    assert_eq!(
        s.notes,
        [
            "not used of the start-up configuration: unix full-coredump, unix coredump-size, api-trace, \
          api-segment, physmem, node, api-fuzz, plugins"
        ]
    );
}

#[test]
fn the_file_of_vpps_packages_is_taken() {
    let s = parse(
        "# a comment with { a brace\nunix {\n  nodaemon\n  log /var/log/vpp/vpp.log # where\n  full-coredump\n  \
         cli-listen /run/vpp/cli.sock\n  gid vpp\n  exec /etc/vpp/setup.gate\n  pidfile /run/vpp/vpp.pid\n}\n\
         api-segment {\n  gid vpp\n}\nsocksvr {\n  default\n}\n\ncpu {\n\tworkers 2\n main-core 1\n}\n\
         buffers { buffers-per-numa 128000 default data-size 2048 }\nstatseg { size 64M per-node-counters on }\n\
         logging { default-log-level debug }\n",
    );
    assert_eq!(s.group.as_deref(), Some("vpp"));
    assert_eq!(s.exec, [Path::new("/etc/vpp/setup.gate")]);
    assert_eq!(s.pid_file.as_deref(), Some(Path::new("/run/vpp/vpp.pid")));
    assert_eq!(s.api_sockets, [Path::new("/run/vpp/api.sock")]);
    assert_eq!(s.stats_socket, Path::new("/run/vpp/stats.sock"));
    assert_eq!((s.stats_size, s.log), (64 << 20, LogLevel::Debug));
    assert_eq!(s.engine.cpus, [2, 3]);
    assert_eq!((s.engine.buffers, s.engine.share_cpus), (64_000, false));
}

#[test]
fn without_workers_one_shares_the_main_core() {
    let engine = parse("cpu { main-core 1 }").engine;
    assert_eq!(
        (engine.workers, engine.cpus, engine.main_cpu),
        (1, vec![1], Some(1))
    );
    assert!(engine.share_cpus);
    assert_eq!(parse("").engine.workers, 1);
    assert_eq!(parse("cpu { workers 0 }").engine.workers, 1);
    assert_eq!(parse("cpu { workers 3 }").engine.cpus, Vec::<usize>::new());
    assert_eq!(parse("cpu { skip-cores 2 workers 2 }").engine.cpus, [3, 4]);
    // Nobody said so, so nobody is told.
    assert!(parse("unix { nodaemon }").notes.is_empty());
    assert!(parse("").api_sockets.is_empty());
}

#[test]
fn a_port_is_not_opened_and_that_is_said() {
    let s = parse("unix { cli-listen localhost:5002 }");
    assert!(s.cli_sockets.is_empty());
    assert!(
        s.notes[0].ends_with("unix cli-listen localhost:5002"),
        "{:?}",
        s.notes
    );
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, want) in [
        ("unix", "line 1: `unix` is not followed by { ... }"),
        ("unix\n{\n", "line 2: `{` without a `}` behind it"),
        ("unix { } }", "line 1: `}` without a `{` before it"),
        ("{ }", "line 1: a section has no name"),
        (
            "cpu {\n main-core }",
            "line 2: `main-core` is not followed by a number",
        ),
        (
            "cpu { main-core x }",
            "line 1: `main-core x`: it is a number from 0 to 1023",
        ),
        (
            "cpu { workers 65 }",
            "line 1: `workers 65`: it is a number from 0 to 64",
        ),
        (
            "cpu { corelist-workers 3-1 }",
            "line 1: a list of CPUs is such as 2-4,7 (at most 64)",
        ),
        (
            "cpu { corelist-workers 0-99 }",
            "line 1: a list of CPUs is such as 2-4,7 (at most 64)",
        ),
        (
            "\nstatseg { size 1 }",
            "line 2: a size is such as 32m, from 1m to 4g",
        ),
        (
            "unix { exec { } }",
            "line 1: `exec` is not followed by a file",
        ),
    ] {
        assert_eq!(error(text), want);
    }
    assert!(error(&"a {".repeat(40)).contains("blocks within each other"));
    assert!(error(&" ".repeat(MAX_BYTES + 1)).contains("are too many"));
}

proptest! {
    #[test]
    fn whatever_it_is_it_is_taken_or_refused(text in "([a-z]{1,4}|unix|cpu|[{} #\n]|[0-9]{1,3}|main-core|exec ){0,40}") {
        match Startup::parse(&text) {
            Ok(s) => prop_assert!((1..=64).contains(&s.engine.workers)),
            Err(e) => prop_assert!(e.line <= text.lines().count().max(1)),
        }
    }
}
