//! Routes of the kernel (rtnetlink(7), `linux/rtnetlink.h`).

use std::fmt;
use std::net::IpAddr;

use crate::netlink::Request;
use crate::prefix::{family, octets};
use crate::{IpPrefix, Net, Result};

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_VIA: u16 = 18;
const RTAX_MTU: u16 = 2;

/// A unicast route in the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    dst: IpPrefix,
    via: Option<IpAddr>,
    dev: Option<String>,
    src: Option<IpAddr>,
    metric: Option<u32>,
    mtu: Option<u32>,
}

impl Route {
    /// A route to `dst` (host bits are cleared); say `via` or `dev` or both.
    pub fn to(dst: IpPrefix) -> Route {
        Route {
            dst: dst.network(),
            via: None,
            dev: None,
            src: None,
            metric: None,
            mtu: None,
        }
    }
    /// The default route of the next hop's family, through `next_hop`.
    pub fn default_via(next_hop: IpAddr) -> Route {
        let all = if next_hop.is_ipv4() {
            IpPrefix::DEFAULT_V4
        } else {
            IpPrefix::DEFAULT_V6
        };
        Route::to(all).via(next_hop)
    }
    /// Through this next hop.
    #[must_use]
    pub fn via(self, next_hop: IpAddr) -> Route {
        Route {
            via: Some(next_hop),
            ..self
        }
    }
    /// Out of this link.
    #[must_use]
    pub fn dev(self, dev: &str) -> Route {
        Route {
            dev: Some(dev.to_owned()),
            ..self
        }
    }
    /// From this address of ours, where the sender has not chosen one.
    #[must_use]
    pub fn src(self, addr: IpAddr) -> Route {
        Route {
            src: Some(addr),
            ..self
        }
    }
    /// With this priority; lower wins.
    #[must_use]
    pub fn metric(self, metric: u32) -> Route {
        Route {
            metric: Some(metric),
            ..self
        }
    }
    /// With this path MTU.
    #[must_use]
    pub fn mtu(self, mtu: u32) -> Route {
        Route {
            mtu: Some(mtu),
            ..self
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "route to {}", self.dst)?;
        if let Some(via) = self.via {
            write!(f, " via {via}")?;
        }
        if let Some(dev) = &self.dev {
            write!(f, " dev {dev}")?;
        }
        Ok(())
    }
}

impl Net {
    /// Adds a route.
    ///
    /// # Errors
    /// When it is there already, its next hop is not reachable, or without `CAP_NET_ADMIN`.
    pub fn add_route(&self, route: &Route) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        self.change_route(libc::RTM_NEWROUTE, flags, "add", route)
    }

    /// Adds a route or replaces the one of the same destination and metric.
    ///
    /// # Errors
    /// When its next hop is not reachable, or without `CAP_NET_ADMIN`.
    pub fn replace_route(&self, route: &Route) -> Result<()> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.change_route(libc::RTM_NEWROUTE, flags, "replace", route)
    }

    /// Removes a route.
    ///
    /// # Errors
    /// When there is no such route, or without `CAP_NET_ADMIN`.
    pub fn del_route(&self, route: &Route) -> Result<()> {
        self.change_route(libc::RTM_DELROUTE, 0, "remove", route)
    }

    fn change_route(&self, kind: u16, flags: i32, tried: &str, route: &Route) -> Result<()> {
        let mut r = Request::new(kind, flags, &rtmsg(route, kind == libc::RTM_DELROUTE));
        r.attr(RTA_DST, &route.dst.octets());
        match route.via {
            Some(via) if via.is_ipv4() == route.dst.addr().is_ipv4() => {
                r.attr(RTA_GATEWAY, &octets(via));
            }
            // A next hop of the other family (RFC 8950): family first, then the address.
            Some(via) => {
                let mut value = u16::from(family(via)).to_ne_bytes().to_vec();
                value.extend(octets(via));
                r.attr(RTA_VIA, &value);
            }
            None => {}
        }
        if let Some(dev) = &route.dev {
            r.attr_u32(RTA_OIF, self.index_of(dev)?);
        }
        if let Some(src) = route.src {
            r.attr(RTA_PREFSRC, &octets(src));
        }
        if let Some(metric) = route.metric {
            r.attr_u32(RTA_PRIORITY, metric);
        }
        if let Some(mtu) = route.mtu {
            r.nested(RTA_METRICS, &[], |r| {
                r.attr_u32(RTAX_MTU, mtu);
            });
        }
        self.socket.change(r, tried, &route.to_string())
    }
}

