//! Receive sampling of interfaces without a device: the nodes that say of a packet "received here from now on" get
//! samplers of their own, with the first such interface that is sampled.

use std::cell::RefCell;

use parshall_nodes::{SflowSettings, VirtualSamplers};

use super::Router;
use crate::drivers::DeviceKind;
use crate::error::{Error, Result};

/// Nodes that hand packets of a bridge domain to its routed interface.
const BRIDGE_NODES: &[&str] = &["l2-fwd", "l2-flood"];

impl Router {
    /// Tells the nodes that receive packets on an interface, beside its device, how these are sampled.
    pub(super) fn tell_receivers(&mut self, settings: &SflowSettings) -> Result<()> {
        for node in self.receivers(settings.if_index) {
            // What was never told to sample need not be told to stop.
            if settings.rate == 0 && !self.sflow.receivers.contains(node) {
                continue;
            }
            if self.sflow.receivers.insert(node) {
                self.install_samplers(node)?;
            }
            self.engine.message(node, settings)?;
        }
        Ok(())
    }

    fn receivers(&self, index: u32) -> Vec<&'static str> {
        let Some(i) = self.interfaces.get(index) else {
            return Vec::new();
        };
        match i.virtual_kind() {
            Some(kind) => vec![kind.input_node()],
            None if matches!(i.spec.as_ref().map(|s| &s.kind), Some(DeviceKind::Loopback)) => {
                BRIDGE_NODES.to_vec()
            }
            None => Vec::new(),
        }
    }

    /// Gives each worker's node samplers. Where their samples come out waits for the agent.
    fn install_samplers(&mut self, node: &'static str) -> Result<()> {
        let (seed, interfaces) = (self.sflow.seed, self.engine.config().interfaces);
        // No two of them may sample the same positions.
        let turn = self.sflow.receivers.len() as u64;
        let rings = RefCell::new(Vec::new());
        self.engine.message_each(node, |worker| {
            let place = turn << 32 | worker as u64;
            let seed = seed.wrapping_add((place + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let (samplers, ring) = VirtualSamplers::new(interfaces, seed);
            rings.borrow_mut().push((worker, ring));
            Some(samplers)
        })?;
        let rings = rings.into_inner().into_iter();
        let numbered = rings.map(|(worker, ring)| (worker as u32, ring));
        self.sflow.rings.extend(numbered);
        Ok(())
    }

    /// Hands the agent the rings that wait for it, if it runs.
    pub(super) fn hand_rings_over(&mut self) -> Result<()> {
        let Some(agent) = &self.sflow.agent else {
            return Ok(());
        };
        for (worker, ring) in self.sflow.rings.drain(..) {
            agent
                .add_source(worker, ring)
                .map_err(|e| Error::Device(e.to_string()))?;
        }
        Ok(())
    }
}
