//! Random configurations: what stands on interfaces. Sub-interfaces, bonds, tunnels, bridge domains, cross-connects, borrowed
//! addresses, access lists.

use serde_json::{Map, Value, json};

use super::random::Random;

type Interfaces = Map<String, Value>;

/// MTU of what has to have the same.
const MTUS: [Option<u64>; 3] = [None, Some(1400), Some(1500)];

/// An interface of the file, or a sub-interface as `tap7.10`.
fn entry<'a>(all: &'a mut Interfaces, name: &str) -> &'a mut Map<String, Value> {
    let entry = match name.split_once('.') {
        Some((parent, id)) => &mut all[parent]["sub-interfaces"][id],
        None => &mut all[name],
    };
    entry.as_object_mut().expect("an interface has fields")
}

fn set_mtu(all: &mut Interfaces, names: &[String], mtu: Option<u64>) {
    for name in names {
        let entry = entry(all, name);
        entry.remove("packet-mtu");
        match mtu {
            Some(mtu) => entry.insert("mtu".into(), mtu.into()),
            None => entry.remove("mtu"),
        };
    }
}

impl Random {
    pub fn above(&mut self, all: &mut Interfaces, file: &mut Map<String, Value>) {
        let mut parts = self.parts(all);
        self.tunnels(all, file, &mut parts);
        let routes = [
            "addresses",
            "table",
            "mpls",
            "ip6",
            "sub-interfaces",
            "unnumbered",
        ];
        let is_free = |i: &Value| routes.iter().all(|f| i.get(f).is_none());
        let mut free: Vec<String> = all
            .iter()
            .filter(|(n, i)| {
                is_free(i) && !n.contains("_tunnel") && !n.starts_with(['i', 'g', 'B'])
            })
            .filter(|(_, i)| i.get("type").is_none_or(|t| t != "loopback"))
            .filter(|(n, _)| !n.starts_with("loop"))
            .map(|(n, _)| n.clone())
            .collect();
        self.bond(all, file, &mut free, &mut parts);
        self.cross_connect(all, &mut free);
        free.append(&mut parts);
        self.bridges(all, file, free);
        self.borrow(all);
        self.decorate(all);
    }

    /// Sub-interfaces; says which of them are not routed.
    fn parts(&mut self, all: &mut Interfaces) -> Vec<String> {
        let mut switched = Vec::new();
        for parent in ["tap7", "pg1"] {
            if !all.contains_key(parent) || self.dice.often(4) {
                continue;
            }
            set_mtu(all, &[parent.into()], None);
            let down = all[parent].get("state").is_some();
            let mut subs = Map::new();
            for id in [10, 20, 30] {
                if self.dice.often(4) {
                    continue;
                }
                let (sub, routed) = self.part(parent, id, down);
                if !routed {
                    switched.push(format!("{parent}.{id}"));
                }
                subs.insert(id.to_string(), sub);
            }
            if !subs.is_empty() {
                entry(all, parent).insert("sub-interfaces".into(), subs.into());
            }
        }
        switched
    }

    fn part(&mut self, parent: &str, id: u64, down: bool) -> (Value, bool) {
        let d = &mut self.dice;
        let mut sub = json!({});
        let tags = [
            json!(null),
            json!({"dot1q": id + d.below(2) * 100, "exact-match": true}),
            json!({"dot1ad": id, "inner-dot1q": 7, "exact-match": true}),
            json!({"dot1q": id}),
            json!({"match": "dot1q any inner-dot1q 9"}),
        ];
        let mut chosen = d.below(5) as usize;
        // Of a parent only one can have any outer tag.
        if chosen == 4 && id != 10 {
            chosen = 0;
        }
        if chosen > 0 {
            sub["encapsulation"] = tags[chosen].clone();
        }
        if down || d.often(2) {
            sub["state"] = "down".into();
        }
        if d.often(3) {
            sub["mtu"] = json!(*d.one(&[1300, 1400]));
        }
        let routed = chosen < 3 && d.often(6);
        if routed {
            let subnet = self
                .subnets
                .swap_remove(d.below(self.subnets.len() as u64) as usize);
            sub["addresses"] = json!([format!("10.{subnet}.0.1/24")]);
            self.routed.push((format!("{parent}.{id}"), subnet, 0));
        }
        (sub, routed)
    }

