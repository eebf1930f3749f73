//! Pairs of random configurations: applied one after the other on a model, the second is what is there, whatever the first
//! was; a plan of it then is empty; what is written out reads back; and a change that fails half-way leaves the first.

use std::sync::Arc;

use parshall_control::{ConfigLanguage, EngineConfig, Router, execute_lines};
use serde_json::{Map, Value, json};

use crate::{Yaml, writer};

/// Pairs of an ordinary test run; the environment variable `PARSHALL_PAIRS` asks for more.
const PAIRS: u64 = 250;

/// SplitMix64: a sequence for each pair.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    /// True `n` times in ten.
    fn often(&mut self, n: u64) -> bool {
        self.below(10) < n
    }
    fn one<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// A random configuration: few names, subnets and prefixes, so that two of them have much in common and collide.
struct Random {
    dice: Dice,
    tables: Vec<u64>,
    /// Interfaces that route, with their subnet and table.
    routed: Vec<(String, u64, u64)>,
    pgs: Vec<String>,
    mpls: bool,
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
        };
        let mut file = Map::new();
        r.tables = [10, 20].into_iter().filter(|_| r.dice.often(5)).collect();
        file.insert(
            "tables".into(),
            r.tables.iter().map(|id| json!({ "id": id })).collect(),
        );
        file.insert("interfaces".into(), r.interfaces().into());
        file.insert("routes".into(), r.routes().into());
        file.insert("neighbors".into(), r.neighbors().into());
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
        let mut subnets: Vec<u64> = (1..=14).collect();
        for (name, kind) in INTERFACES {
            if self.dice.often(4) {
                continue;
            }
            let i = self.interface(name, *kind, &mut subnets);
            all.insert((*name).into(), i.into());
        }
        let free: Vec<String> = all
            .iter()
            .filter(|(_, i)| i.get("addresses").is_none() && i.get("table").is_none())
            .filter(|(_, i)| i.get("mpls").is_none() && i.get("ip6").is_none())
            .map(|(n, _)| n.clone())
            .collect();
        if let [a, b, ..] = free.as_slice()
            && self.dice.often(6)
        {
            let word = *self.dice.one(&["xconnect", "l2xc"]);
            all[a][word] = b.as_str().into();
            if word == "l2xc" {
                all[a]["mtu"] = 1500.into();
                all[b]["mtu"] = 1500.into();
            }
        }
        all
    }

    fn interface(
        &mut self,
        name: &str,
        kind: Option<&str>,
        subnets: &mut Vec<u64>,
    ) -> Map<String, Value> {
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
            put("mtu", json!(*d.one(&[1400, 1500, 2000])));
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
        let subnet = subnets.swap_remove(d.below(subnets.len() as u64) as usize);
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

fn model() -> Router {
    let config = EngineConfig {
        interfaces: 64,
        ..EngineConfig::default()
    };
    let mut r = Router::model(&config).expect("a model");
    r.keep_revisions(Arc::new(Yaml), Default::default());
    r
}

/// A router that was started with `text`.
fn started(text: &str) -> Result<Router, String> {
    let mut r = model();
    let plan = Yaml.plan(&Value::Null, text, "r.yaml", true)?;
    execute_lines(&mut r, &plan.lines()).map_err(|e| e.to_string())?;
    Ok(r)
}

/// The configuration with lists in one order: that of paths, addresses and collectors does not matter, that of labels does.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.into_iter().map(|(k, v)| (k, canonical(v))).collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(canonical).collect();
            if items.iter().any(|i| !i.is_number()) {
                items.sort_by_key(Value::to_string);
            }
            Value::Array(items)
        }
        other => other,
    }
}

fn state(r: &Router) -> Value {
    canonical(r.configuration())
}

fn lines(r: &Router, text: &str) -> Vec<String> {
    let plan = r
        .plan_configuration(text, "b.yaml")
        .unwrap_or_else(|e| panic!("{e}\n{text}"));
    plan.actions.into_iter().map(|a| a.command).collect()
}

/// One pair; false when one of the two is no good configuration.
fn pair(seed: u64) -> bool {
    let file = |n| writer::write(&Random::file(Dice(seed.wrapping_mul(2) + n)));
    let (a, b) = (file(0), file(1));
    let (Ok(mut r), Ok(want)) = (started(&a), started(&b)) else {
        return false;
    };
    let (first, second) = (state(&r), state(&want));
    let told = |r: &Router, what: &str| {
        format!(
            "pair {seed}: {what}\nA:\n{a}\nB:\n{b}\nthere:\n{}",
            r.configuration_text().unwrap()
        )
    };
    assert_eq!(lines(&r, &a), [""; 0], "{}", told(&r, "A is there"));
    let written = r.configuration_text().unwrap();
    assert_eq!(
        lines(&r, &written),
        [""; 0],
        "{}",
        told(&r, "what is written reads back")
    );
    fails_half_way(&mut r, &b, seed);
    same(&state(&r), &first, || told(&r, "a change that failed"));
    let plan = r.plan_configuration(&b, "b.yaml").unwrap();
    if let Err(e) = r.apply_configuration((&b, "b.yaml"), "", None) {
        panic!(
            "{}: {e}\nplan:\n{:#?}",
            told(&r, "B is refused"),
            plan.lines()
        );
    }
    same(&state(&r), &second, || {
        format!("{}\nplan: {:#?}", told(&r, "B is not there"), plan.lines())
    });
    assert_eq!(lines(&r, &b), [""; 0], "{}", told(&r, "B is there"));
    true
}

fn same(there: &Value, want: &Value, told: impl Fn() -> String) {
    if there != want {
        let text = |v| serde_json::to_string_pretty(v).expect("plain data");
        panic!(
            "{}\n{}",
            told(),
            parshall_control::revision::lines::diff(&text(want), &text(there))
        );
    }
}

/// Gives the commands of a plan with one among them that is refused.
fn fails_half_way(r: &mut Router, text: &str, seed: u64) {
    let mut lines = r.plan_configuration(text, "b.yaml").unwrap().lines();
    let at = Dice(seed).below(lines.len() as u64 + 1) as usize;
    lines.insert(at, ("here".into(), "delete tap nosuch".into()));
    assert!(execute_lines(r, &lines).is_err());
}

#[test]
fn what_is_applied_is_what_is_there() {
    let pairs = std::env::var("PARSHALL_PAIRS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(PAIRS);
    let good = (0..pairs).filter(|seed| pair(*seed)).count() as u64;
    // A few random files have something that cannot be; most must be good or nothing was tried.
    assert!(good * 10 >= pairs * 7, "{good} of {pairs} pairs were good");
}
