//! Offloads, speed and driver name over the ethtool ioctl (`linux/ethtool.h`).

use std::mem;

use nix::errno::Errno;

use crate::netlink::string;
use crate::{Error, Net, Result};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;
const ETH_FLAG_LRO: u32 = 1 << 15;
const SPEED_UNKNOWN: u32 = u32::MAX;
/// Size of `struct ethtool_drvinfo`.
const DRVINFO: usize = 196;
/// Size of `struct ethtool_link_settings` without its masks.
const LINK_SETTINGS: usize = 48;
/// Most 32-bit words a mask of link modes may have here; the kernel's has 4.
const MODE_WORDS: usize = 64;

/// Something the interface or the kernel does to packets on the way in or out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Receive checksums are verified.
    RxChecksum,
    /// Transmit checksums are completed.
    TxChecksum,
    /// Segmentation of TCP by the interface.
    Tso,
    /// Generic segmentation.
    Gso,
    /// Generic receive offload: segments are joined.
    Gro,
    /// Large receive offload: segments are joined by the interface.
    Lro,
}

impl Offload {
    /// All of them.
    pub const ALL: [Offload; 6] = [
        Offload::RxChecksum,
        Offload::TxChecksum,
        Offload::Tso,
        Offload::Gso,
        Offload::Gro,
        Offload::Lro,
    ];

    /// The word ethtool(8) uses with `-K`.
    pub fn name(self) -> &'static str {
        match self {
            Offload::RxChecksum => "rx",
            Offload::TxChecksum => "tx",
            Offload::Tso => "tso",
            Offload::Gso => "gso",
            Offload::Gro => "gro",
            Offload::Lro => "lro",
        }
    }

    /// Command that reads it; the one that sets it is the next number.
    fn get_command(self) -> u32 {
        match self {
            Offload::RxChecksum => 0x14,
            Offload::TxChecksum => 0x16,
            Offload::Tso => 0x1e,
            Offload::Gso => 0x23,
            Offload::Lro => ETHTOOL_GFLAGS,
            Offload::Gro => 0x2b,
        }
    }
}

/// Which offloads are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offloads {
    /// [`Offload::RxChecksum`].
    pub rx_checksum: bool,
    /// [`Offload::TxChecksum`].
    pub tx_checksum: bool,
    /// [`Offload::Tso`].
    pub tso: bool,
    /// [`Offload::Gso`].
    pub gso: bool,
    /// [`Offload::Gro`].
    pub gro: bool,
    /// [`Offload::Lro`].
    pub lro: bool,
}

/// Duplex of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Duplex {
    /// Not known.
    #[default]
    Unknown,
    /// One way at a time.
    Half,
    /// Both ways at once.
    Full,
}

/// Speed of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Speed {
    /// Bits per second, 0 = unknown.
    pub bits_per_second: u64,
    /// Duplex.
    pub duplex: Duplex,
}

/// Queues of a link that are in use (`ethtool -l`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Channels {
    /// That receive, whether or not they send too.
    pub rx: u32,
    /// That send, whether or not they receive too.
    pub tx: u32,
}

impl Net {
    /// Runs one ethtool command on `dev`; `data` starts with the command and takes the answer.
    pub(crate) fn ethtool(&self, dev: &str, data: &mut [u8], tried: &str) -> Result<()> {
        let object = format!("interface \"{dev}\"");
        if dev.len() >= libc::IFNAMSIZ {
            return Err(Error::os(tried, object, Errno::ENODEV));
        }
        // SAFETY: ifreq is plain data for which all zeros are valid.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        for (to, &from) in request.ifr_name.iter_mut().zip(dev.as_bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = data.as_mut_ptr().cast();
        // SAFETY: both the request and the data it points to outlive the call; every caller makes
        // `data` as large as the struct its command reads and writes.
        let rc = unsafe { libc::ioctl(self.socket.raw(), SIOCETHTOOL, &raw mut request) };
        if rc < 0 {
            Err(Error::last_os(tried, object))
        } else {
            Ok(())
        }
    }

    fn ethtool_value(&self, dev: &str, command: u32, value: u32, tried: &str) -> Result<u32> {
        let mut data = [0u8; 8];
        data[..4].copy_from_slice(&command.to_ne_bytes());
        data[4..].copy_from_slice(&value.to_ne_bytes());
        self.ethtool(dev, &mut data, tried)?;
        Ok(u32::from_ne_bytes([data[4], data[5], data[6], data[7]]))
    }

