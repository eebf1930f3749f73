//! Links: veth pairs, dummies, state, MTU, MAC, namespaces (rtnetlink(7), `linux/if_link.h`).

use std::fmt;
use std::os::fd::{AsFd, AsRawFd};

use crate::netlink::{Message, Request, attrs, string, u32_at};
use crate::{Error, Net, NetNs, Result};

const IFINFO: usize = 16;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_EXT_MASK: u16 = 29;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_NUM_RX_QUEUES: u16 = 32;
const IFLA_XDP: u16 = 43;
const IFLA_XDP_PROG_ID: u16 = 4;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// Leaves the counters out of answers.
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
/// Longest interface name, without the zero behind it.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;

/// Operational state of a link (RFC 2863 `ifOperStatus`, as the kernel numbers it).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Oper {
    /// The driver does not say.
    #[default]
    Unknown,
    /// Parts are missing.
    NotPresent,
    /// Down.
    Down,
    /// Down because of a layer below.
    LowerLayerDown,
    /// In test.
    Testing,
    /// Waiting for an external event.
    Dormant,
    /// Up.
    Up,
}

impl Oper {
    fn from_kernel(value: u8) -> Oper {
        match value {
            1 => Oper::NotPresent,
            2 => Oper::Down,
            3 => Oper::LowerLayerDown,
            4 => Oper::Testing,
            5 => Oper::Dormant,
            6 => Oper::Up,
            _ => Oper::Unknown,
        }
    }
}

/// What the kernel says of a link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct LinkInfo {
    /// Interface index, unique in its namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// MTU: largest network-layer packet in bytes.
    pub mtu: u32,
    /// Link-layer address; zeros where the link has none.
    pub mac: [u8; 6],
    /// `IFF_*` flags (netdevice(7)).
    pub flags: u32,
    /// Operational state.
    pub oper: Oper,
    /// Speed in bits per second, 0 = unknown.
    pub speed: u64,
    /// Kind ("veth", "tun", "dummy"); empty for hardware.
    pub kind: String,
    /// Number of the XDP program attached to it, 0 = none.
    pub xdp_program: u32,
}

impl LinkInfo {
    /// Whether it is administratively up.
    pub fn is_up(&self) -> bool {
        self.flags & libc::IFF_UP as u32 != 0
    }
    /// Whether it can carry packets: up, with a carrier.
    pub fn is_running(&self) -> bool {
        self.is_up() && self.flags & libc::IFF_RUNNING as u32 != 0
    }
    /// Whether it is up and the other end is there. Unlike [`is_running`](Self::is_running), which follows with
    /// up to a second's delay, this is what the driver knows now.
    pub fn has_carrier(&self) -> bool {
        self.is_up() && self.flags & libc::IFF_LOWER_UP as u32 != 0
    }
    /// Whether it receives frames for all addresses.
    pub fn is_promisc(&self) -> bool {
        self.flags & libc::IFF_PROMISC as u32 != 0
    }
}

/// One end of a veth pair to be made.
#[derive(Clone, Copy)]
pub struct VethEnd<'a> {
    name: &'a str,
    ns: Option<&'a NetNs>,
    mac: Option<[u8; 6]>,
    mtu: Option<u32>,
    queues: u32,
}

impl fmt::Debug for VethEnd<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl<'a> VethEnd<'a> {
    /// An end called `name` in the namespace of the [`Net`] that makes it, with the kernel's defaults.
    pub fn new(name: &'a str) -> VethEnd<'a> {
        VethEnd {
            name,
            ns: None,
            mac: None,
            mtu: None,
            queues: 1,
        }
    }
    /// Puts the end into `ns`.
    #[must_use]
    pub fn ns(self, ns: &'a NetNs) -> VethEnd<'a> {
        VethEnd {
            ns: Some(ns),
            ..self
        }
    }
    /// Gives it an address (the kernel's default is a random one).
    #[must_use]
    pub fn mac(self, mac: [u8; 6]) -> VethEnd<'a> {
        VethEnd {
            mac: Some(mac),
            ..self
        }
    }
    /// Gives it an MTU in bytes (default 1500).
    #[must_use]
    pub fn mtu(self, mtu: u32) -> VethEnd<'a> {
        VethEnd {
            mtu: Some(mtu),
            ..self
        }
    }
    /// Gives it that many receive and transmit queues (default 1).
    #[must_use]
    pub fn queues(self, queues: u32) -> VethEnd<'a> {
        VethEnd { queues, ..self }
    }

    fn write(&self, r: &mut Request) {
        r.attr_str(IFLA_IFNAME, self.name);
        if let Some(mac) = self.mac {
            r.attr(IFLA_ADDRESS, &mac);
        }
        if let Some(mtu) = self.mtu {
            r.attr_u32(IFLA_MTU, mtu);
        }
        if let Some(ns) = self.ns {
            r.attr_u32(IFLA_NET_NS_FD, ns.as_fd().as_raw_fd() as u32);
        }
        r.attr_u32(IFLA_NUM_TX_QUEUES, self.queues);
        r.attr_u32(IFLA_NUM_RX_QUEUES, self.queues);
    }
}