    /// Tunnels; those of Ethernet frames can be switched.
    fn tunnels(
        &mut self,
        all: &mut Interfaces,
        file: &mut Map<String, Value>,
        switched: &mut Vec<String>,
    ) {
        let (mut vxlan, mut others) = (Map::new(), Map::new());
        for (name, local) in [
            ("vxlan_tunnel1", "192.0.2.1"),
            ("vxlan_tunnel2", "2001:db8:9::1"),
            ("ipip0", "192.0.2.1"),
            ("gre3", "2001:db8:9::1"),
        ] {
            if self.dice.often(6) {
                continue;
            }
            let d = &mut self.dice;
            let last = 2 + d.below(2);
            let remote = match local.contains(':') {
                true => format!("2001:db8:9::{last}"),
                false => format!("192.0.2.{last}"),
            };
            let mut t = json!({"local": local, "remote": remote});
            if let Some(table) = self.tables.first().filter(|_| d.often(3)) {
                t["table"] = json!(table);
            }
            let mut i = json!({});
            if d.often(5) {
                i["state"] = "down".into();
            }
            let mut ethernet = true;
            if name.starts_with("vxlan") {
                t["vni"] = json!(name.ends_with('1') as u64 * 2 + d.below(2) + 1);
                if d.often(2) {
                    t["port"] = 8472.into();
                }
                if d.often(3) {
                    i["mac"] = "02:fe:00:00:00:77".into();
                }
                vxlan.insert(name.into(), t);
            } else {
                ethernet = name.starts_with("gre") && d.often(5);
                if ethernet {
                    t["payload"] = "ethernet".into();
                }
                others.insert(name.into(), t);
            }
            if ethernet {
                switched.push(name.into());
            } else if d.often(6) {
                let subnet = self
                    .subnets
                    .swap_remove(d.below(self.subnets.len() as u64) as usize);
                i["addresses"] = json!([format!("10.{subnet}.0.1/24")]);
            }
            all.insert(name.into(), i);
        }
        file.insert("vxlan_tunnels".into(), vxlan.into());
        file.insert("tunnels".into(), others.into());
    }

    fn bond(
        &mut self,
        all: &mut Interfaces,
        file: &mut Map<String, Value>,
        free: &mut Vec<String>,
        switched: &mut Vec<String>,
    ) {
        if self.dice.often(5) {
            return;
        }
        let d = &mut self.dice;
        let members: Vec<String> = (0..d.below(3))
            .filter_map(|_| {
                let n = d.below(free.len().max(1) as u64) as usize;
                (n < free.len()).then(|| free.swap_remove(n))
            })
            .collect();
        let mode = *d.one(&["lacp", "xor", "round-robin", "active-backup"]);
        let mut bond = json!({"mode": mode, "interfaces": members});
        if matches!(mode, "lacp" | "xor") && d.often(5) {
            bond["load-balance"] = json!(*d.one(&["l2", "l23"]));
        }
        if d.often(4) {
            bond["mac"] = format!("02:fe:00:00:00:{:02x}", 0x80 + d.below(2)).into();
        }
        if let Some(m) = members.first().filter(|_| d.often(3)) {
            bond[*d.one(&["passive", "long-timeout"])] = json!([m]);
        }
        let mtu = *d.one(&[None, Some(1500), Some(2000)]);
        let mut i = json!({});
        if d.often(2) {
            i["state"] = "down".into();
        }
        match d.below(3) {
            0 => switched.push("BondEthernet0".into()),
            1 => {
                let subnet = self
                    .subnets
                    .swap_remove(d.below(self.subnets.len() as u64) as usize);
                i["addresses"] = json!([format!("10.{subnet}.0.1/24")]);
                self.routed.push(("BondEthernet0".into(), subnet, 0));
            }
            _ if i.get("state").is_none() => {
                i["sub-interfaces"] = json!({"10": {}, "11": {"encapsulation": {"dot1ad": 11}}});
                switched.push("BondEthernet0.11".into());
            }
            _ => {}
        }
        all.insert("BondEthernet0".into(), i);
        for m in &members {
            entry(all, m).remove("state");
        }
        let alike: Vec<String> = members
            .into_iter()
            .chain(["BondEthernet0".into()])
            .collect();
        set_mtu(all, &alike, mtu);
        file.insert("bondethernets".into(), json!({"BondEthernet0": bond}));
    }

    fn cross_connect(&mut self, all: &mut Interfaces, free: &mut Vec<String>) {
        if free.len() < 2 || self.dice.often(4) {
            return;
        }
        let (a, b) = (free.remove(0), free.remove(0));
        let word = *self.dice.one(&["xconnect", "l2xc"]);
        entry(all, &a).insert(word.into(), b.as_str().into());
        if word == "l2xc" {
            set_mtu(all, &[a, b], Some(1500));
        }
    }

