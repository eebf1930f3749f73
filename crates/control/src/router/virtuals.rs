//! Making interfaces without a device, and letting those that are part of another follow it.

use parshall_graph::WorkerCommand;

use super::Router;
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::interface::{DEFAULT_MTU, ETHERNET, Interface};
use crate::virtual_interface::{SubSpec, VirtualKind};

/// Longest frame of an interface that is part of no other: the largest IP packet that a rewrite can carry.
const LONGEST: u32 = 65_535;

/// What an interface without a device has from elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Inherited {
    mac: [u8; 6],
    mtu: u32,
    max_frame: u32,
    link: bool,
    speed: u64,
}

impl Router {
    /// Makes a sub-interface of `parent`, down, and says its name.
    ///
    /// # Errors
    /// When its number or its VLANs are taken, or the parent cannot have one.
    pub fn create_sub_interface(&mut self, parent: &str, mut sub: SubSpec) -> Result<String> {
        sub.parent = self.interfaces.find_real(parent)?;
        self.check_no_member(sub.parent)?;
        self.check_sub(parent, &sub)?;
        let spec = DeviceSpec {
            instance: Some(sub.id),
            name: Some(format!("{parent}.{}", sub.id)),
            mac: None,
            kind: DeviceKind::Virtual(VirtualKind::Sub(sub)),
        };
        self.create_interface(spec)
    }

