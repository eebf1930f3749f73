//! The router as a whole: versions, command lines, threads, packet generators.

use std::time::{SystemTime, UNIX_EPOCH};

use parshall_command::Script;
use parshall_control::{DeviceKind, DeviceSpec, Output, Router, ThreadFacts};
use parshall_linux::affinity;
use parshall_vpp_wire::msg::*;

use super::{NONE, delete};
use crate::registry::{Done, Refusal, Registry};
use crate::retval;

pub(super) fn register(t: &mut Registry) {
    t.answer(|_, _: &ShowVersion| {
        Ok(ShowVersionReply {
            retval: 0,
            // VPP's own word: clients look for it.
            program: "vpe".into(),
            version: format!("{}-parshall", env!("CARGO_PKG_VERSION")),
            build_date: String::new(),
            build_directory: String::new(),
        })
    });
    t.answer(|_, _: &ShowVpeSystemTime| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(ShowVpeSystemTimeReply {
            retval: 0,
            vpe_system_time: now.map_or(0.0, |d| d.as_secs_f64()),
        })
    });
    t.answer(|r, _: &ShowThreads| {
        let data = r.threads().into_iter().zip(0..).map(thread).collect();
        Ok(ShowThreadsReply {
            retval: 0,
            thread_data: data,
        })
    });
    // Not a transaction: of several lines those before one that fails are done, as in VPP.
    t.pages(|r, m: &CliInband, _, out| {
        out.send(&cli(r, &m.cmd));
        Ok(None)
    });
    t.answer(|r, m: &PgCreateInterface| {
        let sw_if_index = generator(r, m.interface_id, PgInterfaceMode::PG_API_MODE_ETHERNET)?;
        Ok(PgCreateInterfaceReply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &PgCreateInterfaceV2| {
        let sw_if_index = generator(r, m.interface_id, m.mode)?;
        Ok(PgCreateInterfaceV2Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.answer(|r, m: &PgCreateInterfaceV3| {
        let sw_if_index = generator(r, m.interface_id, m.mode)?;
        Ok(PgCreateInterfaceV3Reply {
            retval: 0,
            sw_if_index,
        })
    });
    t.ack(|r, m: &PgDeleteInterface| delete(r, m.sw_if_index, "pg"));
}

/// A thread as VPP tells it; what is not known of it is ~0.
fn thread((t, id): (ThreadFacts, u32)) -> ThreadData {
    let number = |n: Option<usize>| n.and_then(|n| u32::try_from(n).ok()).unwrap_or(NONE);
    ThreadData {
        id,
        name: t.name,
        type_: if t.is_worker { "workers" } else { "" }.into(),
        pid: t.tid.and_then(|n| u32::try_from(n).ok()).unwrap_or(NONE),
        cpu_id: number(t.cpu),
        core: number(t.cpu.and_then(affinity::core_of)),
        cpu_socket: number(t.cpu.and_then(affinity::node_of)),
    }
}

/// Command lines, one after the other until one fails; what they print, and why the last one did not work.
fn cli(r: &mut Router, text: &str) -> CliInbandReply {
    let mut reply = String::new();
    let failed = |mut reply: String, why: &str| {
        reply.push_str(why);
        CliInbandReply {
            retval: retval::UNSPECIFIED,
            reply,
        }
    };
    for line in Script::new(text) {
        let line = match line {
            Ok(line) => line,
            Err(e) => return failed(reply, &e.render()),
        };
        match r.run_line(line.text, false) {
            Ok(Output::Text(said)) => {
                reply.push_str(&said);
                if !said.is_empty() && !said.ends_with('\n') {
                    reply.push('\n');
                }
            }
            Ok(_) => {}
            Err(e) => return failed(reply, &e.to_string()),
        }
    }
    CliInbandReply { retval: 0, reply }
}

/// Makes a packet generator, or finds the one of that number: VPP does either.
fn generator(r: &mut Router, id: u32, mode: PgInterfaceMode) -> Done<u32> {
    if mode != PgInterfaceMode::PG_API_MODE_ETHERNET {
        return Err(Refusal::unimplemented(
            "a packet generator of another mode than ethernet",
        ));
    }
    if let Ok(index) = r.interfaces().find(&format!("pg{id}")) {
        return Ok(index);
    }
    let name = r.create_interface(DeviceSpec {
        instance: (id != NONE).then_some(id),
        name: None,
        mac: None,
        kind: DeviceKind::Pg,
    })?;
    super::index_of(r, &name)
}
