//! Addresses of interfaces: each once, and subnets that do not overlap within a table.

use std::collections::BTreeMap;
use std::net::IpAddr;

use parshall_command::Prefix;

use super::Builder;
use super::interfaces::{Interface, no_table};
use crate::record::Item;
use crate::scalar::{contains, network_of};

/// Subnets seen so far by table and first address, with their interface. No two of a table overlap: of
/// those around a new one, only the neighbours in order can.
type Subnets<'f> = BTreeMap<(u32, IpAddr), (Prefix, &'f str)>;

#[derive(Default)]
struct Seen<'f> {
    addresses: BTreeMap<(u32, IpAddr), &'f str>,
    subnets: Subnets<'f>,
}

impl Builder<'_, '_> {
    /// Commands for the addresses.
    pub(super) fn addresses(&mut self) {
        let mut seen = Seen::default();
        for i in self.interfaces.clone() {
            for (item, p) in i.addresses() {
                self.address(&mut seen, i, item, p);
            }
        }
    }

    fn address<'f>(&mut self, seen: &mut Seen<'f>, i: Interface<'f>, item: &Item, p: Prefix) {
        let table = i.table_of(p.addr);
        let version = usize::from(p.addr.is_ipv6());
        if !self.tables[version].contains(&table) && self.tables[1 - version].contains(&table) {
            let message = no_table(table, Some(["IPv4", "IPv6"][version]));
            self.report.add(item.at, item.field.clone(), message);
        }
        if let Some(other) = seen.addresses.insert((table, p.addr), i.name) {
            let message = format!("{} is an address of `{other}` already", p.addr);
            self.report.add(item.at, item.field.clone(), message);
        } else if let Some((old, other)) = overlapping(&seen.subnets, table, p, i.name) {
            let message = format!(
                "{}/{} overlaps {}/{} of `{other}` in the same table",
                p.addr, p.len, old.addr, old.len
            );
            self.report.add(item.at, item.field.clone(), message);
        } else {
            seen.subnets.insert((table, network_of(p)), (p, i.name));
        }
        self.lines.push(crate::plan::PlanLine {
            line: format!("set interface ip address {} {}/{}", i.name, p.addr, p.len),
            at: item.at,
            field: item.field.clone(),
        });
    }
}

/// The subnet that `p` must not overlap. Another address of the very same subnet is fine.
fn overlapping<'f>(
    subnets: &Subnets<'f>,
    table: u32,
    p: Prefix,
    name: &str,
) -> Option<(Prefix, &'f str)> {
    let start = (table, network_of(p));
    let before = subnets.range(..=start).next_back();
    let after = subnets.range(start..).next();
    let near = before.into_iter().chain(after);
    near.filter(|((t, _), _)| *t == table)
        .map(|(_, found)| *found)
        .find(|(old, of)| {
            let same = old.len == p.len && network_of(*old) == network_of(p) && *of == name;
            !same && (contains(*old, p.addr) || contains(p, old.addr))
        })
}
