//! The laboratory's network: two hosts, a router between them, and the folder for the router's files.
//!
//! ```text
//!   lab-hostA-PID            lab-router-PID             lab-hostB-PID
//!   eth0 10.10.1.2/24 ---- vethA          vethB ---- eth0 10.10.2.2/24
//!        fd00:10:1::2/64   .1 and ::1     .1 and ::1      fd00:10:2::2/64
//! ```
//!
//! The router's ends have no address in the kernel and its namespace does not forward: whatever is answered or
//! forwarded there, Parshall did it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parshall_linux::{IpPrefix, Net, NetNs, Route, ScopedNetNs, VethEnd};
use tempfile::TempDir;

use crate::error::{LabError, Result};

/// The hosts' interface.
pub const HOST_IF: &str = "eth0";
/// Longest path of a Unix socket (unix(7)), without the zero behind it.
const SOCKET_PATH_MAX: usize = 107;

/// What one host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// `A` or `B`.
    pub letter: char,
    /// The router's interface towards it.
    pub router_if: &'static str,
    /// The host's IPv4 address.
    pub host4: Ipv4Addr,
    /// The router's, in the same /24.
    pub router4: Ipv4Addr,
    /// The host's IPv6 address.
    pub host6: Ipv6Addr,
    /// The router's, in the same /64.
    pub router6: Ipv6Addr,
    /// The host's MAC address.
    pub host_mac: [u8; 6],
    /// The router's MAC address towards it.
    pub router_mac: [u8; 6],
}

const fn site(letter: char, router_if: &'static str, n: u8) -> Site {
    let net = n as u16;
    Site {
        letter,
        router_if,
        host4: Ipv4Addr::new(10, 10, n, 2),
        router4: Ipv4Addr::new(10, 10, n, 1),
        host6: Ipv6Addr::new(0xFD00, 0x10, net, 0, 0, 0, 0, 2),
        router6: Ipv6Addr::new(0xFD00, 0x10, net, 0, 0, 0, 0, 1),
        host_mac: [2, 0, 0, 0, n, 2],
        router_mac: [2, 0, 0, 0, n, 1],
    }
}

/// Host A and what is around it.
pub const A: Site = site('A', "vethA", 1);
/// Host B and what is around it.
pub const B: Site = site('B', "vethB", 2);

/// A host: its place in the plan and its namespace.
pub struct Host {
    /// Its place in the plan.
    pub site: Site,
    /// Its namespace.
    pub ns: ScopedNetNs,
}

impl Host {
    /// Its address of the family asked for.
    pub fn addr(&self, v6: bool) -> IpAddr {
        if v6 {
            self.site.host6.into()
        } else {
            self.site.host4.into()
        }
    }
}

/// The network. Dropping it removes the namespaces, the links with them, and the folder.
pub struct Topology {
    /// The left host.
    pub a: Host,
    /// The right host.
    pub b: Host,
    /// The router's namespace.
    pub router: ScopedNetNs,
    folder: TempDir,
}

/// Largest number of a process (`PID_MAX_LIMIT`).
const PID_MAX: u32 = 1 << 22;

/// The process that a namespace of a laboratory was made by; nothing for any other name.
fn maker(name: &str) -> Option<u32> {
    let roles = ["lab-hostA-", "lab-hostB-", "lab-router-"];
    let id = roles.iter().find_map(|role| name.strip_prefix(role))?;
    id.parse().ok().filter(|pid| (1..=PID_MAX).contains(pid))
}

