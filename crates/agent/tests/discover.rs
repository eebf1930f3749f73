//! Discovery of collectors by a real name server, dnsmasq, in a network namespace of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use parshall_agent::discover::{Ask, Discovery, Found, Place, ThreadAsk};
use parshall_agent::{CollectorHost, Origin};
use parshall_linux::{Net, NetNs};

/// A name server in a namespace; both go with it.
struct Server {
    ns: NetNs,
    dns: Child,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.dns.kill();
        let _ = self.dns.wait();
    }
}

const AT: &str = "127.0.0.1:53";

impl Server {
    /// With these records, as options of dnsmasq.
    fn with(records: &[String]) -> Server {
        let ns = NetNs::anonymous().unwrap();
        Net::in_ns(&ns).unwrap().set_up("lo").unwrap();
        let dns = Server::start(&ns, records);
        let server = Server { ns, dns };
        let end = Instant::now() + Duration::from_secs(20);
        while let Err(e) = server.ask("ready.example.net", Some(AT)) {
            assert!(Instant::now() < end, "dnsmasq does not answer: {e}");
        }
        server
    }

    fn start(ns: &NetNs, records: &[String]) -> Child {
        let mut c = ns.command("dnsmasq").unwrap();
        c.args([
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            "--conf-file=/dev/null",
        ])
        .args([
            "--listen-address=127.0.0.1",
            "--bind-interfaces",
            "--pid-file=",
        ])
        .args([
            "--local=/example.net/",
            "--user=root",
            "--local-ttl=77",
            "--host-record=ready.example.net,192.0.2.99",
        ])
        .args(records)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("dnsmasq (tests/setup.sh installs it): {e}"))
    }

    /// Starts it anew with other records.
    fn restart(&mut self, records: &[String]) {
        self.stop();
        self.dns = Server::start(&self.ns, records);
        let end = Instant::now() + Duration::from_secs(20);
        while self.ask("ready.example.net", Some(AT)).is_err() {
            assert!(Instant::now() < end, "dnsmasq does not come back");
        }
    }

    fn stop(&mut self) {
        self.dns.kill().unwrap();
        self.dns.wait().unwrap();
    }

    fn place(&self, domain: &str, server: Option<&str>) -> Place {
        Place {
            domain: Some(domain.to_owned()),
            server: server.map(|s| s.parse().unwrap()),
            namespace: Some(self.ns.path()),
            delay: 0,
        }
    }

    fn ask(&self, domain: &str, server: Option<&str>) -> Result<Found, String> {
        let mut ask = ThreadAsk::default();
        ask.start(&self.place(domain, server));
        let end = Instant::now() + Duration::from_secs(90);
        loop {
            if let Some(outcome) = ask.finished() {
                return outcome;
            }
            assert!(Instant::now() < end, "the question does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn records(all: &[&str]) -> Vec<String> {
    all.iter().map(|r| format!("--{r}")).collect()
}

fn hosts(f: &Found) -> Vec<(String, u16)> {
    let host = |h: &CollectorHost| match h {
        CollectorHost::Address(a) => a.to_string(),
        CollectorHost::Name(n) => n.clone(),
    };
    f.collectors
        .iter()
        .map(|c| (host(&c.host), c.port))
        .collect()
}

#[test]
fn collectors_and_settings_are_found_and_followed() {
    let mut server = Server::with(&records(&[
        "srv-host=_sflow._udp.example.net,c2.example.net,6344,20",
        "srv-host=_sflow._udp.example.net,c1.example.net,6343,10",
        "host-record=c1.example.net,127.0.0.1",
        "host-record=c2.example.net,127.0.0.2",
        "txt-record=_sflow._udp.example.net,txtvers=1,sampling=500,sampling.10G=5000,polling=20,agentIP=192.0.2.1,agent=eth0,\
         agent.cidr=10.0.0.0/8,dropLimit=50,headerBytes=96,colour=blue",
    ]));
    let found = server.ask("example.net", Some(AT)).unwrap();
    assert_eq!(found.name, "_sflow._udp.example.net");
    assert_eq!(
        hosts(&found),
        [("127.0.0.1".into(), 6343), ("127.0.0.2".into(), 6344)]
    );
    assert!(found.collectors.iter().all(|c| c.origin == Origin::Dns));
    assert!(
        found
            .collectors
            .iter()
            .all(|c| c.namespace == Some(server.ns.path()))
    );
    let s = &found.settings;
    assert_eq!(
        (s.sampling, s.polling, s.drop_limit, s.header_bytes),
        (Some(500), Some(20), Some(50), Some(96))
    );
    assert_eq!(s.sampling_by_speed.get(&10_000_000_000), Some(&5000));
    assert_eq!(s.agent_address, "192.0.2.1".parse().ok());
    assert_eq!(
        (s.election.device.as_deref(), s.election.rules.len()),
        (Some("eth0"), 1)
    );
    assert_eq!(found.notes, ["colour=blue is not known"]);
    assert_eq!(found.ttl, Some(77));

    // A domain without the service is an answer too, and so is one that does not exist.
    let none = server.ask("other.example.net", Some(AT)).unwrap();
    assert!(none.collectors.is_empty() && none.ttl.is_none());

    // It is followed: the records change, the server goes, the server comes back.
    let mut d = Discovery::new(
        server.place("example.net", Some(AT)),
        Box::<ThreadAsk>::default(),
        0,
        0,
    );
    let settle = |d: &mut Discovery, now: u64| {
        let end = Instant::now() + Duration::from_secs(90);
        let mut changed = d.tick(now);
        while d.status(now).asking {
            assert!(Instant::now() < end);
            std::thread::sleep(Duration::from_millis(5));
            changed |= d.tick(now);
        }
        changed
    };
    assert!(settle(&mut d, 0));
    assert_eq!(d.found().unwrap().collectors.len(), 2);
    let mut now = 77_000_000_000;
    assert!(!settle(&mut d, now), "nothing has changed");
    server.stop();
    now += 77_000_000_000;
    assert!(!settle(&mut d, now));
    assert_eq!(d.found().unwrap().collectors.len(), 2);
    let e = d.status(now).last_error.unwrap();
    assert!(e.contains("127.0.0.1:53") && e.contains("refused"), "{e}");
    assert_eq!(d.status(now).next_question_ms, 1000);
    server.restart(&records(&[
        "srv-host=_sflow._udp.example.net,c3.example.net,7000",
        "host-record=c3.example.net,127.0.0.3",
    ]));
    now += 1_000_000_000;
    assert!(settle(&mut d, now));
    assert_eq!(hosts(d.found().unwrap()), [("127.0.0.3".into(), 7000)]);
    assert_eq!(d.found().unwrap().settings.sampling, None);
}

#[test]
fn an_answer_too_long_for_udp_comes_over_tcp() {
    let all: Vec<String> = (1..=40u8)
        .flat_map(|i| {
            let name = format!("a-collector-with-a-rather-long-name-{i}.example.net");
            [
                format!(
                    "--srv-host=_sflow._udp.example.net,{name},{}",
                    6000 + u16::from(i)
                ),
                format!("--host-record={name},{}", Ipv4Addr::new(127, 0, 1, i)),
            ]
        })
        .collect();
    let server = Server::with(&all);
    let found = server.ask("example.net", Some(AT)).unwrap();
    let mut ports: Vec<u16> = found.collectors.iter().map(|c| c.port).collect();
    ports.sort_unstable();
    assert_eq!(ports, (6001..=6040).collect::<Vec<u16>>());
}

#[test]
fn a_host_without_an_address_is_left_to_the_system_and_one_with_both_is_reached_over_ipv6() {
    let server = Server::with(&records(&[
        "srv-host=_sflow._udp.example.net,nowhere.example.net,1,1",
        "srv-host=_sflow._udp.example.net,both.example.net,2,2",
        "host-record=both.example.net,127.0.0.1,::1",
        "srv-host=_sflow._udp.no.example.net",
    ]));
    let found = server.ask("example.net", Some(AT)).unwrap();
    assert_eq!(
        hosts(&found),
        [("nowhere.example.net".into(), 1), ("::1".into(), 2)]
    );
    // The service of which the DNS says that there is none.
    let none = server.ask("no.example.net", Some(AT)).unwrap();
    assert!(none.collectors.is_empty());
    // Nobody answers at this address.
    let at: SocketAddr = "127.0.0.9:53".parse().unwrap();
    let e = server
        .ask("example.net", Some(&at.to_string()))
        .unwrap_err();
    assert!(e.contains("127.0.0.9:53"), "{e}");
}