/// `struct ifinfomsg` for link `index` (0 = by name), setting `flags` where `change` has bits.
fn ifinfo(index: u32, flags: u32, change: u32) -> [u8; IFINFO] {
    let mut b = [0; IFINFO];
    b[4..8].copy_from_slice(&index.to_ne_bytes());
    b[8..12].copy_from_slice(&flags.to_ne_bytes());
    b[12..16].copy_from_slice(&change.to_ne_bytes());
    b
}

fn interface(name: &str) -> String {
    format!("interface \"{name}\"")
}

fn check_name(name: &str) -> Result<()> {
    let fits = (1..=NAME_MAX).contains(&name.len()) && name != "." && name != "..";
    if fits && !name.contains(['/', ':', '\0']) && !name.contains(char::is_whitespace) {
        return Ok(());
    }
    Err(
        Error::other("use", interface(name), "not an interface name")
            .hint("1 to 15 bytes without space, slash or colon"),
    )
}

impl Net {
    /// Makes a veth pair. An end without a namespace of its own goes where this `Net` is.
    ///
    /// # Errors
    /// When a name is taken or no name, the MTU is out of range, or without `CAP_NET_ADMIN`.
    pub fn create_veth(&self, a: &VethEnd<'_>, b: &VethEnd<'_>) -> Result<()> {
        check_name(a.name)?;
        check_name(b.name)?;
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut r = Request::new(libc::RTM_NEWLINK, flags, &ifinfo(0, 0, 0));
        a.write(&mut r);
        r.nested(IFLA_LINKINFO, &[], |r| {
            r.attr_str(IFLA_INFO_KIND, "veth");
            r.nested(IFLA_INFO_DATA, &[], |r| {
                r.nested(VETH_INFO_PEER, &ifinfo(0, 0, 0), |r| b.write(r));
            });
        });
        self.socket.change(
            r,
            "make",
            &format!("veth pair \"{}\" and \"{}\"", a.name, b.name),
        )
    }

    /// Makes a dummy interface: takes packets and drops them.
    ///
    /// # Errors
    /// When the name is taken or no name, or without `CAP_NET_ADMIN`.
    pub fn create_dummy(&self, name: &str) -> Result<()> {
        self.create_kind(name, "dummy")
    }

    /// Makes a bridge.
    ///
    /// # Errors
    /// When the name is taken or no name, the kernel has no bridges, or without `CAP_NET_ADMIN`.
    pub fn create_bridge(&self, name: &str) -> Result<()> {
        self.create_kind(name, "bridge")
    }

    fn create_kind(&self, name: &str, kind: &str) -> Result<()> {
        check_name(name)?;
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut r = Request::new(libc::RTM_NEWLINK, flags, &ifinfo(0, 0, 0));
        r.attr_str(IFLA_IFNAME, name);
        r.nested(IFLA_LINKINFO, &[], |r| {
            r.attr_str(IFLA_INFO_KIND, kind);
        });
        self.socket
            .change(r, &format!("make {kind}"), &interface(name))
    }

    /// Removes a link; the other end of a veth pair goes with it.
    ///
    /// # Errors
    /// When there is no such link, it is hardware, or without `CAP_NET_ADMIN`.
    pub fn delete_link(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let mut r = Request::new(libc::RTM_DELLINK, 0, &ifinfo(0, 0, 0));
        r.attr_str(IFLA_IFNAME, name);
        self.socket.change(r, "delete", &interface(name))
    }

    fn change_flags(&self, name: &str, flag: i32, on: bool, tried: &str) -> Result<()> {
        check_name(name)?;
        let flag = flag as u32;
        let mut r = Request::new(
            libc::RTM_NEWLINK,
            0,
            &ifinfo(0, if on { flag } else { 0 }, flag),
        );
        r.attr_str(IFLA_IFNAME, name);
        self.socket.change(r, tried, &interface(name))
    }

    fn change_attr(&self, name: &str, kind: u16, value: &[u8], tried: &str) -> Result<()> {
        check_name(name)?;
        let mut r = Request::new(libc::RTM_NEWLINK, 0, &ifinfo(0, 0, 0));
        r.attr_str(IFLA_IFNAME, name).attr(kind, value);
        self.socket.change(r, tried, &interface(name))
    }

    /// Brings a link up.
    ///
    /// # Errors
    /// When there is no such link, or without `CAP_NET_ADMIN`.
    pub fn set_up(&self, name: &str) -> Result<()> {
        self.change_flags(name, libc::IFF_UP, true, "bring up")
    }

