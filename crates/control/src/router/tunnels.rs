//! Making and deleting tunnels, and showing workers which there are.

use parshall_nodes::tunnel::Tunnels;

use super::Router;
use crate::drivers::{DeviceKind, DeviceSpec};
use crate::error::{Error, Result};
use crate::interface::Interface;
use crate::prefix::Family;
use crate::tunnel::TunnelSpec;
use crate::virtual_interface::VirtualKind;

impl Router {
    /// Makes a tunnel, its interface down, and says the interface's name.
    ///
    /// # Errors
    /// When its table is not there, or there is such a tunnel or interface already.
    pub fn create_tunnel(&mut self, instance: Option<u32>, tunnel: TunnelSpec) -> Result<String> {
        tunnel.check()?;
        self.forwarding
            .table_index_of(tunnel.family(), tunnel.table)?;
        if let Some(i) = self.find_tunnel(&tunnel) {
            return Err(Error::exists(format!("{} is this tunnel already", i.name)));
        }
        self.create_interface(DeviceSpec {
            instance,
            name: None,
            mac: None,
            kind: DeviceKind::Virtual(VirtualKind::Tunnel(tunnel)),
        })
    }

    /// Deletes the tunnel between these ends.
    ///
    /// # Errors
    /// When there is none.
    pub fn delete_tunnel(&mut self, tunnel: &TunnelSpec) -> Result<()> {
        match self.find_tunnel(tunnel).map(|i| i.name.clone()) {
            Some(name) => self.delete_interface(&name, tunnel.stem()),
            None => Err(Error::missing(format!(
                "there is no such tunnel from {} to {}",
                tunnel.src, tunnel.dst
            ))),
        }
    }

    /// The interface of the tunnel of this kind between these ends.
    pub fn find_tunnel(&self, tunnel: &TunnelSpec) -> Option<&Interface> {
        // Kind, ends and table; the source port is no part of that.
        let same = |(_, t): &(&Interface, &TunnelSpec)| {
            t.table == tunnel.table && t.key(0) == tunnel.key(0)
        };
        self.tunnels().find(same).map(|(i, _)| i)
    }

    /// All tunnels, by interface.
    pub fn tunnels(&self) -> impl Iterator<Item = (&Interface, &TunnelSpec)> {
        self.interfaces
            .iter()
            .filter_map(|i| Some((i, i.tunnel()?)))
    }

    /// A tunnel whose packets are routed by a table.
    pub(super) fn tunnel_over(&self, family: Family, table: u32) -> Option<&str> {
        let over = |(_, t): &(&Interface, &TunnelSpec)| t.family() == family && t.table == table;
        self.tunnels().find(over).map(|(i, _)| i.name.as_str())
    }

    /// Shows workers the tunnels as they are now.
    pub(super) fn publish_tunnels(&mut self) {
        if let Some(p) = &mut self.pending {
            p.tables = true;
            return;
        }
        let shared = &self.engine.shared;
        let now = self.tunnel_table();
        let before = shared.tunnels.read_control(&shared.domain).is_empty();
        if !(before && now.is_empty()) {
            shared.tunnels.publish(&shared.domain, now);
        }
    }

    /// The tunnels as workers are to know them.
    pub(super) fn tunnel_table(&self) -> Tunnels {
        let keys = self.tunnels().filter_map(|(i, t)| {
            let table = self.forwarding.table_index_of(t.family(), t.table).ok()?;
            Some((i.index, t.key(table)))
        });
        Tunnels::new(keys)
    }
}
