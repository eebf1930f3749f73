//! What some cases have beyond tables and traffic: an access list, a VXLAN tunnel.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parshall_acl::{AclList, AclTables, Compiled, Entry, Hits};
use parshall_fib::{Dpo, DpoKind, Ip4Prefix};
use parshall_graph::Graph;
use parshall_graph::harness::Harness;
use parshall_nodes::Shared;
use parshall_nodes::tunnel::{Encap, TunnelKey, Tunnels};

use crate::BenchError;
use crate::cases::{ACL_RULES, FAR_END, NEAR_END, VNI, Work, acl_rule};
use crate::rig::{SOURCE, TUNNEL};

/// Workers that count what rules match, at most: as many as a bench can have.
const WORKERS: usize = 64;
/// Our end of the tunnel that traffic goes into, on the sink's side, and the other end.
const OUT_ENDS: (Ipv4Addr, Ipv4Addr) =
    (Ipv4Addr::new(192, 168, 1, 1), Ipv4Addr::new(192, 168, 1, 2));

/// Publishes what the work needs beyond routes.
///
/// # Errors
/// When the tables do not hold it.
pub fn fill(shared: &Shared, work: Work) -> Result<(), BenchError> {
    match work {
        Work::Acl => access_list(shared),
        Work::VxlanOut => tunnel(shared, OUT_ENDS),
        Work::VxlanIn => {
            tunnel(shared, (NEAR_END, FAR_END));
            receive(shared, NEAR_END)?;
        }
        Work::CrossConnect | Work::Bridge | Work::Ip4 | Work::Ip6 | Work::Mpls => {}
    }
    Ok(())
}

/// Gives a worker what the work needs.
///
/// # Errors
/// When the graph does not have the feature.
pub fn attach(harness: &mut Harness, graph: &Graph, work: Work) -> Result<(), BenchError> {
    match work {
        Work::Acl => graph
            .set_feature("acl-in-ip4", SOURCE, true)
            .map(drop)
            .map_err(|e| BenchError::of("acl-in-ip4", e)),
        Work::VxlanOut | Work::VxlanIn => {
            harness.add_virtual(TUNNEL, "tunnel-output", 65_535);
            Ok(())
        }
        Work::CrossConnect | Work::Bridge | Work::Ip4 | Work::Ip6 | Work::Mpls => Ok(()),
    }
}

fn access_list(shared: &Shared) {
    let rules: Vec<_> = (0..ACL_RULES).map(acl_rule).collect();
    let hits = Arc::new(Hits::new(WORKERS, rules.len()));
    let list = AclList {
        rules: rules.into(),
        hits,
    };
    let entry = Entry {
        lists: Arc::new(Compiled::new(&[list], true)),
        unmatched: Arc::new(Hits::new(WORKERS, 1)),
    };
    let mut input = vec![None; SOURCE as usize + 1];
    input[SOURCE as usize] = Some(entry);
    let tables = AclTables {
        input,
        ..AclTables::default()
    };
    shared.acls.publish(&shared.domain, tables);
}

fn tunnel(shared: &Shared, (local, remote): (Ipv4Addr, Ipv4Addr)) {
    let key = TunnelKey {
        local: IpAddr::V4(local),
        remote: IpAddr::V4(remote),
        table: 0,
        encap: Encap::Vxlan {
            vni: VNI,
            port: 4789,
        },
    };
    let tunnels = Tunnels::new([(TUNNEL, key)]);
    shared.tunnels.publish(&shared.domain, tunnels);
}

/// Makes an address the router's own.
fn receive(shared: &Shared, address: Ipv4Addr) -> Result<(), BenchError> {
    let table = shared.ip4.control(0);
    let table = table.map_err(|e| BenchError::of("table", e))?;
    let own = Ip4Prefix::masked(address.into(), 32);
    let done = table.insert(own, Dpo::new(DpoKind::Receive, SOURCE));
    done.map(drop).map_err(|e| BenchError::of("route", e))
}

#[cfg(test)]
mod tests {
    use crate::cases::chosen;
    use crate::drain::Drain;
    use crate::rig::{Bed, Rig};

    #[test]
    fn the_work_is_done_by_the_node_that_it_is_about() {
        let drain = Drain::start().unwrap();
        for (case, node) in [
            ("ip4-acl200", "acl-in-ip4"),
            ("vxlan4-encap", "tunnel-output"),
            ("vxlan4-decap", "tunnel-input"),
        ] {
            let bed = Bed::new(chosen(&[case.into()]).unwrap()[0]).unwrap();
            // It also proves that all that comes in goes out.
            let rig = Rig::new(&bed, 0, &drain).unwrap();
            assert!(rig.ticks_of(node) > 0.0, "{case}");
        }
    }
}