/// `struct rtmsg`. Link scope where there is no next hop, as ip-route(8) chooses; a deletion
/// matches any scope.
fn rtmsg(route: &Route, delete: bool) -> [u8; 12] {
    let scope = match (delete, route.via) {
        (true, _) => libc::RT_SCOPE_NOWHERE,
        (false, Some(_)) => libc::RT_SCOPE_UNIVERSE,
        (false, None) => libc::RT_SCOPE_LINK,
    };
    let mut b = [0; 12];
    b[0] = family(route.dst.addr());
    b[1] = route.dst.prefix_len();
    b[4] = libc::RT_TABLE_MAIN;
    b[5] = if delete {
        libc::RTPROT_UNSPEC
    } else {
        libc::RTPROT_STATIC
    };
    b[6] = scope;
    b[7] = if delete {
        libc::RTN_UNSPEC
    } else {
        libc::RTN_UNICAST
    };
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetNs;
    use nix::errno::Errno;

    fn net() -> (NetNs, Net) {
        let ns = NetNs::anonymous().unwrap();
        let net = Net::in_ns(&ns).unwrap();
        net.test_link("d0");
        net.add_addr("d0", "10.0.0.1/24".parse().unwrap()).unwrap();
        net.add_addr("d0", "fd00::1/64".parse().unwrap()).unwrap();
        (ns, net)
    }

    fn table(ns: &NetNs) -> String {
        ns.run(|| std::fs::read_to_string("/proc/thread-self/net/route").unwrap())
            .unwrap()
    }

    #[test]
    fn v4_and_v6_routes_come_and_go() {
        let (ns, net) = net();
        let v4 = Route::default_via("10.0.0.2".parse().unwrap());
        let v6 = Route::to("2001:db8::/32".parse().unwrap())
            .via("fd00::2".parse().unwrap())
            .dev("d0");
        let direct = Route::to("192.0.2.0/24".parse().unwrap())
            .dev("d0")
            .metric(7)
            .mtu(1400);
        for r in [&v4, &v6, &direct] {
            net.add_route(r).unwrap();
            assert_eq!(
                net.add_route(r).unwrap_err().errno(),
                Some(Errno::EEXIST),
                "{r}"
            );
            net.replace_route(r).unwrap();
        }
        // Destination and gateway as /proc writes them: hexadecimal in host order.
        let bytes = |a: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(a));
        assert!(table(&ns).contains(&bytes([10, 0, 0, 2])));
        assert!(table(&ns).contains(&bytes([192, 0, 2, 0])));
        for r in [&v4, &v6, &direct] {
            net.del_route(r).unwrap();
            assert_eq!(
                net.del_route(r).unwrap_err().errno(),
                Some(Errno::ESRCH),
                "{r}"
            );
        }
        assert!(!table(&ns).contains(&bytes([10, 0, 0, 2])));
    }

    #[test]
    fn a_v4_route_may_have_a_v6_next_hop() {
        let (ns, net) = net();
        let r = Route::to("198.51.100.0/24".parse().unwrap())
            .via("fd00::2".parse().unwrap())
            .dev("d0");
        net.add_route(&r).unwrap();
        assert!(table(&ns).contains(&format!("{:08X}", u32::from_ne_bytes([198, 51, 100, 0]))));
    }

    #[test]
    fn an_unreachable_next_hop_is_explained() {
        let (_ns, net) = net();
        let e = net
            .add_route(&Route::default_via("172.16.0.1".parse().unwrap()))
            .unwrap_err();
        assert!(
            e.to_string().contains("route to 0.0.0.0/0 via 172.16.0.1"),
            "{e}"
        );
    }
}