    /// Whether an offload is on.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn offload(&self, dev: &str, offload: Offload) -> Result<bool> {
        let tried = format!("read offload {} of", offload.name());
        let value = self.ethtool_value(dev, offload.get_command(), 0, &tried)?;
        Ok(if offload == Offload::Lro {
            value & ETH_FLAG_LRO != 0
        } else {
            value != 0
        })
    }

    /// All offloads of a link.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn offloads(&self, dev: &str) -> Result<Offloads> {
        Ok(Offloads {
            rx_checksum: self.offload(dev, Offload::RxChecksum)?,
            tx_checksum: self.offload(dev, Offload::TxChecksum)?,
            tso: self.offload(dev, Offload::Tso)?,
            gso: self.offload(dev, Offload::Gso)?,
            gro: self.offload(dev, Offload::Gro)?,
            lro: self.offload(dev, Offload::Lro)?,
        })
    }

    /// Turns an offload on or off. Turning transmit checksums off turns TSO off with them.
    ///
    /// # Errors
    /// When there is no such link, it cannot change that, or without `CAP_NET_ADMIN`.
    pub fn set_offload(&self, dev: &str, offload: Offload, on: bool) -> Result<()> {
        let tried = format!(
            "turn {} {} on",
            if on { "on" } else { "off" },
            offload.name()
        );
        if offload == Offload::Lro {
            let old = self.ethtool_value(dev, ETHTOOL_GFLAGS, 0, &tried)?;
            let new = if on {
                old | ETH_FLAG_LRO
            } else {
                old & !ETH_FLAG_LRO
            };
            return self
                .ethtool_value(dev, ETHTOOL_SFLAGS, new, &tried)
                .map(|_| ());
        }
        self.ethtool_value(dev, offload.get_command() + 1, u32::from(on), &tried)
            .map(|_| ())
    }

    /// Speed and duplex; unknown where the driver does not say.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn speed(&self, dev: &str) -> Result<Speed> {
        let tried = "read the speed of";
        let mut data = vec![0u8; LINK_SETTINGS + 4 * 3 * MODE_WORDS];
        data[..4].copy_from_slice(&ETHTOOL_GLINKSETTINGS.to_ne_bytes());
        // The first call says, as a negative number, how many words its masks have; byte 15 is
        // `link_mode_masks_nwords`.
        let words = match self.ethtool(dev, &mut data, tried) {
            Ok(()) => (data[15] as i8).unsigned_abs(),
            Err(e) if e.errno() == Some(Errno::EOPNOTSUPP) => return Ok(Speed::default()),
            Err(e) => return Err(e),
        };
        if words == 0 || usize::from(words) > MODE_WORDS {
            return Ok(Speed::default());
        }
        data[..4].copy_from_slice(&ETHTOOL_GLINKSETTINGS.to_ne_bytes());
        data[15] = words;
        self.ethtool(dev, &mut data, tried)?;
        let megabits = u32::from_ne_bytes([data[4], data[5], data[6], data[7]]);
        let duplex = match data[8] {
            0 => Duplex::Half,
            1 => Duplex::Full,
            _ => Duplex::Unknown,
        };
        let known = megabits != SPEED_UNKNOWN;
        Ok(Speed {
            bits_per_second: if known {
                u64::from(megabits) * 1_000_000
            } else {
                0
            },
            duplex,
        })
    }

    /// Queues in use; `None` where the driver does not say.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn channels(&self, dev: &str) -> Result<Option<Channels>> {
        // struct ethtool_channels: nine numbers, the last four are the rx, tx, other and combined count.
        let mut data = [0u8; 36];
        data[..4].copy_from_slice(&ETHTOOL_GCHANNELS.to_ne_bytes());
        match self.ethtool(dev, &mut data, "read the number of queues of") {
            Ok(()) => {}
            Err(e) if e.errno() == Some(Errno::EOPNOTSUPP) => return Ok(None),
            Err(e) => return Err(e),
        }
        let count = |n: usize| {
            let b = &data[4 * n..4 * n + 4];
            u32::from_ne_bytes([b[0], b[1], b[2], b[3]])
        };
        let combined = count(8);
        Ok(Some(Channels {
            rx: count(5).saturating_add(combined),
            tx: count(6).saturating_add(combined),
        }))
    }

    /// Name of the driver behind a link.
    ///
    /// # Errors
    /// When there is no such link or its driver does not say.
    pub fn driver(&self, dev: &str) -> Result<String> {
        let mut data = [0u8; DRVINFO];
        data[..4].copy_from_slice(&ETHTOOL_GDRVINFO.to_ne_bytes());
        self.ethtool(dev, &mut data, "read the driver of")?;
        Ok(string(&data[4..36]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NetNs, VethEnd};

    #[test]
    fn offloads_are_read_and_set() {
        let net = Net::in_ns(&NetNs::anonymous().unwrap()).unwrap();
        net.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1"))
            .unwrap();
        let before = net.offloads("v0").unwrap();
        assert!(
            before.tx_checksum && before.tso && before.gso && !before.lro,
            "{before:?}"
        );
        for offload in [
            Offload::Tso,
            Offload::Gso,
            Offload::Gro,
            Offload::TxChecksum,
        ] {
            for on in [true, false] {
                net.set_offload("v0", offload, on).unwrap();
                assert_eq!(net.offload("v0", offload).unwrap(), on, "{offload:?}");
            }
        }
        let after = net.offloads("v0").unwrap();
        assert!(
            !after.tx_checksum && !after.tso && !after.gso && !after.gro,
            "{after:?}"
        );
        assert!(net.offloads("v1").unwrap().tso, "the other end is its own");
    }

    #[test]
    fn speed_duplex_and_driver() {
        let net = Net::in_ns(&NetNs::anonymous().unwrap()).unwrap();
        net.create_veth(&VethEnd::new("v0"), &VethEnd::new("v1"))
            .unwrap();
        let speed = net.speed("v0").unwrap();
        assert_eq!(
            speed,
            Speed {
                bits_per_second: 10_000_000_000,
                duplex: Duplex::Full
            }
        );
        assert_eq!(net.speed("lo").unwrap().bits_per_second, 0);
        assert_eq!(net.driver("v0").unwrap(), "veth");
        let four = VethEnd::new("w0").queues(4);
        net.create_veth(&four, &VethEnd::new("w1").queues(4))
            .unwrap();
        assert_eq!(net.channels("w0").unwrap(), Some(Channels { rx: 4, tx: 4 }));
        assert_eq!(net.channels("lo").unwrap(), None);
        assert!(net.channels("nosuch0").is_err());
        assert_eq!(
            net.driver("nosuch0").unwrap_err().errno(),
            Some(Errno::ENODEV)
        );
        let e = net
            .set_offload("nosuch0", Offload::Gro, false)
            .unwrap_err()
            .to_string();
        assert!(e.contains("turn off gro on interface \"nosuch0\""), "{e}");
    }
}
