//! Addresses of links (rtnetlink(7), `linux/if_addr.h`).

use crate::netlink::{Message, Request, u32_at};
use crate::prefix::{addr_from, family};
use crate::{IpPrefix, Net, Result};

const IFADDR: usize = 8;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// An address on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Index of the link.
    pub index: u32,
    /// Address and prefix length.
    pub prefix: IpPrefix,
}

/// `struct ifaddrmsg`.
fn ifaddr(prefix: Option<&IpPrefix>, flags: u8, index: u32) -> [u8; IFADDR] {
    let mut b = [0; IFADDR];
    if let Some(p) = prefix {
        b[0] = family(p.addr());
        b[1] = p.prefix_len();
    }
    b[2] = flags;
    b[4..8].copy_from_slice(&index.to_ne_bytes());
    b
}

impl Net {
    /// Adds an address. IPv6 addresses are usable at once: duplicate address detection is skipped.
    ///
    /// # Errors
    /// When there is no such link, the address is there already, or without `CAP_NET_ADMIN`.
    pub fn add_addr(&self, dev: &str, prefix: IpPrefix) -> Result<()> {
        let index = self.index_of(dev)?;
        let nodad = if prefix.addr().is_ipv6() {
            libc::IFA_F_NODAD as u8
        } else {
            0
        };
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let mut r = Request::new(
            libc::RTM_NEWADDR,
            flags,
            &ifaddr(Some(&prefix), nodad, index),
        );
        r.attr(IFA_LOCAL, &prefix.octets())
            .attr(IFA_ADDRESS, &prefix.octets());
        self.socket.change(r, "add", &object(dev, prefix))
    }

    /// Removes an address.
    ///
    /// # Errors
    /// When there is no such link or address, or without `CAP_NET_ADMIN`.
    pub fn del_addr(&self, dev: &str, prefix: IpPrefix) -> Result<()> {
        let index = self.index_of(dev)?;
        let mut r = Request::new(libc::RTM_DELADDR, 0, &ifaddr(Some(&prefix), 0, index));
        r.attr(IFA_LOCAL, &prefix.octets())
            .attr(IFA_ADDRESS, &prefix.octets());
        self.socket.change(r, "remove", &object(dev, prefix))
    }

    /// Addresses of one link, IPv4 and IPv6.
    ///
    /// # Errors
    /// When there is no such link.
    pub fn addrs(&self, dev: &str) -> Result<Vec<Address>> {
        let index = self.index_of(dev)?;
        let r = Request::new(libc::RTM_GETADDR, 0, &ifaddr(None, 0, 0));
        let all = self
            .socket
            .dump(r, "list addresses of", &format!("interface \"{dev}\""))?;
        Ok(all
            .iter()
            .filter_map(parse)
            .filter(|a| a.index == index)
            .collect())
    }
}

fn object(dev: &str, prefix: IpPrefix) -> String {
    format!("address {prefix} on interface \"{dev}\"")
}

fn parse(m: &Message) -> Option<Address> {
    if m.kind != libc::RTM_NEWADDR {
        return None;
    }
    let (len, index) = (*m.body.get(1)?, u32_at(&m.body, 4)?);
    let find = |kind| {
        m.attrs(IFADDR)
            .find(|a| a.0 == kind)
            .and_then(|a| addr_from(a.1))
    };
    // IPv4 puts its own address into IFA_LOCAL and a point-to-point peer's into IFA_ADDRESS.
    let addr = find(IFA_LOCAL).or_else(|| find(IFA_ADDRESS))?;
    Some(Address {
        index,
        prefix: IpPrefix::new(addr, len)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetNs;
    use nix::errno::Errno;

    #[test]
    fn addresses_come_and_go() {
        let net = Net::in_ns(&NetNs::anonymous().unwrap()).unwrap();
        net.test_link("d0");
        let (v4, v6): (IpPrefix, IpPrefix) = (
            "192.0.2.1/24".parse().unwrap(),
            "2001:db8::1/64".parse().unwrap(),
        );
        net.add_addr("d0", v4).unwrap();
        net.add_addr("d0", v6).unwrap();
        let has = |p| net.addrs("d0").unwrap().iter().any(|a| a.prefix == p);
        assert!(has(v4) && has(v6));
        assert_eq!(
            net.add_addr("d0", v4).unwrap_err().errno(),
            Some(Errno::EEXIST)
        );
        net.del_addr("d0", v4).unwrap();
        assert!(!has(v4) && has(v6));
        let e = net.del_addr("d0", v4).unwrap_err().to_string();
        assert!(
            e.contains("address 192.0.2.1/24 on interface \"d0\""),
            "{e}"
        );
        assert!(net.addrs("nosuch0").is_err());
    }
}