    fn bridges(
        &mut self,
        all: &mut Interfaces,
        file: &mut Map<String, Value>,
        mut free: Vec<String>,
    ) {
        let mut domains = Map::new();
        for (name, loopback) in [("bd1", "loop0"), ("bd7", "loop3")] {
            if self.dice.often(4) {
                continue;
            }
            let d = &mut self.dice;
            let mut domain = json!({});
            let mtu = *d.one(&MTUS);
            let mut ports: Vec<String> = Vec::new();
            for _ in 0..d.below(4) {
                if !free.is_empty() {
                    ports.push(free.swap_remove(d.below(free.len() as u64) as usize));
                }
            }
            domain["interfaces"] = json!(ports);
            let stations = ports.first().map(|port| {
                json!([
                    {"mac": format!("02:aa:00:00:01:{:02x}", d.below(2)), "interface": port},
                    {"mac": "02:aa:00:00:02:01", "kind": "filter"},
                ])
            });
            if let Some(stations) = stations.filter(|_| d.often(5)) {
                domain["stations"] = stations;
            }
            if let Some(port) = ports.first().filter(|_| d.often(3)) {
                let group = json!(1 + d.below(2));
                entry(all, port).insert("split-horizon-group".into(), group);
            }
            if ports.len() > 1 && d.often(3) {
                let last = domain["interfaces"].as_array_mut().and_then(Vec::pop);
                domain["uu-fwd"] = json!(last);
            }
            if all.contains_key(loopback) && d.often(6) {
                domain["bvi"] = loopback.into();
                ports.push(loopback.into());
            }
            if d.often(3) {
                domain["tag"] = json!(*d.one(&["red", "blue"]));
            }
            if d.often(4) {
                domain["settings"] = json!({"learn": d.often(5), "arp-termination": d.often(5),
                    "mac-age-minutes": d.below(3)});
                if d.often(3) {
                    domain["settings"]["learn-limit"] = json!(d.below(3));
                }
            }
            if d.often(3) {
                let mac = format!("02:aa:00:00:03:{:02x}", d.below(2));
                domain["arp-entries"] = json!([{"address": "10.99.0.1", "mac": mac}]);
                let mac = format!("02:aa:00:00:03:{:02x}", d.below(2));
                domain["nd-entries"] = json!([{"address": "2001:db8:99::1", "mac": mac}]);
            }
            if let Some(mtu) = mtu {
                domain["mtu"] = mtu.into();
            }
            set_mtu(all, &ports, mtu);
            // A part is as large as its parent where it does not say.
            for port in ports.iter().filter(|p| p.contains('.')) {
                entry(all, port).insert("mtu".into(), mtu.unwrap_or(1500).into());
            }
            domains.insert(name.into(), domain);
        }
        file.insert("bridgedomains".into(), domains.into());
    }

    /// Borrowed addresses.
    fn borrow(&mut self, all: &mut Interfaces) {
        let lender = self.routed.first().map(|r| r.0.clone());
        let (Some(lender), true) = (lender, all.contains_key("ipip0")) else {
            return;
        };
        if all["ipip0"].get("addresses").is_none() && self.dice.often(6) {
            all["ipip0"]["unnumbered"] = lender.into();
        }
    }

    /// Tags and access lists.
    fn decorate(&mut self, all: &mut Interfaces) {
        let names: Vec<String> = all.keys().cloned().collect();
        for name in names {
            let d = &mut self.dice;
            if d.often(2) {
                let tag = *d.one(&["vppcfg", "a word"]);
                entry(all, &name).insert("tag".into(), tag.into());
            }
            if !self.acls.is_empty() && d.often(2) {
                let mut lists = self.acls.clone();
                if d.often(5) {
                    lists.reverse();
                }
                lists.truncate(1 + d.below(2) as usize);
                let way = *d.one(&["acl-input", "acl-output"]);
                entry(all, &name).insert(way.into(), json!(lists));
            }
        }
    }

    pub fn access_lists(&mut self, file: &mut Map<String, Value>) {
        let mut lists = Map::new();
        for (n, name) in ["edge", "core", "x-1"].into_iter().enumerate() {
            let d = &mut self.dice;
            if d.often(5) {
                continue;
            }
            let terms = [
                json!({"action": "permit", "source": "trusted"}),
                json!({"action": "permit", "protocol": "tcp", "destination-port": "www", "source-port": "1024-"}),
                json!({"action": "deny", "family": "ipv6", "destination": "2001:db8::/32"}),
                json!({"action": "permit", "protocol": "icmp", "family": "ipv4", "icmp-type": 8}),
                json!({"action": "permit", "protocol": 6, "tcp-flags": "2/18"}),
                json!({"action": "deny"}),
            ];
            let chosen: Vec<&Value> = terms.iter().filter(|_| d.often(5)).collect();
            let mut list = json!({"terms": chosen});
            if chosen.is_empty() {
                list["terms"] = json!([terms[5]]);
            }
            if d.often(3) {
                list["index"] = json!(10 + n);
            }
            lists.insert(name.into(), list);
            self.acls.push(name.into());
        }
        file.insert("acls".into(), lists.into());
        let trusted = json!({"trusted": {"members": ["192.0.2.0/24", "2001:db8::1"]}});
        file.insert("prefixlists".into(), trusted);
        if self.dice.often(2) {
            let matched = json!({"match-later-fragments": self.dice.often(5)});
            file.insert("acl-settings".into(), matched);
        }
    }
}
