//! Random configurations, each the same for the same seed: interfaces, routes, labels, sFlow, streams.

use serde_json::{Map, Value, json};

/// SplitMix64: a sequence for each pair.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// True `n` times in ten.
    pub fn often(&mut self, n: u64) -> bool {
        self.below(10) < n
    }
    pub fn one<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// A random configuration: few names, subnets and prefixes, so that two of them have much in common and collide.
pub struct Random {
    pub dice: Dice,
    pub tables: Vec<u64>,
    /// Interfaces that route, with their subnet and table.
    pub routed: Vec<(String, u64, u64)>,
    pgs: Vec<String>,
    mpls: bool,
    /// Subnets that no interface has yet.
    pub subnets: Vec<u64>,
    /// Names of access lists.
    pub acls: Vec<String>,
}

/// A random configuration of this dice.
pub fn file(dice: Dice) -> Value {
    Random::file(dice)
}

const INTERFACES: &[(&str, Option<&str>)] = &[
    ("tap0", None),
    ("tap1", None),
    ("tap7", None),
    ("loop0", None),
    ("loop3", None),
    ("pg0", None),
    ("pg1", None),
    ("host-eth0", None),
    ("memif0/1", None),
    ("lan", Some("tap")),
    ("wan", Some("loopback")),
    ("lab", Some("pg")),
];

impl Random {
    fn file(dice: Dice) -> Value {
        let mut r = Random {
            dice,
            tables: Vec::new(),
            routed: Vec::new(),
            pgs: Vec::new(),
            mpls: false,
            subnets: (1..=24).collect(),
            acls: Vec::new(),
        };
        let mut file = Map::new();
        r.tables = [10, 20].into_iter().filter(|_| r.dice.often(5)).collect();
        file.insert(
            "tables".into(),
            r.tables.iter().map(|id| json!({ "id": id })).collect(),
        );
        r.access_lists(&mut file);
        let mut interfaces = r.interfaces();
        r.above(&mut interfaces, &mut file);
        file.insert("interfaces".into(), interfaces.into());
        file.insert("routes".into(), r.routes().into());
        file.insert("neighbors".into(), r.neighbors().into());
        if r.dice.often(3) {
            let kept =
                json!({"ip4": {"age": r.dice.below(2) * 60}, "ip6": {"rate": 10, "limit": 8192}});
            file.insert("neighbor-settings".into(), kept);
        }
        if r.mpls {
            file.insert("mpls".into(), r.labels());
        }
        file.insert("sflow".into(), r.sflow());
        if r.dice.often(3) {
            file.insert("bgp".into(), json!({"local-as": 64500 + r.dice.below(2)}));
        }
        if let Some(pg) = r.pgs.first().cloned().filter(|_| r.dice.often(6)) {
            file.insert("packet-generator".into(), r.stream(&pg));
        }
        Value::Object(file)
    }

    fn interfaces(&mut self) -> Map<String, Value> {
        let mut all = Map::new();
        for (name, kind) in INTERFACES {
            if self.dice.often(4) {
                continue;
            }
            let i = self.interface(name, *kind);
            // A stream that starts would bring it up.
            if name.starts_with("pg") && i.get("state").is_none_or(|s| s != "down") {
                self.pgs.push((*name).into());
            }
            all.insert((*name).into(), i.into());
        }
        all
    }

    fn interface(&mut self, name: &str, kind: Option<&str>) -> Map<String, Value> {
        let d = &mut self.dice;
        let mut i = Map::new();
        let mut put = |name: &str, value: Value| _ = i.insert(name.into(), value);
        if let Some(kind) = kind {
            put("type", kind.into());
        }
        if d.often(3) {
            put(
                "mac",
                format!("02:fe:00:00:00:{:02x}", d.below(3) + 16).into(),
            );
        }
        if d.often(4) {
            let word = *d.one(&["mtu", "mtu", "packet-mtu"]);
            put(word, json!(*d.one(&[1400, 1500, 2000])));
        }
        if d.often(2) {
            put("state", "down".into());
        }
        if d.often(2) {
            put("promiscuous", true.into());
        }
        if d.often(2) {
            put("ip6", true.into());
        }
        if d.often(2) {
            put("rx-mode", "polling".into());
        }
        if d.often(3) {
            let how = [
                json!(true),
                json!({"sampling-rate": 100}),
                json!({"adaptive": 50, "direction": "both"}),
            ];
            put("sflow", d.one(&how).clone());
        }
        if d.often(2) {
            self.mpls = true;
            put("mpls", true.into());
        }
        if name.starts_with("tap") && d.often(3) {
            put("host-mtu", json!(*d.one(&[3000, 9000])));
        }
        if d.often(3) {
            return i;
        }
        let mut table = 0;
        if let Some(t) = self.tables.first().filter(|_| d.often(3)) {
            table = *t;
            put("table", table.into());
        }
        let subnet = self
            .subnets
            .swap_remove(d.below(self.subnets.len() as u64) as usize);
        let mut addresses = vec![json!(format!("10.{subnet}.0.1/24"))];
        if d.often(3) {
            addresses.push(json!(format!("10.{subnet}.0.{}/24", 2 + d.below(2))));
        }
        if d.often(4) {
            addresses.push(json!(format!("2001:db8:{subnet}::1/64")));
        }
        put("addresses", addresses.into());
        self.routed.push((name.into(), subnet, table));
        i
    }

