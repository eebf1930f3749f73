//! Machines that are made up, and the one that the tests run on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use parshall_linux::Offload;

use crate::{
    Device, Finding, Here, SocketState, State, System, Wanted, examine, exit_code, json, text,
};

/// A machine that is as it says.
struct Made {
    files: BTreeMap<String, String>,
    folders: BTreeSet<String>,
    af_xdp: Option<bool>,
    genl: bool,
    synchronized: bool,
    links: Vec<&'static str>,
    gro: bool,
    socket: SocketState,
    free: u64,
    cpus: Vec<usize>,
}

impl Made {
    /// One on which everything is well.
    fn good() -> Made {
        let files = [
            ("/proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\n"),
            (
                "/proc/self/limits",
                "Limit  Soft Limit Hard Limit Units\nMax locked memory         8388608              8388608 bytes\nMax open files            1048576 1048576 files\n",
            ),
            (
                "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                "100",
            ),
            (
                "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
                "100",
            ),
            ("/proc/sys/kernel/osrelease", "6.1.0-18-amd64"),
            (
                "/lib/modules/6.1.0-18-amd64/modules.builtin",
                "kernel/net/core/x.ko",
            ),
            (
                "/lib/modules/6.1.0-18-amd64/modules.dep",
                "kernel/drivers/net/veth.ko.xz: kernel/a.ko\n",
            ),
            ("/proc/sys/net/core/bpf_jit_enable", "1"),
            ("/proc/sys/net/core/rmem_max", "8388608"),
            ("/proc/sys/net/core/wmem_max", "8388608"),
            (
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc",
            ),
            (
                "/sys/devices/system/clocksource/clocksource0/available_clocksource",
                "tsc hpet",
            ),
            ("/sys/devices/system/cpu/isolated", "2-3"),
            (
                "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
                "2,6",
            ),
            (
                "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
                "3,7",
            ),
            (
                "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
                "performance",
            ),
        ];
        Made {
            files: files.map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            folders: ["/dev/net/tun".to_owned()].into(),
            af_xdp: Some(true),
            genl: true,
            synchronized: true,
            links: vec!["eth1"],
            gro: false,
            socket: SocketState::Absent,
            free: 1 << 30,
            cpus: (0..8).collect(),
        }
    }

    fn file(mut self, path: &str, text: &str) -> Made {
        self.files.insert(path.to_owned(), text.to_owned());
        self
    }
}

impl System for Made {
    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }
    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.folders.contains(path)
    }
    fn user(&self) -> u32 {
        1000
    }
    fn af_xdp(&self) -> Option<bool> {
        self.af_xdp
    }
    fn genl_family(&self, _: &str) -> Option<bool> {
        Some(self.genl)
    }
    fn clock_is_synchronized(&self) -> Option<bool> {
        Some(self.synchronized)
    }
    fn has_interface(&self, name: &str) -> bool {
        self.links.contains(&name)
    }
    fn offload(&self, _: &str, offload: Offload) -> Option<bool> {
        Some(self.gro && offload == Offload::Gro)
    }
    fn socket(&self, _: &Path) -> SocketState {
        self.socket
    }
    fn free_bytes(&self, _: &Path) -> Option<u64> {
        Some(self.free)
    }
    fn allowed_cpus(&self) -> Vec<usize> {
        self.cpus.clone()
    }
}

fn wanted() -> Wanted {
    Wanted {
        config: Some((PathBuf::from("r.yaml"), Ok(()))),
        workers: 2,
        cpus: vec![2, 3],
        share_cpus: false,
        buffers: 16_384,
        devices: vec![Device {
            name: "eth1".into(),
            xdp: true,
        }],
        sockets: vec!["/run/parshall/cli.sock".into()],
        state: "/var/lib/parshall".into(),
    }
}

/// State and mending command of the worst finding of a check.
fn worst<'f>(found: &'f [Finding], check: &str) -> (State, &'f str) {
    let of = found.iter().filter(|f| f.check == check);
    let worst = of
        .max_by_key(|f| f.state)
        .expect("the check says something");
    (worst.state, worst.mend.as_deref().unwrap_or(""))
}

#[test]
fn a_good_machine_has_nothing_to_mend() {
    let found = examine(&Made::good(), &wanted());
    let bad: Vec<_> = found.iter().filter(|f| f.state != State::Ok).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(exit_code(&found), 0);
    assert!(text(&found, false).ends_with("problems, 0 warnings\n"));
    assert!(text(&found, true).contains("ok       kernel"));
}

