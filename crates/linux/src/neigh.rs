//! Static neighbour entries (rtnetlink(7), `linux/neighbour.h`).

use std::net::IpAddr;

use crate::netlink::Request;
use crate::prefix::{family, octets};
use crate::{Net, Result};

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// `struct ndmsg` of a permanent entry.
fn ndmsg(addr: IpAddr, index: u32) -> [u8; 12] {
    let mut b = [0; 12];
    b[0] = family(addr);
    b[4..8].copy_from_slice(&index.to_ne_bytes());
    b[8..10].copy_from_slice(&libc::NUD_PERMANENT.to_ne_bytes());
    b
}

impl Net {
    /// Says for good that `addr` on link `dev` has the link-layer address `mac`.
    ///
    /// # Errors
    /// When there is no such link, or without `CAP_NET_ADMIN`.
    pub fn add_neigh(&self, dev: &str, addr: IpAddr, mac: [u8; 6]) -> Result<()> {
        let index = self.index_of(dev)?;
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let mut r = Request::new(libc::RTM_NEWNEIGH, flags, &ndmsg(addr, index));
        r.attr(NDA_DST, &octets(addr)).attr(NDA_LLADDR, &mac);
        self.socket.change(r, "add", &object(dev, addr))
    }

    /// Removes the entry of `addr` on link `dev`.
    ///
    /// # Errors
    /// When there is no such link or entry, or without `CAP_NET_ADMIN`.
    pub fn del_neigh(&self, dev: &str, addr: IpAddr) -> Result<()> {
        let index = self.index_of(dev)?;
        let mut r = Request::new(libc::RTM_DELNEIGH, 0, &ndmsg(addr, index));
        r.attr(NDA_DST, &octets(addr));
        self.socket.change(r, "remove", &object(dev, addr))
    }
}

fn object(dev: &str, addr: IpAddr) -> String {
    format!("neighbour {addr} on interface \"{dev}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetNs;

    #[test]
    fn entries_come_and_go() {
        let ns = NetNs::anonymous().unwrap();
        let net = Net::in_ns(&ns).unwrap();
        net.test_link("d0");
        let arp = || {
            ns.run(|| std::fs::read_to_string("/proc/thread-self/net/arp").unwrap())
                .unwrap()
        };
        let (v4, v6): (IpAddr, IpAddr) = ("10.0.0.9".parse().unwrap(), "fd00::9".parse().unwrap());
        net.add_neigh("d0", v4, [2, 0, 0, 0, 0, 9]).unwrap();
        net.add_neigh("d0", v6, [2, 0, 0, 0, 0, 9]).unwrap();
        assert!(arp().contains("10.0.0.9") && arp().contains("02:00:00:00:00:09"));
        net.del_neigh("d0", v4).unwrap();
        net.del_neigh("d0", v6).unwrap();
        assert!(!arp().contains("02:00:00:00:00:09"));
        assert!(net.del_neigh("d0", v6).is_err());
    }
}
