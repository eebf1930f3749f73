//! Bonds: members, and the protocol that finds out which of them can send (LACP).

use parshall_nodes::bond::{BondView, BondViews, Choice};
use parshall_wire::lacp::{Lacp, LacpInfo, state};

use super::Router;
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::interface::{Interface, Interfaces};
use crate::lacp::{Partner, Port};
use crate::virtual_interface::{BondMode, BondSpec, Membership, VirtualKind};

/// Priority of system and ports, the lowest there is: the other end decides.
const PRIORITY: u16 = 0xFFFF;

impl Router {
    /// Makes a bond without members, down, and says its name.
    ///
    /// # Errors
    /// When there is one of that number.
    pub fn create_bond(&mut self, spec: BondSpec, mac: Option<[u8; 6]>) -> Result<String> {
        self.create_interface(DeviceSpec {
            instance: spec.id,
            name: None,
            mac,
            kind: DeviceKind::Virtual(VirtualKind::Bond(spec)),
        })
    }

    /// Deletes a bond; its members are interfaces of their own again.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn delete_bond(&mut self, name: &str) -> Result<()> {
        self.delete_interface(name, "BondEthernet")
    }

    /// Makes an interface a member of a bond.
    ///
    /// # Errors
    /// When it cannot be one.
    pub fn add_bond_member(
        &mut self,
        bond: &str,
        member: &str,
        (passive, long_timeout): (bool, bool),
    ) -> Result<()> {
        let of = self.interfaces.find_real(bond)?;
        let index = self.interfaces.find_real(member)?;
        self.check_member(of, index)?;
        let membership = Membership {
            bond: of,
            passive,
            long_timeout,
            active: false,
        };
        self.apply_member(index, Some(membership))?;
        self.undo(move |r| r.apply_member(index, None));
        if self.interfaces.get(of).is_some_and(|b| b.up) {
            self.set_state(member, true)?;
        }
        Ok(())
    }

    /// Takes an interface out of its bond.
    ///
    /// # Errors
    /// When it is in none.
    pub fn remove_bond_member(&mut self, member: &str) -> Result<()> {
        let index = self.interfaces.find_real(member)?;
        let Some(was) = self.interfaces.get(index).and_then(|i| i.member) else {
            return Err(Error::Interface {
                name: member.into(),
                why: "is no member of a bond".into(),
            });
        };
        self.apply_member(index, None)?;
        self.undo(move |r| r.apply_member(index, Some(was)));
        Ok(())
    }

    fn check_member(&self, bond: u32, index: u32) -> Result<()> {
        let (Some(b), Some(i)) = (self.interfaces.get(bond), self.interfaces.get(index)) else {
            return Ok(());
        };
        let refuse = |i: &Interface, why: &str| {
            Err(Error::Interface {
                name: i.name.clone(),
                why: why.into(),
            })
        };
        if b.bond().is_none() {
            return refuse(b, "is no bond");
        }
        if i.device.is_none() {
            return refuse(i, "has no device and cannot be a member of a bond");
        }
        if i.member.is_some() {
            return refuse(i, "is a member of a bond already");
        }
        let parts = self.interfaces.iter().any(|s| s.parent == Some(index));
        if parts || i.is_switched() || i.all_addresses().next().is_some() {
            return refuse(
                i,
                "has addresses, sub-interfaces or is switched: a member of a bond has nothing of its own",
            );
        }
        Ok(())
    }

    /// Whether an interface has settings of its own: a member of a bond has not.
    pub(super) fn check_no_member(&self, index: u32) -> Result<()> {
        match self.interfaces.get(index) {
            Some(i) if i.member.is_some() => Err(Error::Interface {
                name: i.name.clone(),
                why: "is a member of a bond: its settings are the bond's".into(),
            }),
            _ => Ok(()),
        }
    }

    fn apply_member(&mut self, index: u32, to: Option<Membership>) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        // Frames for the bond's address come in on any member.
        let everything = to.is_some() || i.promiscuous;
        if let Some(d) = i.device.as_mut() {
            d.set_promiscuous(everything)?;
        }
        let was = std::mem::replace(&mut i.member, to);
        self.engine.set_feature("bond-input", index, to.is_some())?;
        self.lacp.remove(&index);
        if let Some(m) = to {
            self.start_lacp(index, &m);
        }
        self.publish();
        for bond in [was, to].into_iter().flatten() {
            self.follow(bond.bond);
        }
        self.tell_state(index);
        Ok(())
    }

    fn start_lacp(&mut self, index: u32, m: &Membership) {
        if let Some(own) = self.lacp_own(index, m) {
            self.lacp.insert(index, Port::new(own));
        }
    }

    /// What a member says of itself, if its bond is one of LACP.
    fn lacp_own(&self, index: u32, m: &Membership) -> Option<LacpInfo> {
        let bond = self.interfaces.get(m.bond)?;
        bond.bond().filter(|s| s.mode == BondMode::Lacp)?;
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        Some(LacpInfo {
            system_priority: PRIORITY,
            system: bond.mac,
            key: bond.instance as u16 + 1,
            port_priority: PRIORITY,
            port: index as u16,
            state: bit(!m.passive, state::ACTIVITY) | bit(!m.long_timeout, state::TIMEOUT),
        })
    }

    /// Members of a bond speak for one system, or their partner keeps them apart: they start anew when the bond's address is
    /// another, as it is once it has a first member.
    fn restart_renamed(&mut self) {
        let own = |index: u32| self.lacp_own(index, &self.interfaces.get(index)?.member?);
        let renamed: Vec<_> = self
            .lacp
            .iter()
            .filter_map(|(index, port)| Some((*index, own(*index)?, port.actor().system)))
            .filter(|(_, own, was)| own.system != *was)
            .collect();
        for (index, own, _) in renamed {
            self.lacp.insert(index, Port::new(own));
        }
    }

    /// A LACPDU came in on a member.
    pub(super) fn lacp_heard(&mut self, index: u32, pdu: &Lacp) {
        let now = self.now;
        if let Some(port) = self.lacp.get_mut(&index) {
            port.heard(now, pdu);
        }
    }

    /// Lets the protocol go on.
    pub(super) fn run_lacp(&mut self) {
        if self.lacp.is_empty() {
            return;
        }
        self.restart_renamed();
        let now = self.now;
        for (index, port) in &mut self.lacp {
            let there = self.interfaces.get(*index).is_some_and(|i| i.up && i.link);
            port.set_enabled(now, there);
        }
        self.select_ports();
        let mut to_send = Vec::new();
        let mut changed = Vec::new();
        for (index, port) in &mut self.lacp {
            to_send.extend(port.run(now).map(|pdu| (*index, pdu)));
            changed.push((*index, port.is_distributing()));
        }
        for (index, pdu) in to_send {
            let mac = self.interfaces.get(index).map_or([0; 6], |i| i.mac);
            self.engine.send_frame(index, pdu.frame(mac));
        }
        for (index, active) in changed {
            self.set_active(index, active);
        }
    }

    fn set_active(&mut self, index: u32, active: bool) {
        let Some(i) = self.interfaces.get_mut(index) else {
            return;
        };
        let Some(m) = i.member.as_mut().filter(|m| m.active != active) else {
            return;
        };
        m.active = active;
        let (bond, word) = (m.bond, if active { "joins" } else { "leaves" });
        tracing::info!("{} {word} its bond", i.name);
        self.publish();
        self.follow(bond);
    }

    /// Ports of a bond that lead to the same partner go together: the most there are, the first of equals.
    fn select_ports(&mut self) {
        let bond_of = |index: u32| Some(self.interfaces.get(index)?.member?.bond);
        let mut groups: Vec<(u32, Partner, usize)> = Vec::new();
        for (index, port) in &self.lacp {
            let (Some(bond), Some(who)) = (bond_of(*index), port.candidate()) else {
                continue;
            };
            match groups.iter_mut().find(|g| (g.0, g.1) == (bond, who)) {
                Some(g) => g.2 += 1,
                None => groups.push((bond, who, 1)),
            }
        }
        let best = |bond: u32| {
            let of = groups.iter().rev().filter(|g| g.0 == bond);
            of.max_by_key(|g| g.2).map(|g| g.1)
        };
        for (index, port) in &mut self.lacp {
            let bond = self
                .interfaces
                .get(*index)
                .and_then(|i| Some(i.member?.bond));
            let wanted = bond.and_then(best);
            let own = port.candidate();
            port.select(own.is_some() && own == wanted);
        }
    }

    /// Brings the members of a bond up or down with it.
    pub(super) fn lead_members(&mut self, bond: u32, up: bool) -> Result<()> {
        let is_bond = |i: &Interface| i.bond().is_some();
        // When undoing, each member's change has its own way back.
        if self.undoing || !self.interfaces.get(bond).is_some_and(is_bond) {
            return Ok(());
        }
        let members = self.interfaces.members(bond);
        for name in members.map(|m| m.name.clone()).collect::<Vec<_>>() {
            self.set_state(&name, up)?;
        }
        Ok(())
    }

    /// What a member's LACP says, for `show lacp`.
    pub(crate) fn lacp_port(&self, index: u32) -> Option<&Port> {
        self.lacp.get(&index)
    }
}

