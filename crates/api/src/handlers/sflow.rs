//! sFlow. VPP has one rate, one direction and one header length for all; here they are what interfaces follow that were not
//! told otherwise. VPP samples hardware alone; here sub-interfaces, tunnels and bonds are sampled under their own number.

use parshall_control::{Interface, Router, SampleDirection, SflowPort, header_range};
use parshall_vpp_wire::msg::*;

use super::interface_of;
use crate::registry::{Done, Refusal, Registry};
use crate::retval;

/// VPP's rate until told otherwise.
const RATE: u32 = 10_000;
/// Longest polling interval, in seconds.
const LONGEST: u32 = 3600;
/// Header bytes come in steps of so many.
const STEP: u32 = 32;

pub(super) fn register(t: &mut Registry) {
    t.ack(|r, m: &SflowEnableDisable| enable(r, m.hw_if_index, m.enable_disable));
    t.ack(|r, m: &SflowSamplingRateSet| {
        // Zero: nothing is sampled until there is another rate.
        Ok(r.set_sflow_rate(Some(m.sampling_n.min(parshall_control::MAX_RATE)))?)
    });
    t.answer(|r, _: &SflowSamplingRateGet| {
        let sampling_n = r.sflow_defaults().rate.unwrap_or(RATE);
        Ok(SflowSamplingRateGetReply { sampling_n })
    });
    t.ack(|r, m: &SflowPollingIntervalSet| {
        let seconds = m.polling_s.min(LONGEST);
        Ok(r.configure_agent(|c| c.polling_interval = seconds)?)
    });
    t.answer(|r, _: &SflowPollingIntervalGet| {
        let polling_s = r.agent_config().polling_interval;
        Ok(SflowPollingIntervalGetReply { polling_s })
    });
    t.ack(|r, m: &SflowHeaderBytesSet| Ok(r.set_sflow_header(header(m.header_b))?));
    t.answer(|r, _: &SflowHeaderBytesGet| {
        let header_b = u32::from(r.sflow_defaults().header_bytes);
        Ok(SflowHeaderBytesGetReply { header_b })
    });
    t.ack(|r, m: &SflowDirectionSet| {
        let direction = match m.sampling_d {
            1 => SampleDirection::Rx,
            2 => SampleDirection::Tx,
            3 => SampleDirection::Both,
            // VPP takes whatever it is told; there is no direction here that this would be.
            _ => return Ok(()),
        };
        Ok(r.set_sflow_direction(direction)?)
    });
    t.answer(|r, _: &SflowDirectionGet| {
        let sampling_d = match r.sflow_defaults().direction {
            SampleDirection::Rx => 1,
            SampleDirection::Tx => 2,
            SampleDirection::Both => 3,
        };
        Ok(SflowDirectionGetReply { sampling_d })
    });
    t.ack(|r, m: &SflowDropMonitoringSet| {
        let limit = if m.drop_m == 0 { 0 } else { DROPS };
        let on = r.agent_config().drop_limit != 0;
        if on == (limit != 0) {
            return Ok(());
        }
        Ok(r.configure_agent(|c| c.drop_limit = limit)?)
    });
    t.answer(|r, _: &SflowDropMonitoringGet| {
        let drop_m = u32::from(r.agent_config().drop_limit != 0);
        Ok(SflowDropMonitoringGetReply { drop_m })
    });
    t.each_interface(|_, m: &SflowInterfaceDump, i, out| {
        if i.sflow.is_some() && super::is_wanted(m.hw_if_index, i) {
            out.send(&SflowInterfaceDetails {
                hw_if_index: i.index,
            });
        }
    });
}

/// Discarded packets a second that are told of once VPP's switch for them is on.
const DROPS: u32 = 100;

fn header(bytes: u32) -> u16 {
    let (least, most) = header_range();
    let stepped = bytes.min(u32::from(most)).div_ceil(STEP) * STEP;
    u16::try_from(stepped)
        .unwrap_or(most)
        .clamp(least, most.min(256))
}

fn enable(r: &mut Router, index: u32, on: bool) -> Done<()> {
    let i: &Interface = interface_of(r, index)?;
    if index == 0 {
        let why = format!("{} stands for the router itself", i.name);
        return Err(Refusal::new(retval::NO_INTERFACE, why));
    }
    let name = i.name.clone();
    if i.sflow.is_some() == on {
        let state = if on { "enabled" } else { "disabled" };
        return Err(Refusal::new(
            retval::EXISTS,
            format!("sFlow is {state} on {name} already"),
        ));
    }
    if on {
        Ok(r.enable_sflow(&name, SflowPort::default())?)
    } else {
        Ok(r.disable_sflow(&name)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_bytes_are_vpps() {
        for (asked, got) in [
            (0, 64),
            (1, 64),
            (64, 64),
            (65, 96),
            (128, 128),
            (255, 256),
            (256, 256),
            (u32::MAX, 256),
        ] {
            assert_eq!(header(asked), got, "{asked}");
        }
    }
}
