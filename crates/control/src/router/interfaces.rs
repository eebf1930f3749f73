//! Interfaces: making and deleting them, state, sizes, addresses of the link layer, cross-connects.

use parshall_counters::IfTotals;
use parshall_device::Queues;
use parshall_graph::{NodeId, WorkerCommand};

use super::Router;
use crate::adjacency::LinkInfo;
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::interface::{DEFAULT_MTU, ETHERNET, Interface, MIN_MTU, Placement};
use crate::prefix::Family;
use crate::rib::Source;

/// Longest interface name.
const NAME_MAX: usize = 63;

impl Router {
    /// Makes an interface, down, and says its name.
    ///
    /// # Errors
    /// When the name is taken, there are too many, or the driver refuses.
    pub fn create_interface(&mut self, spec: DeviceSpec) -> Result<String> {
        let instance = match spec.instance {
            Some(n) => n,
            None => self.free_instance(&spec),
        };
        let limit = self.engine.graph.limits().interfaces;
        let index = self.interfaces.free_index(limit)?;
        let name = self.make_interface(spec, instance, index)?;
        self.undo(move |r| r.destroy_interface(index));
        Ok(name)
    }

    fn free_instance(&self, spec: &DeviceSpec) -> u32 {
        let stem = spec.kind.stem();
        let taken = |n: u32| {
            let same = |i: &Interface| {
                i.instance == n && i.spec.as_ref().is_some_and(|s| s.kind.stem() == stem)
            };
            self.interfaces.iter().any(same)
        };
        (0..).find(|n| !taken(*n)).unwrap_or(u32::MAX)
    }

    fn make_interface(&mut self, spec: DeviceSpec, instance: u32, index: u32) -> Result<String> {
        let name = spec
            .name
            .clone()
            .unwrap_or_else(|| spec.kind.default_name(instance));
        check_name(&name)?;
        if self.interfaces.find(&name).is_ok() {
            return Err(Error::InterfaceExists(name));
        }
        let node = self.engine.node(spec.kind.input_node())?;
        let made = self.factory.make(&spec, instance)?;
        let mut device = made.device;
        let workers = self.engine.workers();
        let queues = match workers {
            0 => Queues::default(),
            n => device.queues(index, n)?,
        };
        if spec.kind == DeviceKind::Pg {
            device.set_admin(false)?;
        }
        let info = device.info();
        let born = self.engine.interface_totals(index);
        let interface = Interface {
            index,
            name: name.clone(),
            instance,
            device: Some(device),
            pg: made.pg,
            mtu: info.max_frame.saturating_sub(ETHERNET).min(DEFAULT_MTU),
            max_frame: info.max_frame,
            mac: info.mac,
            placement: Vec::new(),
            born,
            cleared: born,
            spec: Some(spec),
            ..Interface::local0()
        };
        self.interfaces.insert(interface);
        self.hand_out(index, node, queues);
        self.link_changed(index);
        Ok(name)
    }

    /// Gives workers the queues of a new interface.
    fn hand_out(&mut self, index: u32, node: NodeId, queues: Queues) {
        let workers = self.engine.workers();
        let max_frame = self.interfaces.get(index).map_or(0, |i| i.max_frame);
        for (worker, queue) in queues.tx.into_iter().enumerate() {
            let up = false;
            self.engine.tell(
                worker,
                WorkerCommand::AddTx {
                    if_index: index,
                    queue,
                    up,
                    max_frame,
                },
            );
        }
        let one_each = queues.rx.len() == workers;
        for (queue, rx) in queues.rx.into_iter().enumerate() {
            let worker = if one_each {
                queue
            } else {
                self.idlest_worker()
            };
            if let Some(i) = self.interfaces.get_mut(index) {
                i.placement.push(Placement { queue, worker });
            }
            let command = WorkerCommand::AddRx {
                node,
                if_index: index,
                queue: rx,
                up: false,
            };
            self.engine.tell(worker, command);
        }
    }

    /// The worker with the fewest receive queues.
    fn idlest_worker(&self) -> usize {
        let load = |w: usize| {
            let on = |i: &Interface| i.placement.iter().filter(|p| p.worker == w).count();
            self.interfaces.iter().map(on).sum::<usize>()
        };
        (0..self.engine.workers())
            .min_by_key(|w| load(*w))
            .unwrap_or(0)
    }

    /// Deletes an interface of the kind that `stem` says, with all that hangs on it.
    ///
    /// # Errors
    /// When there is none of that name and kind.
    pub fn delete_interface(&mut self, name: &str, stem: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let spec = self.interfaces.get(index).and_then(|i| i.spec.as_ref());
        if let Some(spec) = spec.filter(|s| s.kind.stem() != stem) {
            return Err(Error::Interface {
                name: name.into(),
                why: format!(
                    "is of another kind: `{} {name}` deletes it",
                    spec.kind.delete_words()
                ),
            });
        }
        self.strip_interface(index)?;
        let Some(i) = self.interfaces.get(index) else {
            return Ok(());
        };
        let (spec, instance, was) = (i.spec.clone(), i.instance, (i.mtu, i.max_frame));
        self.destroy_interface(index)?;
        self.undo(move |r| {
            let Some(spec) = spec else { return Ok(()) };
            r.make_interface(spec, instance, index)?;
            r.apply_sizes(index, was.0, was.1)
        });
        Ok(())
    }