    /// Somewhere a packet of table `table` can go.
    fn way(&mut self, table: u64) -> Option<Value> {
        let routed: Vec<_> = self
            .routed
            .iter()
            .filter(|r| r.2 == table)
            .cloned()
            .collect();
        let d = &mut self.dice;
        if routed.is_empty() {
            return None;
        }
        let (name, subnet, _) = d.one(&routed).clone();
        let via = format!("10.{subnet}.0.{}", 10 + d.below(3));
        let mut way = json!({ "via": via });
        if d.often(5) {
            way["interface"] = name.into();
        }
        if d.often(1) {
            way["labels"] = json!([100 + d.below(2), 200]);
        }
        Some(way)
    }

    fn routes(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        for n in 0..8 {
            if self.dice.often(4) {
                continue;
            }
            let mut tables = self.tables.clone();
            tables.push(0);
            let table = *self.dice.one(&tables);
            let mut route = match (self.dice.below(6), self.way(table), self.way(table)) {
                (0, ..) => {
                    json!({"action": *self.dice.one(&["blackhole", "prohibit", "unreachable"])})
                }
                (1, ..) if !self.tables.is_empty() && table == 0 => {
                    json!({"lookup-table": self.tables[0]})
                }
                (2 | 3, Some(mut a), Some(mut b)) if a["via"] != b["via"] => {
                    (a["weight"], b["weight"]) = (json!(1 + self.dice.below(2)), json!(2));
                    json!({ "paths": [a, b] })
                }
                (_, Some(a), _) => a,
                _ => json!({"action": "blackhole"}),
            };
            route["prefix"] = format!("172.16.{n}.0/24").into();
            if table != 0 {
                route["table"] = table.into();
            }
            all.push(route);
        }
        all
    }

    fn neighbors(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        for (name, subnet, _) in self.routed.clone() {
            if self.dice.often(3) {
                let mac = format!("02:aa:00:00:00:{:02x}", self.dice.below(2));
                all.push(
                    json!({"interface": name, "address": format!("10.{subnet}.0.10"), "mac": mac}),
                );
            }
        }
        all
    }

    fn labels(&mut self) -> Value {
        let mut all = Vec::new();
        for label in [16, 17, 18] {
            let stack = *self.dice.one(&["eos", "both"]);
            match self.way(0) {
                Some(mut way) if self.dice.often(6) => {
                    (way["label"], way["stack"]) = (label.into(), stack.into());
                    all.push(way);
                }
                _ if self.dice.often(3) => all.push(json!({"label": label, "pop": "ip4"})),
                _ => {}
            }
        }
        json!({ "labels": all })
    }

    fn sflow(&mut self) -> Value {
        let d = &mut self.dice;
        let mut s = Map::new();
        let mut put = |name: &str, value: Value| _ = s.insert(name.into(), value);
        if d.often(3) {
            put("sampling-rate", json!(*d.one(&[100, 1000])));
        }
        if d.often(3) {
            put("header-bytes", json!(*d.one(&[128, 192])));
        }
        if d.often(3) {
            put("polling-interval", json!(*d.one(&[20, 30])));
        }
        if d.often(3) {
            put("direction", json!(*d.one(&["rx", "tx", "both"])));
        }
        if d.often(2) {
            put("netlink", json!(*d.one(&[true, false])));
        }
        if d.often(2) {
            put("agent-address", "192.0.2.9".into());
        }
        if d.often(3) {
            put(
                "records",
                json!({"timestamp": d.often(5), "switch": d.often(5)}),
            );
        }
        if d.often(2) {
            put("drop-limit", json!(*d.one(&[0, 50])));
        }
        let collectors = ["192.0.2.1", "192.0.2.2:7000", "[2001:db8::7]:6343"];
        let some: Vec<_> = collectors.into_iter().filter(|_| d.often(3)).collect();
        put("collectors", json!(some));
        Value::Object(s)
    }

    fn stream(&mut self, pg: &str) -> Value {
        let d = &mut self.dice;
        let packets = *d.one(&[10, 20]);
        let data = "IP4: 02:00:00:00:00:01 -> 02:00:00:00:00:02 UDP: 10.0.0.1 -> 10.0.1.1 UDP: 1 -> 2 incrementing 30";
        json!({"streams": [{"name": "s", "interface": pg, "limit": packets, "data": data, "enabled": d.often(5)}]})
    }
}
