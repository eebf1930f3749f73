//! Making and deleting interfaces.

use parshall_counters::IfTotals;
use parshall_device::Queues;
use parshall_graph::{NodeId, RxMode, WorkerCommand};

use super::Router;
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::interface::{DEFAULT_MTU, ETHERNET, Interface, Placement, Told};
use crate::prefix::Family;
use crate::rib::Source;
use crate::virtual_interface::Vtr;

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
        let index = self.make_way(&spec, instance)?;
        let name = self.make_interface(spec, instance, index)?;
        self.undo(move |r| r.destroy_interface(index));
        Ok(name)
    }

    /// Notes what an interface is told. To be called before it is done: undoing ends with what is noted here.
    pub(super) fn tell(&mut self, index: u32, change: impl FnOnce(&mut Told)) {
        let Some(i) = self.interfaces.get_mut(index) else {
            return;
        };
        let was = i.told.clone();
        change(&mut i.told);
        self.undo(move |r| {
            if let Some(i) = r.interfaces.get_mut(index) {
                i.told = was;
            }
            Ok(())
        });
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
        if self.is_leaving(index) {
            self.switch_early()?;
        }
        let name = spec
            .name
            .clone()
            .unwrap_or_else(|| spec.kind.default_name(instance));
        check_name(&name)?;
        if self.interfaces.find(&name).is_ok() {
            return Err(Error::InterfaceExists(name));
        }
        if let DeviceKind::Virtual(kind) = spec.kind.clone() {
            self.make_virtual((spec, &kind), (name.clone(), instance), index)?;
            return Ok(name);
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
        let if_index = self.number_for(&name, index);
        self.incarnations += 1;
        let mtu = info.max_frame.saturating_sub(ETHERNET).min(DEFAULT_MTU);
        let interface = Interface {
            index,
            name: name.clone(),
            instance,
            hardware: device.hardware(),
            device: Some(device),
            pg: made.pg,
            link: info.link_up,
            mtu,
            max_frame: info.max_frame,
            born_sizes: (mtu, info.max_frame),
            speed: info.speed,
            tx_queues: queues.tx.len().min(workers),
            if_index,
            incarnation: self.incarnations,
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
        let max_frame = self.interfaces.get(index).map_or(0, |i| i.max_frame);
        self.engine.give_tx(index, queues.tx, (false, max_frame));
        // The n-th queue to worker n where there are as many; a generator's streams go by that.
        let one_each = queues.rx.len() == self.engine.workers();
        for (queue, rx) in queues.rx.into_iter().enumerate() {
            let worker = if one_each {
                queue
            } else {
                self.idlest_worker()
            };
            let placement = Placement {
                queue,
                worker,
                mode: self.default_mode(),
                can_wait: rx.fd().is_some(),
            };
            if let Some(i) = self.interfaces.get_mut(index) {
                i.placement.push(placement);
            }
            let command = WorkerCommand::AddRx {
                node,
                if_index: index,
                queue_id: queue,
                queue: rx,
                up: false,
                mode: placement.mode,
            };
            self.engine.tell(placement.worker, command);
        }
    }

    pub(super) fn default_mode(&self) -> RxMode {
        if self.engine.config().busy_poll {
            RxMode::Polling
        } else {
            RxMode::Adaptive
        }
    }

    /// The worker with the fewest receive queues, the first of several: each in its turn, as long as no
    /// queue is moved or taken away.
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
        let (parent, inherits, incarnation) = (i.parent, i.inherits_mtu, i.incarnation);
        let (places, told) = (i.placement.clone(), i.told.clone());
        self.destroy_interface(index)?;
        if let Some(parent) = parent {
            self.tell_state(parent);
        }
        self.undo(move |r| {
            let Some(spec) = spec else { return Ok(()) };
            let name = match r.call_back(incarnation) {
                Some(name) => name,
                None => r.make_interface(spec, instance, index)?,
            };
            if inherits {
                return Ok(());
            }
            if let Some(i) = r.interfaces.get_mut(index) {
                i.inherits_mtu = false;
            }
            r.restore_placement(&name, &places)?;
            r.apply_sizes(index, was.0, was.1)?;
            r.tell(index, |t| *t = told);
            Ok(())
        });
        Ok(())
    }

    /// Takes away everything that is configured on an interface or through it.
    fn strip_interface(&mut self, index: u32) -> Result<()> {
        let name = self.interfaces.name(index);
        self.delete_parts(index)?;
        let members = self.interfaces.iter().filter(|i| {
            i.member
                .is_some_and(|m| m.bond == index || i.index == index)
        });
        let members: Vec<String> = members.map(|i| i.name.clone()).collect();
        for n in members {
            self.remove_bond_member(&n)?;
        }
        self.delete_streams_of(index)?;
        if self
            .interfaces
            .get(index)
            .is_some_and(|i| i.sflow.is_some())
        {
            self.disable_sflow(&name)?;
        }
        self.acl_interface_set_acl_list(index, Vec::new(), Vec::new())?;
        self.set_macip(index, None)?;
        let crossed: Vec<String> = self
            .interfaces
            .iter()
            .filter(|i| i.xconnect == Some(index) || (i.index == index && i.xconnect.is_some()))
            .map(|i| i.name.clone())
            .collect();
        for n in crossed {
            self.set_l3(&n)?;
        }
        self.set_bridge(&name, None)?;
        self.set_tag_rewrite(&name, Vtr::default())?;
        if self.interfaces.get(index).is_some_and(|i| i.promiscuous) {
            self.set_promiscuous(&name, false)?;
        }
        self.set_tag(&name, None)?;
        let borrowers = self.interfaces.iter().filter(|i| {
            i.unnumbered == Some(index) || (i.index == index && i.unnumbered.is_some())
        });
        let borrowers: Vec<String> = borrowers.map(|i| i.name.clone()).collect();
        for n in borrowers {
            self.set_unnumbered(&n, None)?;
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
        let Some(interface) = self.interfaces.remove(index) else {
            return Ok(());
        };
        if self.connected.contains_key(&index) {
            self.sync_connected(index)?;
        }
        self.forwarding
            .adjacencies
            .set_link(&self.engine.shared.adjacencies, index, None);
        self.publish();
        match &mut self.pending {
            Some(p) => {
                p.leaving.push(interface);
                Ok(())
            }
            None => self.see_off(vec![interface]),
        }
    }

    /// Lets bare interfaces go that nothing leads to any more: workers give their queues back, then the devices go.
    pub(super) fn see_off(&mut self, interfaces: Vec<Interface>) -> Result<()> {
        for i in &interfaces {
            let if_index = i.index;
            self.engine
                .tell_all(|_| WorkerCommand::RemoveInterface { if_index });
        }
        self.engine.settle()
    }

    /// Counters of an interface since they were last cleared.
    pub fn interface_totals(&self, index: u32) -> IfTotals {
        let now = self.engine.interface_totals(index);
        match self.interfaces.get(index) {
            Some(i) => i.counted(&now, &i.cleared),
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