    /// Takes away everything that is configured on an interface or through it.
    fn strip_interface(&mut self, index: u32) -> Result<()> {
        let name = self.interfaces.name(index);
        self.delete_streams_of(index)?;
        if self
            .interfaces
            .get(index)
            .is_some_and(|i| i.sflow.is_some())
        {
            self.disable_sflow(&name)?;
        }
        let crossed: Vec<String> = self
            .interfaces
            .iter()
            .filter(|i| i.xconnect == Some(index) || (i.index == index && i.xconnect.is_some()))
            .map(|i| i.name.clone())
            .collect();
        for n in crossed {
            self.set_l3(&n)?;
        }
        self.remove_paths_through(index)?;
        let addresses = self
            .interfaces
            .get(index)
            .map(|i| i.addresses.clone())
            .unwrap_or_default();
        for (addr, len) in addresses {
            self.remove_address(&name, addr, len)?;
        }
        self.remove_static_neighbors(index)?;
        if self.interfaces.get(index).is_some_and(|i| i.ip6_enabled) {
            self.set_ip6_enabled(&name, false)?;
        }
        if self.interfaces.get(index).is_some_and(|i| i.mpls) {
            self.set_mpls(&name, false)?;
        }
        for family in [Family::Ip4, Family::Ip6] {
            self.bind_table(&name, family, 0)?;
        }
        self.set_state(&name, false)
    }

    /// Takes a bare interface away: workers give its queues back, then the device goes.
    fn destroy_interface(&mut self, index: u32) -> Result<()> {
        self.forget_neighbors(index);
        let Some(mut interface) = self.interfaces.remove(index) else {
            return Ok(());
        };
        if self.connected.contains_key(&index) {
            self.sync_connected(index)?;
        }
        self.forwarding
            .adjacencies
            .set_link(&self.engine.shared.adjacencies, index, None);
        self.publish();
        self.engine
            .tell_all(|_| WorkerCommand::RemoveInterface { if_index: index });
        let settled = self.engine.settle();
        interface.device = None;
        settled
    }

