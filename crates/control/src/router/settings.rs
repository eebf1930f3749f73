//! Settings of interfaces: state, sizes, Ethernet address, cross-connect, table, MPLS.

use parshall_graph::WorkerCommand;

use super::Router;
use crate::adjacency::LinkInfo;
use crate::error::{Error, Result};
use crate::interface::{ETHERNET, MIN_MTU};
use crate::prefix::Family;
use crate::virtual_interface::Vtr;

/// Longest tag of an interface.
const TAG_MAX: usize = 63;

impl Router {
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
            i.link = d.info().link_up;
        }
        i.up = up;
        self.tell_state(index);
        self.link_changed(index);
        self.rib.interface_changed(&mut self.forwarding, index);
        self.lead(index);
        if up {
            self.announce(index);
        } else {
            self.forget_dynamic_neighbors(index);
        }
        let name = name.to_owned();
        self.undo(move |r| r.set_state(&name, !up));
        self.lead_members(index, up)
    }

    /// The link of an interface came or went: its routes can be used, or cannot. No setting changes, so
    /// there is nothing to undo.
    pub(super) fn set_link(&mut self, index: u32, link: bool) {
        let Some(i) = self.interfaces.get_mut(index) else {
            return;
        };
        i.link = link;
        tracing::info!("{}: link {}", i.name, if link { "up" } else { "down" });
        self.link_changed(index);
        self.rib.interface_changed(&mut self.forwarding, index);
        self.lead(index);
        if link {
            self.announce(index);
        } else {
            // Who is there when it comes back may be somebody else.
            self.forget_dynamic_neighbors(index);
        }
    }

    /// Tells workers whether an interface is up and what it carries.
    pub(super) fn tell_state(&mut self, index: u32) {
        let Some(i) = self.interfaces.get(index) else {
            return;
        };
        let (up, max_frame) = (i.up, i.max_frame + self.tag_room(index));
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
                up: i.up && i.link,
                point_to_point: i.is_point_to_point(),
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
        if mtu == 0 && (i.parent.is_some() || i.bond().is_some()) {
            self.tell(index, |t| t.mtu = None);
            return self.inherit_mtu(index);
        }
        let was = (i.mtu, i.max_frame, i.inherits_mtu);
        // The frames of what is part of another are as long as that one's.
        let packet_only = packet_only || i.parent.is_some() || i.bond().is_some();
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
        self.tell(index, |t| t.mtu = Some((mtu, packet_only)));
        if let Some(i) = self.interfaces.get_mut(index) {
            i.inherits_mtu = false;
        }
        self.apply_sizes(index, mtu, max_frame)?;
        self.undo(move |r| {
            r.apply_sizes(index, was.0, was.1)?;
            match was.2 {
                true => r.inherit_mtu(index),
                false => Ok(()),
            }
        });
        Ok(())
    }

    /// Lets the MTU of what is part of another interface be that one's.
    fn inherit_mtu(&mut self, index: u32) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = (i.mtu, std::mem::replace(&mut i.inherits_mtu, true));
        self.follow(index);
        self.undo(move |r| {
            let Some(i) = r.interfaces.get_mut(index) else {
                return Ok(());
            };
            i.inherits_mtu = was.1;
            let max_frame = i.max_frame;
            r.apply_sizes(index, was.0, max_frame)
        });
        Ok(())
    }

    /// Gives an interface the sizes back that it was made with.
    ///
    /// # Errors
    /// When there is none of that name or the driver refuses.
    pub fn reset_mtu(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let Some(i) = self.interfaces.get(index) else {
            return Ok(());
        };
        if i.parent.is_some() || i.bond().is_some() {
            return self.set_mtu(name, 0, true);
        }
        let (was, born) = ((i.mtu, i.max_frame), i.born_sizes);
        self.tell(index, |t| t.mtu = None);
        self.apply_sizes(index, born.0, born.1)?;
        self.undo(move |r| r.apply_sizes(index, was.0, was.1));
        Ok(())
    }

    pub(super) fn apply_sizes(&mut self, index: u32, mtu: u32, max_frame: u32) -> Result<()> {
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
        self.lead(index);
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
        let given = i.spec.as_mut().map(|s| s.mac.replace(mac));
        self.link_changed(index);
        self.sync_connected(index)?;
        self.lead(index);
        self.announce(index);
        let name = name.to_owned();
        self.undo(move |r| {
            r.set_mac(&name, was)?;
            if let Some(spec) = r.interfaces.get_mut(index).and_then(|i| i.spec.as_mut()) {
                spec.mac = given.flatten();
            }
            Ok(())
        });
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
        let device_on = on || i.is_switched() || i.member.is_some();
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
        self.check_no_member(index)?;
        self.check_no_member(to)?;
        if index == to {
            return Err(Error::Interface {
                name: name.into(),
                why: "cannot be cross-connected to itself".into(),
            });
        }
        self.set_bridge(name, None)?;
        self.apply_xconnect(index, Some(to))
    }

    /// Ends a cross-connect, or takes an interface out of its bridge domain: packets are routed again.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_l3(&mut self, name: &str) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        self.set_bridge(name, None)?;
        self.apply_xconnect(index, None)
    }

    pub(super) fn apply_xconnect(&mut self, index: u32, peer: Option<u32>) -> Result<()> {
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = i.xconnect;
        let everything = peer.is_some() || i.promiscuous || i.bridged || i.member.is_some();
        if let Some(d) = i.device.as_mut().filter(|_| was != peer) {
            d.set_promiscuous(everything)?;
        }
        i.xconnect = peer;
        self.publish();
        self.undo(move |r| r.apply_xconnect(index, was));
        Ok(())
    }

    /// Changes the tags of what an interface receives, and back again of what it sends, where that is switched.
    ///
    /// # Errors
    /// When it would take off tags that the interface is not known to have.
    pub fn set_tag_rewrite(&mut self, name: &str, vtr: Vtr) -> Result<()> {
        let index = self.interfaces.find_real(name)?;
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        vtr.rewrites(&i.tags()).map_err(|e| Error::Interface {
            name: name.into(),
            why: e.to_string(),
        })?;
        let was = std::mem::replace(&mut i.vtr, vtr);
        if was == vtr {
            return Ok(());
        }
        self.apply_tag_rewrite(index)?;
        let name = name.to_owned();
        self.undo(move |r| r.set_tag_rewrite(&name, was));
        Ok(())
    }

    /// A sub-interface changes tags in the node that stands for its transmit queue; others need a feature for it.
    fn apply_tag_rewrite(&mut self, index: u32) -> Result<()> {
        if let Some(i) = self.interfaces.get(index) {
            let on = i.vtr != Vtr::default() && i.sub().is_none();
            self.engine.set_feature("tag-rewrite-output", index, on)?;
        }
        self.publish();
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

    /// Gives an interface a tag, or none: a word for those who manage it.
    ///
    /// # Errors
    /// When the tag is too long for VPP's API.
    pub fn set_tag(&mut self, name: &str, tag: Option<String>) -> Result<()> {
        let index = self.interfaces.find(name)?;
        if tag.as_ref().is_some_and(|t| t.len() > TAG_MAX) {
            return Err(Error::Interface {
                name: name.into(),
                why: format!("takes a tag of at most {TAG_MAX} bytes"),
            });
        }
        let Some(i) = self.interfaces.get_mut(index) else {
            return Ok(());
        };
        let was = std::mem::replace(&mut i.tag, tag.filter(|t| !t.is_empty()));
        self.undo(move |r| {
            if let Some(i) = r.interfaces.get_mut(index) {
                i.tag = was;
            }
            Ok(())
        });
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
        if on {
            self.check_routable(index)?;
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
}