/// Removes the names that laboratories left behind which were killed before they could do it themselves.
fn remove_stale() {
    for name in NetNs::list().unwrap_or_default() {
        let dead = maker(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if dead && let Err(e) = NetNs::delete(&name) {
            eprintln!("lab: a namespace of a laboratory that is gone stays: {e}");
        }
    }
}

impl Topology {
    /// Makes everything, under names with the suffix `id`.
    ///
    /// # Errors
    /// When a namespace, link or address is refused; what was made until then is gone again.
    pub fn build(id: u32) -> Result<Topology> {
        remove_stale();
        let topology = Topology {
            folder: folder()?,
            a: Host {
                site: A,
                ns: ScopedNetNs::create(&format!("lab-hostA-{id}"))?,
            },
            b: Host {
                site: B,
                ns: ScopedNetNs::create(&format!("lab-hostB-{id}"))?,
            },
            router: ScopedNetNs::create(&format!("lab-router-{id}"))?,
        };
        topology.silence_router()?;
        let net = Net::in_ns(&topology.router)?;
        net.set_up("lo")?;
        for host in [&topology.a, &topology.b] {
            topology.wire(&net, host)?;
        }
        Ok(topology)
    }

    /// Keeps the kernel of the router's namespace from taking part. Settings come before the links, which inherit them.
    fn silence_router(&self) -> Result<()> {
        self.router.set_sysctl("net.ipv4.ip_forward", "0")?;
        // A kernel without IPv6 has no such setting and does not take part either.
        for scope in ["all", "default"] {
            let key = format!("net.ipv6.conf.{scope}.disable_ipv6");
            if self.router.sysctl(&key).is_ok() {
                self.router.set_sysctl(&key, "1")?;
            }
        }
        Ok(())
    }

    /// Joins a host to the router.
    fn wire(&self, router: &Net, host: &Host) -> Result<()> {
        let site = &host.site;
        // Addresses are set by hand: no router advertisement may add others, and none is waited for.
        for key in [
            "net.ipv6.conf.default.accept_ra",
            "net.ipv6.conf.default.router_solicitations",
        ] {
            if host.ns.sysctl(key).is_ok() {
                host.ns.set_sysctl(key, "0")?;
            }
        }
        let near = VethEnd::new(site.router_if).mac(site.router_mac);
        let far = VethEnd::new(HOST_IF).ns(&host.ns).mac(site.host_mac);
        router.create_veth(&near, &far)?;
        router.set_up(site.router_if)?;
        let net = Net::in_ns(&host.ns)?;
        net.set_up("lo")?;
        net.set_up(HOST_IF)?;
        net.add_addr(HOST_IF, prefix(site.host4.into(), 24)?)?;
        net.add_addr(HOST_IF, prefix(site.host6.into(), 64)?)?;
        net.add_route(&Route::default_via(site.router4.into()))?;
        net.add_route(&Route::default_via(site.router6.into()).dev(HOST_IF))?;
        Ok(())
    }

    /// Where the router's files are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The router's command socket.
    pub fn socket(&self) -> PathBuf {
        self.folder().join("cli.sock")
    }
}

fn prefix(addr: IpAddr, len: u8) -> Result<IpPrefix> {
    IpPrefix::new(addr, len).ok_or_else(|| LabError::Router(format!("{addr}/{len} is no prefix")))
}

/// A folder of our own, whose path leaves room for a socket's name. The usual place may be missing (in a user namespace
/// /run is empty) or too deep.
fn folder() -> Result<TempDir> {
    let mut refused = None;
    for place in [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()] {
        match tempfile::Builder::new()
            .prefix("parshall-lab-")
            .tempdir_in(&place)
        {
            Ok(folder) if folder.path().as_os_str().len() + 16 <= SOCKET_PATH_MAX => {
                // Members of the router's group may use its socket, so they must get there.
                let open = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(folder.path(), open)
                    .map_err(LabError::io(format!("open {}", folder.path().display())))?;
                return Ok(folder);
            }
            Ok(_) => {}
            Err(error) => refused = Some((place, error)),
        }
    }
    Err(match refused {
        Some((place, error)) => LabError::Io {
            tried: format!(
                "make a folder in {}; set TMPDIR to where files may be made",
                place.display()
            ),
            error,
        },
        None => LabError::Router(
            "no folder with a path short enough for a socket; set TMPDIR to a short one".into(),
        ),
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A network whose middle is Linux itself: a stand-in for the router, to try traffic on.
    pub fn forwarded_by_linux() -> Topology {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Different from any process number, and from the other tests'.
        let id = 100_000_000 + std::process::id() * 16 + NEXT.fetch_add(1, Ordering::Relaxed);
        let t = Topology::build(id).unwrap();
        for (key, value) in [
            ("net.ipv4.ip_forward", "1"),
            ("net.ipv6.conf.all.disable_ipv6", "0"),
            ("net.ipv6.conf.all.forwarding", "1"),
        ] {
            t.router.set_sysctl(key, value).unwrap();
        }
        let net = Net::in_ns(&t.router).unwrap();
        for site in [A, B] {
            t.router
                .set_sysctl(
                    &format!("net.ipv6.conf.{}.disable_ipv6", site.router_if),
                    "0",
                )
                .unwrap();
            net.add_addr(site.router_if, prefix(site.router4.into(), 24).unwrap())
                .unwrap();
            net.add_addr(site.router_if, prefix(site.router6.into(), 64).unwrap())
                .unwrap();
        }
        t
    }

    #[test]
    fn what_a_killed_laboratory_left_behind_is_removed() {
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        let pid = gone.id();
        gone.wait().unwrap();
        let here = format!("lab-hostA-{}", std::process::id());
        let left = format!("lab-router-{pid}");
        for name in [&here, &left] {
            NetNs::create(name).unwrap();
        }
        remove_stale();
        let names = NetNs::list().unwrap();
        NetNs::delete(&here).unwrap();
        assert!(names.contains(&here) && !names.contains(&left));
        let other = ["lab-hostC-5", "lab-hostA-", "lab-hostA-99000000", "x"];
        assert!(other.iter().all(|n| maker(n).is_none()));
        assert_eq!(maker("lab-hostB-17"), Some(17));
    }

    #[test]
    fn it_is_built_and_leaves_nothing() {
        let t = Topology::build(99_000_000 + std::process::id()).unwrap();
        let names = [t.a.ns.name(), t.b.ns.name(), t.router.name()].map(str::to_owned);
        let folder = t.folder().to_owned();
        let net = Net::in_ns(&t.router).unwrap();
        let link = net.link("vethA").unwrap();
        assert_eq!((link.mac, link.is_running()), (A.router_mac, true));
        assert!(
            net.addrs("vethA").unwrap().is_empty(),
            "the kernel would answer"
        );
        assert_eq!(t.router.sysctl("net.ipv4.ip_forward").unwrap(), "0");
        assert!(t.socket().as_os_str().len() <= SOCKET_PATH_MAX);
        let present = |n: &String| parshall_linux::NetNs::named(n).is_ok();
        assert!(names.iter().all(present) && folder.is_dir());
        drop(net);
        drop(t);
        assert!(!names.iter().any(present) && !folder.exists());
    }
}