    /// Takes a link down.
    ///
    /// # Errors
    /// When there is no such link, or without `CAP_NET_ADMIN`.
    pub fn set_down(&self, name: &str) -> Result<()> {
        self.change_flags(name, libc::IFF_UP, false, "take down")
    }

    /// Receives frames for all addresses, or no longer. Stays until it is taken back.
    ///
    /// # Errors
    /// When there is no such link, or without `CAP_NET_ADMIN`.
    pub fn set_promisc(&self, name: &str, on: bool) -> Result<()> {
        self.change_flags(name, libc::IFF_PROMISC, on, "change promiscuity of")
    }

    /// Answers ARP requests or leaves them to someone else.
    ///
    /// # Errors
    /// When there is no such link, or without `CAP_NET_ADMIN`.
    pub fn set_arp(&self, name: &str, on: bool) -> Result<()> {
        self.change_flags(name, libc::IFF_NOARP, !on, "change ARP of")
    }

    /// Sets the MTU in bytes.
    ///
    /// # Errors
    /// When there is no such link, the MTU is out of its range, or without `CAP_NET_ADMIN`.
    pub fn set_mtu(&self, name: &str, mtu: u32) -> Result<()> {
        self.change_attr(
            name,
            IFLA_MTU,
            &mtu.to_ne_bytes(),
            &format!("set MTU {mtu} on"),
        )
    }

    /// Makes a link a port of the bridge `master`.
    ///
    /// # Errors
    /// When there is no such link or bridge, the other is no bridge, or without `CAP_NET_ADMIN`.
    pub fn set_master(&self, name: &str, master: &str) -> Result<()> {
        let index = self.link(master)?.index;
        let tried = format!("make a port of {master} of");
        self.change_attr(name, IFLA_MASTER, &index.to_ne_bytes(), &tried)
    }

    /// Sets how many packets may wait to be sent.
    ///
    /// # Errors
    /// When there is no such link, or without `CAP_NET_ADMIN`.
    pub fn set_tx_queue_len(&self, name: &str, packets: u32) -> Result<()> {
        let tried = format!("set a queue of {packets} packets on");
        self.change_attr(name, IFLA_TXQLEN, &packets.to_ne_bytes(), &tried)
    }

    /// Sets the link-layer address.
    ///
    /// # Errors
    /// When there is no such link, it refuses the address, or without `CAP_NET_ADMIN`.
    pub fn set_mac(&self, name: &str, mac: [u8; 6]) -> Result<()> {
        self.change_attr(name, IFLA_ADDRESS, &mac, "set the MAC address of")
    }

    /// Moves a link into another namespace. It arrives down and without addresses.
    ///
    /// # Errors
    /// When there is no such link, its name is taken there, or without `CAP_NET_ADMIN` in both.
    pub fn move_to(&self, name: &str, ns: &NetNs) -> Result<()> {
        let fd = ns.as_fd().as_raw_fd().to_ne_bytes();
        self.change_attr(
            name,
            IFLA_NET_NS_FD,
            &fd,
            &format!("move to {}", ns.label()),
        )
    }

    /// A link by name.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn link(&self, name: &str) -> Result<LinkInfo> {
        check_name(name)?;
        let mut r = Request::new(libc::RTM_GETLINK, 0, &ifinfo(0, 0, 0));
        r.attr_str(IFLA_IFNAME, name);
        self.one_link(r, &interface(name))
    }

    /// A link by index.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn link_by_index(&self, index: u32) -> Result<LinkInfo> {
        let r = Request::new(libc::RTM_GETLINK, 0, &ifinfo(index, 0, 0));
        self.one_link(r, &format!("interface with index {index}"))
    }

    fn one_link(&self, mut r: Request, object: &str) -> Result<LinkInfo> {
        r.attr_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
        let answer = self.socket.get(r, "look up", object)?;
        let link = answer.iter().find_map(parse);
        let mut link = link.ok_or_else(|| Error::other("look up", object, "no answer"))?;
        link.speed = self.speed(&link.name).map_or(0, |s| s.bits_per_second);
        Ok(link)
    }

    /// All links, in the order of their indices. Their speed is left at 0.
    ///
    /// # Errors
    /// When the kernel does not answer.
    pub fn links(&self) -> Result<Vec<LinkInfo>> {
        let mut r = Request::new(libc::RTM_GETLINK, 0, &ifinfo(0, 0, 0));
        r.attr_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
        let mut links: Vec<_> = self
            .socket
            .dump(r, "list", "interfaces")?
            .iter()
            .filter_map(parse)
            .collect();
        links.sort_by_key(|l| l.index);
        Ok(links)
    }

    /// Index of a link.
    pub(crate) fn index_of(&self, name: &str) -> Result<u32> {
        self.link(name).map(|l| l.index)
    }
}

