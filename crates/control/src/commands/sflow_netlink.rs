//! sFlow by way of hsflowd: what the agent gives it over netlink.

use std::fmt::Write;

use parshall_agent::AgentStatus;
use parshall_agent::netlink::{ChannelState, NetlinkChannel, NetlinkConfig};
use parshall_command::{Args, CommandSpec};

use super::{Context, Handler, Output};
use crate::error::Result;
use crate::router::Router;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[CommandSpec {
    pattern: "sflow netlink [* group <group:u32 1..=65534> | no-os-index | disable]",
    help: "Give samples, counters and drops to hsflowd on this machine, or stop",
    detail: "As VPP's sflow plugin does: packet samples to the kernel's PSAMPLE group, counters to hsflowd's vpp module, and \
             with drop monitoring on drops to the kernel's drop monitor. Runs beside collectors.",
    params: &[
        (
            "group",
            "PSAMPLE group of packets received, those sent go to the next one; 3 when not given, as hsflowd expects",
        ),
        (
            "no-os-index",
            "Number ports of drops for an hsflowd with osIndex=off",
        ),
    ],
    handler: netlink,
}];

fn netlink(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let default = NetlinkConfig::default();
    let wanted = NetlinkConfig {
        group: args.get("group").unwrap_or(default.group),
        os_index: !args.has("no-os-index"),
    };
    let wanted = (!args.has("disable")).then_some(wanted);
    r.configure_agent(|c| c.netlink = wanted)?;
    Ok(Output::Done)
}

/// The netlink exporter's part of `show sflow`.
pub(super) fn print(out: &mut String, a: &AgentStatus) {
    let Some(n) = &a.netlink else {
        return;
    };
    let groups = (n.config.group, n.config.group + 1);
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "netlink: psample groups {} and {}", groups.0, groups.1);
    for c in &n.channels {
        let name = match c.channel {
            NetlinkChannel::Psample => "psample",
            NetlinkChannel::Usersock => "usersock",
            NetlinkChannel::Dropmon => "drop monitor",
        };
        let state = match (c.state, c.listeners) {
            (ChannelState::Ready, Some(0)) => "ready, nobody listens".to_owned(),
            (ChannelState::Ready, Some(n)) => format!("ready, listeners {n}"),
            (ChannelState::Ready, None) => "ready".to_owned(),
            (ChannelState::Opening, _) => "opening".to_owned(),
            (ChannelState::Waiting, _) => "cannot be opened, trying again".to_owned(),
        };
        let _ = writeln!(
            out,
            "  {name}: {state}, sent {} failed {}",
            c.sent, c.failed
        );
        if let Some(e) = &c.last_error {
            let ago = c.last_error_ago_ms.unwrap_or(0) as f64 / 1000.0;
            let _ = writeln!(out, "    last error {ago:.1} s ago: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineConfig;
    use parshall_agent::netlink::{ChannelStatus, NetlinkStatus};

    fn router() -> Router {
        Router::model(&EngineConfig::default()).unwrap()
    }

    #[test]
    fn what_is_not_given_is_as_hsflowd_expects_and_all_can_be_undone() {
        let mut r = router();
        let mut run = |line: &str| {
            r.run_line(line, false).map_err(|e| e.to_string())?;
            Ok::<_, String>(r.sflow.config.netlink.map(|n| (n.group, n.os_index)))
        };
        assert_eq!(run("sflow netlink"), Ok(Some((3, true))));
        assert_eq!(
            run("sflow netlink no-os-index group 9"),
            Ok(Some((9, false)))
        );
        assert_eq!(run("sflow netlink disable"), Ok(None));
        assert!(
            run("sflow netlink group 0")
                .unwrap_err()
                .contains("1..=65534")
        );
    }

    #[test]
    fn show_says_who_listens_and_what_is_missing() {
        let channel = |channel, state, listeners, error: &str| ChannelStatus {
            channel,
            state,
            listeners,
            sent: 7,
            failed: 1,
            last_error: (!error.is_empty()).then(|| error.to_owned()),
            last_error_ago_ms: Some(1500),
        };
        let status = AgentStatus {
            netlink: Some(NetlinkStatus {
                config: NetlinkConfig::default(),
                channels: vec![
                    channel(
                        NetlinkChannel::Psample,
                        ChannelState::Waiting,
                        None,
                        "no module",
                    ),
                    channel(NetlinkChannel::Usersock, ChannelState::Ready, Some(0), ""),
                    channel(NetlinkChannel::Dropmon, ChannelState::Ready, Some(2), ""),
                ],
            }),
            ..AgentStatus::default()
        };
        let mut out = String::new();
        print(&mut out, &status);
        assert_eq!(
            out,
            "netlink: psample groups 3 and 4\n\
             \x20 psample: cannot be opened, trying again, sent 7 failed 1\n\
             \x20   last error 1.5 s ago: no module\n\
             \x20 usersock: ready, nobody listens, sent 7 failed 1\n\
             \x20 drop monitor: ready, listeners 2, sent 7 failed 1\n"
        );
        let mut none = String::new();
        print(&mut none, &AgentStatus::default());
        assert_eq!(none, "");
    }
}