    /// Brings an interface up or down.
    ///
    /// # Errors
    /// When there is none of that name or the driver refuses.
    pub fn set_state(&mut self, name: &str, up: bool) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        if i.up == up {
            return Ok(());
        }
        if let Some(d) = i.device.as_mut() {
            d.set_admin(up)?;
        }
        i.up = up;
        self.tell_state(index);
        self.link_changed(index);
        self.rib.interface_changed(&mut self.forwarding, index);
        if up {
            self.announce(index);
        } else {
            self.forget_dynamic_neighbors(index);
        }
        let name = name.to_owned();
        self.undo(move |r| r.set_state(&name, !up));
        Ok(())
    }

    /// Tells workers whether an interface is up and what it carries.
    pub(super) fn tell_state(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else {
            return;
        };
        let (up, max_frame) = (i.up, i.max_frame);
        self.engine.tell_all(|_| WorkerCommand::SetInterface {
            if_index: index,
            up,
            max_frame,
        });
    }

    /// Shows everybody what an interface is now.
    pub(super) fn link_changed(&mut self, index: u32) {
        if let Some(i) = self.interfaces.get(index) {
            let info = LinkInfo {
                mac: i.mac,
                mtu: u16::try_from(i.mtu).unwrap_or(u16::MAX),
                up: i.up,
            };
            self.forwarding.adjacencies.set_link(
                &self.engine.shared.adjacencies,
                index,
                Some(info),
            );
        }
        self.publish();
    }

    /// Sets the largest IP packet (`packet_only`), or with it the largest frame of the device.
    ///
    /// # Errors
    /// When it is out of range or the driver refuses.
    pub fn set_mtu(&mut self, name: &str, mtu: u32, packet_only: bool) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let Some(i) = self.interfaces.get(index) else {
            return Ok(());
        };
        let was = (i.mtu, i.max_frame);
        let most = if packet_only {
            i.max_frame.saturating_sub(ETHERNET)
        } else {
            u32::from(u16::MAX) - ETHERNET
        };
        if !(MIN_MTU..=most).contains(&mtu) {
            return Err(Error::Interface {
                name: name.into(),
                why: format!("takes an MTU of {MIN_MTU} to {most} bytes, not {mtu}"),
            });
        }
        let max_frame = if packet_only { was.1 } else { mtu + ETHERNET };
        self.apply_sizes(index, mtu, max_frame)?;
        self.undo(move |r| r.apply_sizes(index, was.0, was.1));
        Ok(())
    }

    fn apply_sizes(&mut self, index: u32, mtu: u32, max_frame: u32) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        if i.max_frame != max_frame
            && let Some(d) = i.device.as_mut()
        {
            d.set_max_frame(max_frame)?;
        }
        (i.mtu, i.max_frame) = (mtu, max_frame);
        self.tell_state(index);
        self.link_changed(index);
        Ok(())
    }

    /// Sets the Ethernet address.
    ///
    /// # Errors
    /// When it is a group's or the driver refuses.
    pub fn set_mac(&mut self, name: &str, mac: [u8; 6]) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        if mac[0] & 1 != 0 || mac == [0; 6] {
            return Err(Error::Interface {
                name: name.into(),
                why: format!("cannot have the address {}", crate::text::mac(mac)),
            });
        }
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        if let Some(d) = i.device.as_mut() {
            d.set_mac(mac)?;
        }
        let was = std::mem::replace(&mut i.mac, mac);
        if let Some(spec) = i.spec.as_mut() {
            spec.mac = Some(mac);
        }
        self.link_changed(index);
        self.sync_connected(index)?;
        self.announce(index);
        let name = name.to_owned();
        self.undo(move |r| r.set_mac(&name, was));
        Ok(())
    }

    /// Receives all frames, or only those meant for it.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn set_promiscuous(&mut self, name: &str, on: bool) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let device_on = on || i.xconnect.is_some();
        if let Some(d) = i.device.as_mut() {
            d.set_promiscuous(device_on)?;
        }
        let was = std::mem::replace(&mut i.promiscuous, on);
        self.publish();
        let name = name.to_owned();
        self.undo(move |r| r.set_promiscuous(&name, was));
        Ok(())
    }

    /// Sends every frame that `name` receives out on `peer`.
    ///
    /// # Errors
    /// When one of them does not exist or both are the same.
    pub fn set_xconnect(&mut self, name: &str, peer: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let to = self.interfaces.find_real(peer)?;
        if index == to {
            return Err(Error::Interface {
                name: name.into(),
                why: "cannot be cross-connected to itself".into(),
            });
        }
        self.apply_xconnect(index, Some(to))
    }

    /// Ends a cross-connect: packets are routed again.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_l3(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        self.apply_xconnect(index, None)
    }

    fn apply_xconnect(&mut self, index: u32, peer: Option<u32>) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = i.xconnect;
        let everything = peer.is_some() || i.promiscuous;
        if let Some(d) = i.device.as_mut().filter(|_| was != peer) {
            d.set_promiscuous(everything)?;
        }
        i.xconnect = peer;
        self.publish();
        self.undo(move |r| r.apply_xconnect(index, was));
        Ok(())
    }

    /// Binds an interface to the table that packets it receives are looked up in.
    ///
    /// # Errors
    /// When there is no such table, or the interface has addresses of that family.
    pub fn bind_table(&mut self, name: &str, family: Family, id: u32) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        self.rib.table(family, id)?;
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = i.table(family);
        if was == id {
            return Ok(());
        }
        if i.addresses.iter().any(|a| Family::of(a.0) == family) {
            return Err(Error::Interface {
                name: name.into(),
                why: "has addresses in its present table: remove them first".into(),
            });
        }
        i.tables[family as usize] = id;
        self.sync_connected(index)?;
        self.publish();
        let name = name.to_owned();
        self.undo(move |r| r.bind_table(&name, family, was));
        Ok(())
    }

    /// Speaks MPLS on an interface, or not.
    ///
    /// # Errors
    /// When the MPLS table was not made.
    pub fn set_mpls(&mut self, name: &str, on: bool) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        if on && !self.mpls_table {
            return Err(Error::NoTable {
                family: "mpls",
                id: 0,
            });
        }
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = std::mem::replace(&mut i.mpls, on);
        self.publish();
        let name = name.to_owned();
        self.undo(move |r| r.set_mpls(&name, was));
        Ok(())
    }

    /// Counters of an interface since they were last cleared.
    pub fn interface_totals(&self, index: u32) -> IfTotals {
        let now = self.engine.interface_totals(index);
        match self.interfaces.get(index) {
            Some(i) => now.since(&i.cleared),
            None => now,
        }
    }

    /// Starts all interface counters at zero again.
    pub fn clear_interface_counters(&mut self) {
        let engine = &self.engine;
        for i in self.interfaces.iter_mut() {
            i.cleared = engine.interface_totals(i.index);
        }
    }

    /// Removes paths of static routes and labels that lead out of an interface by name.
    fn remove_paths_through(&mut self, index: u32) -> Result<()> {
        for (at, keep) in self.routes_through(index) {
            if keep.is_empty() {
                self.clear_route(at, Source::Static);
            } else {
                self.set_route(at, Source::Static, keep)?;
            }
        }
        for (label, eos, keep) in self.labels_through(index) {
            self.replace_label(label, eos, keep)?;
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<()> {
    let fine = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '{' | '}' | '#' | '\\');
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fine) {
        return Err(Error::refused(format!(
            "{name:?} cannot be an interface's name: 1 to {NAME_MAX} visible characters without quotes, braces, # and \\"
        )));
    }
    Ok(())
}