#[test]
fn every_trouble_is_named_with_what_mends_it() {
    use State::{Problem, Warning};
    let no_caps = "CapEff:\t0000000000000000\n";
    let limits = "Max locked memory 65536 65536 bytes\nMax open files 256 256 files\n";
    let cases: Vec<(Made, &str, State, &str)> = vec![
        (
            Made::good().file("/proc/self/status", no_caps),
            "privileges",
            Problem,
            "setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_bpf+ep",
        ),
        (
            Made::good()
                .file("/proc/self/status", no_caps)
                .file("/proc/self/limits", limits),
            "memlock",
            Problem,
            "LimitMEMLOCK",
        ),
        (
            Made::good().file("/proc/self/limits", limits),
            "descriptors",
            Problem,
            "ulimit -n",
        ),
        (
            Made::good().file(
                "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
                "7",
            ),
            "hugepages",
            Warning,
            "vm.nr_hugepages=",
        ),
        (
            Made::good().file("/proc/sys/kernel/osrelease", "4.19.0"),
            "kernel",
            Warning,
            "linux-image",
        ),
        (
            Made {
                af_xdp: Some(false),
                ..Made::good()
            },
            "af_xdp",
            Problem,
            "",
        ),
        (
            Made::good().file("/proc/sys/net/core/bpf_jit_enable", "0"),
            "bpf-jit",
            Problem,
            "bpf_jit_enable=1",
        ),
        (
            Made {
                folders: BTreeSet::new(),
                ..Made::good()
            },
            "tun",
            Warning,
            "modprobe tun",
        ),
        (
            Made {
                genl: false,
                ..Made::good()
            },
            "psample",
            Warning,
            "modprobe psample",
        ),
        (
            Made {
                genl: false,
                ..Made::good()
            },
            "drop-monitor",
            Warning,
            "modprobe drop_monitor",
        ),
        (
            Made::good().file("/lib/modules/6.1.0-18-amd64/modules.dep", ""),
            "veth",
            Warning,
            "modprobe veth",
        ),
        (
            Made::good().file(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                "hpet",
            ),
            "clock",
            Warning,
            "echo tsc",
        ),
        (
            Made {
                synchronized: false,
                ..Made::good()
            },
            "time",
            Warning,
            "chrony",
        ),
        (
            Made {
                cpus: vec![0, 1, 2],
                ..Made::good()
            },
            "cpus",
            Problem,
            "workers.cpus",
        ),
        (
            Made::good().file(
                "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
                "2-3",
            ),
            "cpus",
            Warning,
            "lscpu",
        ),
        (
            Made::good().file(
                "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
                "powersave",
            ),
            "governor",
            Warning,
            "cpupower",
        ),
        (
            Made::good().file("/sys/devices/system/cpu/isolated", "3"),
            "isolation",
            Warning,
            "isolcpus=2 ",
        ),
        (
            Made {
                links: vec![],
                ..Made::good()
            },
            "interfaces",
            Problem,
            "ip -brief link",
        ),
        (
            Made {
                gro: true,
                ..Made::good()
            },
            "offloads",
            Warning,
            "ethtool -K eth1 gro off",
        ),
        (
            Made {
                socket: SocketState::NotASocket,
                ..Made::good()
            },
            "sockets",
            Problem,
            "ls -l",
        ),
        (
            Made {
                socket: SocketState::Forbidden,
                ..Made::good()
            },
            "sockets",
            Problem,
            "/run/parshall",
        ),
        (
            Made::good().file("/proc/sys/net/core/rmem_max", "212992"),
            "socket-buffers",
            Warning,
            "rmem_max=4194304",
        ),
        (
            Made {
                free: 1 << 20,
                ..Made::good()
            },
            "disk",
            Warning,
            "df -h /var/lib/parshall",
        ),
    ];
    for (machine, check, state, mend) in cases {
        let found = examine(&machine, &wanted());
        let (got, how) = worst(&found, check);
        assert_eq!(got, state, "{check}: {found:#?}");
        assert!(how.contains(mend), "{check}: {how}");
        assert_eq!(
            exit_code(&found),
            if found.iter().any(|f| f.state == Problem) {
                2
            } else {
                1
            }
        );
        assert!(
            found
                .iter()
                .filter(|f| f.state != State::Ok)
                .all(|f| !f.why.is_empty())
        );
    }
    let broken = Wanted {
        config: Some(("r.yaml".into(), Err("r.yaml:1:1: no".into()))),
        ..wanted()
    };
    assert_eq!(worst(&examine(&Made::good(), &broken), "config").0, Problem);
}

#[test]
fn a_machine_that_says_nothing_is_borne() {
    let mute = Made {
        files: BTreeMap::new(),
        cpus: vec![],
        af_xdp: None,
        ..Made::good()
    };
    let found = examine(&mute, &Wanted::default());
    assert!(
        json(&found)["findings"]
            .as_array()
            .is_some_and(|a| a.len() > 10)
    );
}

#[test]
fn this_machine_is_looked_at() {
    let dir = tempfile::tempdir().expect("a folder");
    let sock = dir.path().join("cli.sock");
    let wanted = Wanted {
        sockets: vec![sock.clone()],
        state: dir.path().into(),
        workers: 1,
        buffers: 1024,
        ..Wanted::default()
    };
    let found = examine(&Here, &wanted);
    for check in ["kernel", "cpus", "disk", "sockets", "descriptors", "clock"] {
        assert!(
            found.iter().any(|f| f.check == check),
            "{check}: {found:#?}"
        );
    }
    assert_eq!(Here.socket(&sock), SocketState::Absent);
    std::fs::write(&sock, "x").expect("written");
    assert_eq!(Here.socket(&sock), SocketState::NotASocket);
    std::fs::remove_file(&sock).expect("removed");
    let listener = std::os::unix::net::UnixListener::bind(&sock).expect("bound");
    assert_eq!(Here.socket(&sock), SocketState::Live);
    drop(listener);
    assert_eq!(Here.socket(&sock), SocketState::Stale);
    assert!(Here.has_interface("lo") && !Here.has_interface("nosuch0"));
}

/// The reference page is made from the list of checks; `PARSHALL_BLESS=1 cargo test -p parshall-doctor` writes it anew.
#[test]
fn the_page_is_current() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/doctor.md"
    );
    if std::env::var_os("PARSHALL_BLESS").is_some() {
        std::fs::write(path, crate::page()).expect("written");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        stored == crate::page(),
        "docs/reference/doctor.md is out of date: PARSHALL_BLESS=1 cargo test -p parshall-doctor writes it"
    );
}
