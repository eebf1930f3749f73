//! sFlow: which records samples carry.

use parshall_agent::{RecordKind, Records};
use parshall_command::{Args, CommandSpec};
use serde::Serialize;

use super::{Context, Handler, Output, command};
use crate::error::{Error, Result};
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    command(
        "show sflow records",
        "Show which records samples carry",
        show,
    ),
    CommandSpec {
        pattern: "sflow records ( default | all | none )",
        help: "Put the records that belong to it, all there are, or none beside the indispensable in samples",
        detail: "",
        params: &[],
        handler: set,
    },
    CommandSpec {
        pattern: "sflow records <kind:{switch|router|gateway|mpls|vlan-tunnel|tunnel|egress-queue|transit-delay|timestamp|\
                  ethernet|vlan|lag|sfp|port-name|processor|app|host}> ( on | off )",
        help: "Put a record in samples, or leave it out",
        detail: "docs/reference/sflow-records.md says what each tells. The header of a packet, the counters of an \
                 interface and the reason of a drop are always there.",
        params: &[("kind", "The record")],
        handler: switch,
    },
];

fn set(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let all = RecordKind::ALL.iter();
    let records = match (args.has("all"), args.has("none")) {
        (true, _) => all.fold(Records::NONE, |set, k| set.with(*k, true)),
        (_, true) => Records::NONE,
        _ => Records::default(),
    };
    r.configure_agent(|c| c.records = records)?;
    Ok(Output::Done)
}

fn switch(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let name = args.need::<&str>("kind")?;
    let kind = RecordKind::ALL.iter().find(|k| k.name() == name);
    let kind = *kind.ok_or_else(|| Error::refused(format!("{name} is no record")))?;
    let on = args.has("on");
    r.configure_agent(|c| c.records = c.records.with(kind, on))?;
    Ok(Output::Done)
}

#[derive(Serialize)]
struct Shown {
    record: &'static str,
    on: bool,
    default: bool,
}

fn show(r: &mut Router, _: &Args, cx: &Context) -> Result<Output> {
    let records = r.sflow.config.records;
    let all = RecordKind::ALL.iter().map(|k| Shown {
        record: k.name(),
        on: records.has(*k),
        default: k.is_default(),
    });
    let all: Vec<Shown> = all.collect();
    cx.show(&all, |all| {
        let line = |s: &Shown| {
            let how = if s.on { "on" } else { "off" };
            format!("sflow records {} {how}\n", s.record)
        };
        all.iter().map(line).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;

    #[test]
    fn every_record_can_be_switched() {
        let mut r = Router::model(&EngineConfig::default()).unwrap();
        for kind in RecordKind::ALL {
            for on in [false, true] {
                let word = if on { "on" } else { "off" };
                r.run_line(&format!("sflow records {} {word}", kind.name()), false)
                    .unwrap();
                assert_eq!(r.sflow.config.records.has(*kind), on);
            }
        }
        r.run_line("sflow records default", false).unwrap();
        assert_eq!(r.sflow.config.records, Records::default());
        let Output::Text(shown) = r.run_line("show sflow records", false).unwrap() else {
            panic!("no text")
        };
        assert_eq!(shown.lines().count(), RecordKind::ALL.len());
        assert!(shown.contains("sflow records gateway on\n"));
        assert!(shown.contains("sflow records timestamp off\n"));
        r.run_line("sflow records none", false).unwrap();
        assert_eq!(r.sflow.config.records, Records::NONE);
        assert!(r.run_line("sflow records nat on", false).is_err());
    }
}
