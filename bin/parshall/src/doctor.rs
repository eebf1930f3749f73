//! `parshall doctor`: what the configuration asks of the machine, handed to the checks.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use parshall_config::Plan;
use parshall_doctor::{Device, Here, Wanted, examine, exit_code, json, text};

use crate::run::rehearsed;

/// Where the package keeps what survives a restart.
const STATE: &str = "/var/lib/parshall";

/// Arguments of `parshall doctor`.
#[derive(Args, Clone, Debug)]
pub struct DoctorArgs {
    /// The configuration that the machine is to carry.
    #[arg(short = 'c', long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print findings as JSON.
    #[arg(long)]
    json: bool,
    /// Tell also what is well.
    #[arg(long)]
    all: bool,
}

/// Looks at the machine. Exit status 0: all is well, 1: warnings, 2: problems.
pub fn run(args: &DoctorArgs) -> ExitCode {
    let found = examine(&Here, &wanted(args.config.as_deref()));
    if args.json {
        println!("{:#}", json(&found));
    } else {
        print!("{}", text(&found, args.all));
    }
    ExitCode::from(exit_code(&found))
}

/// What a configuration asks for; the defaults without one, or with one that is no good.
fn wanted(file: Option<&Path>) -> Wanted {
    let loaded = file.map(|f| (f, parshall_config::load(f).map_err(|e| e.to_string())));
    let plan = match &loaded {
        Some((_, Ok(plan))) => Some(plan.clone()),
        _ => parshall_config::parse("", "defaults").ok(),
    };
    let config = loaded.map(|(f, plan)| (f.to_owned(), plan.and_then(|p| rehearsed(f, &p))));
    let Some(plan) = plan else {
        return Wanted::default();
    };
    let sockets = [Some(plan.cli.socket.clone()), plan.http.socket.clone()];
    Wanted {
        config,
        workers: plan.engine.workers,
        cpus: plan.engine.cpus.clone(),
        share_cpus: plan.engine.share_cpus,
        buffers: plan.engine.buffers,
        devices: devices(&plan),
        sockets: sockets.into_iter().flatten().collect(),
        state: STATE.into(),
    }
}

/// The Linux interfaces of this network namespace that the commands of a plan take.
fn devices(plan: &Plan) -> Vec<Device> {
    let device = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, xdp) = match words.as_slice() {
            ["create", "host-interface", "name", name, ..] => (name, false),
            ["create", "interface", "af_xdp", "host-if", name, ..] => (name, true),
            _ => return None,
        };
        // In another namespace it is not to be seen from here.
        let away = words
            .iter()
            .any(|w| w.contains("namespace") || ["host-ns", "netns"].contains(w));
        (!away).then(|| Device {
            name: name.trim_matches('"').to_owned(),
            xdp,
        })
    };
    plan.commands
        .iter()
        .filter_map(|c| device(&c.line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_devices_of_a_plan() {
        let text = "interfaces:\n  host-eth0: {}\n  xdp-eth1: {}\n  tap0: {}\n  host-far: {namespace: x}\n";
        let plan = parshall_config::parse(text, "f").unwrap_or_else(|e| panic!("{e}"));
        let got: Vec<_> = devices(&plan)
            .into_iter()
            .map(|d| (d.name, d.xdp))
            .collect();
        assert_eq!(got, [("eth0".to_owned(), false), ("eth1".to_owned(), true)]);
    }

    #[test]
    fn a_configuration_that_is_no_good_is_told() {
        let w = wanted(Some(Path::new("/nosuch/file.yaml")));
        assert!(w.config.is_some_and(|(_, outcome)| outcome.is_err()));
        assert_eq!((w.workers, w.buffers), (1, 16_384));
    }
}