/// The bond that an interface is a member of. Not inlined: the comparison with a bond would be made first and the look whether
/// there is one afterwards, which memcheck takes for a use of what was never written.
#[inline(never)]
fn leader(i: &Interface) -> Option<u32> {
    i.member.map(|m| m.bond)
}

impl Interfaces {
    /// Members of a bond.
    pub fn members(&self, bond: u32) -> impl Iterator<Item = &Interface> {
        self.iter().filter(move |i| leader(i) == Some(bond))
    }

    /// Members of a bond that can send.
    pub fn active_members(&self, bond: u32) -> impl Iterator<Item = &Interface> {
        let lacp = self
            .get(bond)
            .and_then(Interface::bond)
            .is_some_and(|s| s.mode == BondMode::Lacp);
        let can =
            move |i: &&Interface| i.up && i.link && (!lacp || i.member.is_some_and(|m| m.active));
        self.members(bond).filter(can)
    }

    /// The bonds as workers are to know them.
    pub(crate) fn bonds(&self) -> BondViews {
        let mut views = BondViews::default();
        for i in self.iter() {
            if let Some(m) = i.member {
                views.of_member.insert(i.index, m.bond);
            }
            let Some(spec) = i.bond() else { continue };
            let view = BondView {
                choice: choice(spec),
                members: self.active_members(i.index).map(|m| m.index).collect(),
            };
            views.bonds.insert(i.index, view);
        }
        views
    }
}

fn choice(spec: &BondSpec) -> Choice {
    use crate::virtual_interface::BondBalance::*;
    match (spec.mode, spec.balance) {
        (BondMode::RoundRobin, _) => Choice::RoundRobin,
        (BondMode::ActiveBackup, _) => Choice::First,
        (BondMode::Broadcast, _) => Choice::All,
        (_, L2) => Choice::Layer2,
        (_, L23) => Choice::Layer23,
        (_, L34) => Choice::Layer34,
    }
}