fn parse(m: &Message) -> Option<LinkInfo> {
    if m.kind != libc::RTM_NEWLINK {
        return None;
    }
    let mut link = LinkInfo {
        index: u32_at(&m.body, 4)?,
        flags: u32_at(&m.body, 8)?,
        ..LinkInfo::default()
    };
    for (kind, value) in m.attrs(IFINFO) {
        match kind {
            IFLA_IFNAME => link.name = string(value),
            IFLA_MTU => link.mtu = u32_at(value, 0)?,
            IFLA_ADDRESS => link.mac = value.try_into().unwrap_or_default(),
            IFLA_OPERSTATE => {
                link.oper = value
                    .first()
                    .map_or(Oper::Unknown, |&v| Oper::from_kernel(v))
            }
            IFLA_LINKINFO => {
                let kind = attrs(value).find(|a| a.0 == IFLA_INFO_KIND);
                link.kind = kind.map_or_else(String::new, |a| string(a.1));
            }
            IFLA_XDP => {
                let id = attrs(value).find(|a| a.0 == IFLA_XDP_PROG_ID);
                link.xdp_program = id.and_then(|a| u32_at(a.1, 0)).unwrap_or(0);
            }
            _ => {}
        }
    }
    Some(link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn a_veth_pair_across_namespaces() {
        let (a, b) = (NetNs::anonymous().unwrap(), NetNs::anonymous().unwrap());
        let (na, nb) = (Net::in_ns(&a).unwrap(), Net::in_ns(&b).unwrap());
        let mac = [2, 0, 0, 0, 0, 7];
        let here = VethEnd::new("v0").mac(mac).mtu(9000).queues(2);
        na.create_veth(&here, &VethEnd::new("v1").ns(&b)).unwrap();
        let v0 = na.link("v0").unwrap();
        assert_eq!((v0.mac, v0.mtu, v0.kind.as_str()), (mac, 9000, "veth"));
        assert!(!v0.is_up());
        na.set_up("v0").unwrap();
        assert!(na.link("v0").unwrap().is_up() && !na.link("v0").unwrap().is_running());
        nb.set_up("v1").unwrap();
        let v0 = na.link_by_index(v0.index).unwrap();
        assert!(v0.is_running());
        assert_eq!((v0.oper, v0.speed), (Oper::Up, 10_000_000_000));
        assert_eq!(nb.link("v1").unwrap().mtu, 1500);
        na.delete_link("v0").unwrap();
        assert_eq!(nb.link("v1").unwrap_err().errno(), Some(Errno::ENODEV));
    }

    #[test]
    fn settings_are_seen_afterwards() {
        let (ns, other) = (NetNs::anonymous().unwrap(), NetNs::anonymous().unwrap());
        let net = Net::in_ns(&ns).unwrap();
        net.test_link("d0");
        net.set_mtu("d0", 1400).unwrap();
        net.set_mac("d0", [2, 1, 2, 3, 4, 5]).unwrap();
        net.set_promisc("d0", true).unwrap();
        let link = net.link("d0").unwrap();
        assert_eq!(
            (link.mtu, link.mac, link.is_promisc()),
            (1400, [2, 1, 2, 3, 4, 5], true)
        );
        net.set_promisc("d0", false).unwrap();
        net.set_down("d0").unwrap();
        assert!(!net.link("d0").unwrap().is_promisc());
        net.move_to("d0", &other).unwrap();
        assert_eq!(net.links().unwrap().len(), 2);
        assert_eq!(Net::in_ns(&other).unwrap().links().unwrap()[1].name, "d0");
    }

    #[test]
    fn refusals_name_the_object_and_the_reason() {
        let net = Net::in_ns(&NetNs::anonymous().unwrap()).unwrap();
        let e = net.set_up("nosuch0").unwrap_err().to_string();
        assert!(
            e.contains("bring up interface \"nosuch0\": No such device"),
            "{e}"
        );
        net.create_bridge("d0").unwrap();
        assert_eq!(net.link("d0").unwrap().kind, "bridge");
        let again = net.create_bridge("d0").unwrap_err();
        assert_eq!(again.errno(), Some(Errno::EEXIST));
        // Dummies are a module: where it is missing the refusal says so.
        match net.create_dummy("d1") {
            Ok(()) => assert_eq!(net.link("d1").unwrap().kind, "dummy"),
            Err(e) => assert_eq!(e.errno(), Some(Errno::EOPNOTSUPP), "{e}"),
        }
        let e = net.set_mtu("lo", u32::MAX).unwrap_err().to_string();
        assert!(e.contains("set MTU 4294967295 on interface \"lo\""), "{e}");
        for bad in ["", "a/b", "much-too-long-name", "a b", ".."] {
            assert!(net.create_dummy(bad).is_err(), "{bad}");
        }
        assert!(net.link_by_index(4242).is_err());
    }
}