    /// VPP's word for the kind of an interface.
    pub fn kind_word(&self, i: &Interface) -> &'static str {
        let own = match (&i.device, i.virtual_kind()) {
            (Some(d), _) => Some(d.info().kind),
            (None, Some(v)) => v.word(),
            (None, None) => Some("local"),
        };
        let parent = || self.interfaces.get(i.parent?);
        own.or_else(|| Some(self.kind_word(parent()?)))
            .unwrap_or("local")
    }

    fn check_sub(&self, parent: &str, sub: &SubSpec) -> Result<()> {
        let refuse = |why: String| {
            Err(Error::Interface {
                name: parent.into(),
                why,
            })
        };
        if self
            .interfaces
            .get(sub.parent)
            .is_some_and(|p| p.sub().is_some())
        {
            return refuse("is a sub-interface and cannot have sub-interfaces".into());
        }
        let same = |i: &&Interface| {
            let of = |s: &SubSpec| s.parent == sub.parent && clash(s, sub);
            i.sub().is_some_and(of)
        };
        match self.interfaces.iter().find(same) {
            Some(other) => refuse(format!(
                "has the sub-interface {} for these frames or of this number already",
                other.name
            )),
            None => Ok(()),
        }
    }

    /// Deletes a sub-interface.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn delete_sub_interface(&mut self, name: &str) -> Result<()> {
        self.delete_interface(name, "sub")
    }

    /// Puts an interface without a device in place.
    pub(super) fn make_virtual(
        &mut self,
        (spec, kind): (DeviceSpec, &VirtualKind),
        (name, instance): (String, u32),
        index: u32,
    ) -> Result<()> {
        let node = self.engine.node(kind.output_node())?;
        let from = self.inherited(&spec, kind, index);
        let born = self.engine.interface_totals(index);
        let if_index = self.number_for(&name, index);
        self.incarnations += 1;
        self.interfaces.insert(Interface {
            index,
            name,
            instance,
            parent: kind.parent(),
            link: from.link,
            mtu: from.mtu,
            inherits_mtu: kind.parent().is_some() || kind.bond().is_some(),
            max_frame: from.max_frame,
            born_sizes: (from.mtu, from.max_frame),
            speed: from.speed,
            if_index,
            incarnation: self.incarnations,
            mac: from.mac,
            born,
            cleared: born,
            spec: Some(spec),
            ..Interface::local0()
        });
        self.engine.tell_all(|_| WorkerCommand::AddVirtual {
            if_index: index,
            node,
            up: false,
            max_frame: from.max_frame,
        });
        self.tell_parent(index);
        self.link_changed(index);
        Ok(())
    }

    /// What an interface has from its parent, or of itself.
    fn inherited(&self, spec: &DeviceSpec, kind: &VirtualKind, index: u32) -> Inherited {
        match kind.parent().and_then(|p| self.interfaces.get(p)) {
            Some(p) => Inherited {
                mac: spec.mac.unwrap_or(p.mac),
                mtu: p.mtu,
                max_frame: p.max_frame,
                link: p.up && p.link,
                speed: p.speed,
            },
            None if kind.bond().is_some() => self.inherited_by_bond(spec, index),
            None => Inherited {
                mac: spec.mac.unwrap_or_else(|| own_mac(index)),
                mtu: DEFAULT_MTU,
                max_frame: LONGEST,
                link: true,
                speed: 0,
            },
        }
    }

    /// What a bond has from its members.
    fn inherited_by_bond(&self, spec: &DeviceSpec, index: u32) -> Inherited {
        let members = || self.interfaces.members(index);
        let first = members().next().map(|m| m.mac);
        let max_frame = members().map(|m| m.max_frame).min();
        let max_frame = max_frame.unwrap_or(DEFAULT_MTU + ETHERNET);
        let active = || self.interfaces.active_members(index);
        Inherited {
            mac: spec.mac.or(first).unwrap_or_else(|| own_mac(index)),
            mtu: max_frame.saturating_sub(ETHERNET).min(DEFAULT_MTU),
            max_frame,
            link: active().next().is_some(),
            speed: active().map(|m| m.speed).sum(),
        }
    }

    /// An interface with sub-interfaces sends frames that are longer by their tags.
    pub(super) fn tell_parent(&mut self, index: u32) {
        if let Some(parent) = self.interfaces.get(index).and_then(|i| i.parent) {
            self.tell_state(parent);
            let members = self.interfaces.members(parent).map(|m| m.index);
            for member in members.collect::<Vec<_>>() {
                self.tell_state(member);
            }
        }
    }

    /// Bytes of tags that the sub-interfaces of an interface add to its longest frame.
    pub(super) fn tag_room(&self, index: u32) -> u32 {
        let tags = |i: &Interface| {
            let s = i.sub().filter(|s| s.parent == index)?;
            Some(4 * u32::from(s.tag_count()))
        };
        let own = self.interfaces.iter().filter_map(tags).max().unwrap_or(0);
        let bond = self.interfaces.get(index).and_then(|i| i.member);
        bond.map_or(own, |m| own.max(self.tag_room(m.bond)))
    }

    /// Lets the interfaces that are part of this one follow it.
    pub(super) fn lead(&mut self, index: u32) {
        let parts = self.interfaces.iter().filter(|i| i.parent == Some(index));
        let parts: Vec<u32> = parts.map(|i| i.index).collect();
        for part in parts {
            self.follow(part);
        }
        if let Some(m) = self.interfaces.get(index).and_then(|i| i.member) {
            self.follow(m.bond);
        }
    }

    /// Makes an interface what those that it is a part or the whole of make of it.
    pub(super) fn follow(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else {
            return;
        };
        let Some(DeviceSpec {
            kind: DeviceKind::Virtual(kind),
            ..
        }) = &i.spec
        else {
            return;
        };
        let Some(spec) = i.spec.as_ref() else { return };
        let mut now = self.inherited(spec, kind, index);
        if !i.inherits_mtu {
            // What it was told, whatever its members made of that before.
            let told = i.told.mtu.map_or(i.mtu, |m| m.0);
            now.mtu = told.min(now.max_frame.saturating_sub(ETHERNET));
        }
        let was = Inherited {
            mac: i.mac,
            mtu: i.mtu,
            max_frame: i.max_frame,
            link: i.link,
            speed: i.speed,
        };
        if now == was {
            return;
        }
        if let Some(i) = self.interfaces.get_mut(index) {
            (i.mac, i.mtu, i.max_frame) = (now.mac, now.mtu, now.max_frame);
            i.speed = now.speed;
        }
        self.tell_state(index);
        if now.link == was.link {
            self.link_changed(index);
        } else {
            self.set_link(index, now.link);
        }
        if now.mac != was.mac {
            if let Err(e) = self.sync_connected(index) {
                tracing::error!("{}: {e}", self.interfaces.name(index));
            }
            self.announce(index);
        }
        self.lead(index);
    }

    /// Deletes what is part of an interface, before the interface itself goes.
    pub(super) fn delete_parts(&mut self, index: u32) -> Result<()> {
        let parts = self.interfaces.iter().filter(|i| i.parent == Some(index));
        let parts: Vec<String> = parts.map(|i| i.name.clone()).collect();
        for name in parts {
            let stem = self.interfaces.find_real(&name).ok();
            let stem =
                stem.and_then(|n| self.interfaces.get(n)?.spec.as_ref().map(|s| s.kind.stem()));
            self.delete_interface(&name, stem.unwrap_or(""))?;
        }
        Ok(())
    }
}

/// Whether two sub-interfaces of a parent cannot be there both.
fn clash(a: &SubSpec, b: &SubSpec) -> bool {
    use parshall_nodes::vlan::VlanMatch::Tagged;
    let same = match (a.takes, b.takes) {
        // One and the same place in the table, whether exact or not.
        (
            Tagged {
                dot1ad: d,
                outer: o,
                inner: i,
                ..
            },
            Tagged {
                dot1ad,
                outer,
                inner,
                ..
            },
        ) => (d, o, i) == (dot1ad, outer, inner),
        (a, b) => a == b,
    };
    same || a.id == b.id
}

/// A locally administered address that differs between processes and interfaces on one host.
fn own_mac(index: u32) -> [u8; 6] {
    let [.., a, b] = std::process::id().to_be_bytes();
    let [.., c, d] = index.to_be_bytes();
    [0x02, 0xfe, a, b, c ^ 0x40, d]
}
