//! What a link counts itself, and what its pluggable module says: `struct rtnl_link_stats64` (`linux/if_link.h`, whose
//! comments name the clause of IEEE 802.3 behind each counter) and the module's memory (`linux/ethtool.h`).

use nix::errno::Errno;

use crate::netlink::Request;
use crate::{Error, Net, Result};

const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;
/// Size of `struct ifinfomsg`.
const IFINFO: usize = 16;

const ETHTOOL_GMODULEINFO: u32 = 0x42;
const ETHTOOL_GMODULEEEPROM: u32 = 0x43;
/// Size of `struct ethtool_modinfo`, and of `struct ethtool_eeprom` without its data.
const MODINFO: usize = 44;
const EEPROM: usize = 16;
/// Bytes of a module's memory that are read: the pages with what it measures.
const MODULE_MAX: u32 = 768;

/// Errors that a link has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkErrors {
    /// Collisions.
    pub collisions: u64,
    /// Frames of a wrong length (802.3 30.3.1.1.23 to 25).
    pub rx_length: u64,
    /// Frames with a wrong checksum (30.3.1.1.6).
    pub rx_crc: u64,
    /// Frames with a wrong checksum that do not end at a byte (30.3.1.1.7).
    pub rx_frame: u64,
    /// Frames given up after too many collisions (30.3.1.1.11).
    pub tx_aborted: u64,
    /// Carrier lost while sending (30.3.1.1.13).
    pub tx_carrier: u64,
    /// Signal quality errors (30.3.2.1.4).
    pub tx_heartbeat: u64,
    /// Late collisions (30.3.1.1.10).
    pub tx_window: u64,
}

impl Net {
    /// The errors of a link; where a driver does not count one, it is 0.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn link_errors(&self, name: &str) -> Result<LinkErrors> {
        let tried = "read the counters of";
        let object = format!("interface \"{name}\"");
        let mut r = Request::new(libc::RTM_GETLINK, 0, &[0; IFINFO]);
        r.attr_str(IFLA_IFNAME, name);
        let answer = self.socket.get(r, tried, &object)?;
        let stats = answer
            .iter()
            .flat_map(|m| m.attrs(IFINFO))
            .find(|(kind, _)| *kind == IFLA_STATS64);
        let (_, stats) =
            stats.ok_or_else(|| Error::other(tried, object, "the kernel gave none"))?;
        // The fields are 64-bit numbers in the order of the struct.
        let at = |n: usize| {
            let bytes = stats.get(8 * n..).and_then(|b| b.first_chunk::<8>());
            bytes.map_or(0, |b| u64::from_ne_bytes(*b))
        };
        Ok(LinkErrors {
            collisions: at(9),
            rx_length: at(10),
            rx_crc: at(12),
            rx_frame: at(13),
            tx_aborted: at(16),
            tx_carrier: at(17),
            tx_heartbeat: at(19),
            tx_window: at(20),
        })
    }

    /// The memory of the module plugged into a link, as its standard lays it out: SFF-8079 (256 bytes: the module alone),
    /// SFF-8472 (512: with what it measures), SFF-8636 or CMIS (256 to 768). `None` where there is none.
    ///
    /// # Errors
    /// When there is no such link. It takes milliseconds, for the module is asked over a slow bus.
    pub fn module(&self, dev: &str) -> Result<Option<Vec<u8>>> {
        let tried = "read the module of";
        let none = |e: &Error| {
            matches!(
                e.errno(),
                Some(Errno::EOPNOTSUPP | Errno::EINVAL | Errno::EIO | Errno::ENXIO | Errno::EPERM)
            )
        };
        let mut info = [0u8; MODINFO];
        info[..4].copy_from_slice(&ETHTOOL_GMODULEINFO.to_ne_bytes());
        match self.ethtool(dev, &mut info, tried) {
            Ok(()) => {}
            Err(e) if none(&e) => return Ok(None),
            Err(e) => return Err(e),
        }
        let length = u32::from_ne_bytes([info[8], info[9], info[10], info[11]]).min(MODULE_MAX);
        let mut data = vec![0u8; EEPROM + length as usize];
        data[..4].copy_from_slice(&ETHTOOL_GMODULEEEPROM.to_ne_bytes());
        data[12..16].copy_from_slice(&length.to_ne_bytes());
        match self.ethtool(dev, &mut data, tried) {
            Ok(()) => Ok(Some(data.split_off(EEPROM))),
            Err(e) if none(&e) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetNs, VethEnd};

    #[test]
    fn a_virtual_link_has_no_errors_and_no_module() {
        let net = Net::in_ns(&NetNs::anonymous().unwrap()).unwrap();
        net.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1"))
            .unwrap();
        assert_eq!(net.link_errors("v0").unwrap(), LinkErrors::default());
        assert_eq!(net.module("v0").unwrap(), None);
        assert_eq!(net.module("lo").unwrap(), None);
        for e in [
            net.link_errors("nosuch0").unwrap_err(),
            net.module("nosuch0").unwrap_err(),
        ] {
            assert_eq!(e.errno(), Some(Errno::ENODEV), "{e}");
        }
    }
}
