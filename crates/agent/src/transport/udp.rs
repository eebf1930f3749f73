//! Sends datagrams to a list of collectors over UDP.

use crate::collector_config::CollectorConfig;
use crate::status::CollectorStatus;

use super::collector::Collector;
use super::{Resolve, ThreadResolver, Transport};

/// UDP over IPv4 and IPv6, one connected socket a collector.
pub struct UdpTransport {
    collectors: Vec<Collector>,
    resolver: Box<dyn Resolve>,
    next_ticket: u64,
}

impl Default for UdpTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl UdpTransport {
    /// No collector yet; names are looked up by helper threads.
    pub fn new() -> UdpTransport {
        Self::with_resolver(Box::new(ThreadResolver::new()))
    }

    /// The same with another way to look names up.
    pub fn with_resolver(resolver: Box<dyn Resolve>) -> UdpTransport {
        UdpTransport {
            collectors: Vec::new(),
            resolver,
            next_ticket: 0,
        }
    }
}

impl Transport for UdpTransport {
    fn send(&mut self, now: u64, datagrams: &[&[u8]]) {
        for c in &mut self.collectors {
            c.send(now, datagrams);
        }
    }

    fn set_collectors(&mut self, now: u64, list: &[CollectorConfig]) {
        let mut old = std::mem::take(&mut self.collectors);
        for config in list {
            let kept = old
                .iter()
                .position(|c| c.config() == config)
                .map(|i| old.swap_remove(i));
            self.collectors
                .push(kept.unwrap_or_else(|| Collector::new(config.clone(), now)));
        }
        self.tick(now);
    }

    fn has_collectors(&self) -> bool {
        !self.collectors.is_empty()
    }

    fn tick(&mut self, now: u64) -> u64 {
        while let Some(l) = self.resolver.finished() {
            for c in &mut self.collectors {
                c.looked_up(now, &l);
            }
        }
        let mut next = u64::MAX;
        for c in &mut self.collectors {
            next = next.min(c.tick(now, self.resolver.as_mut(), &mut self.next_ticket));
        }
        next
    }

    fn status(&self, now: u64) -> Vec<CollectorStatus> {
        self.collectors.iter().map(|c| c.status(now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::{SocketAddr, UdpSocket};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::status::{CollectorState, Loss};
    use crate::transport::Lookup;

    const SECOND: u64 = 1_000_000_000;

    fn listener(address: &str) -> UdpSocket {
        let s = UdpSocket::bind(address).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        s
    }

    /// A port nobody listens on: bound once, then closed again.
    fn dead_port() -> SocketAddr {
        listener("127.0.0.1:0").local_addr().unwrap()
    }

    fn received(s: &UdpSocket, n: usize) -> Vec<Vec<u8>> {
        let mut buf = [0; 2048];
        (0..n)
            .map(|_| {
                let len = s.recv(&mut buf).unwrap();
                buf[..len].to_vec()
            })
            .collect()
    }

    #[test]
    fn every_collector_gets_every_datagram_over_both_ip_versions() {
        let (a, b) = (listener("127.0.0.1:0"), listener("[::1]:0"));
        let list: Vec<CollectorConfig> = [&a, &b]
            .iter()
            .map(|s| CollectorConfig::from(s.local_addr().unwrap()))
            .collect();
        let mut t = UdpTransport::new();
        t.set_collectors(1, &list);
        let payloads: Vec<Vec<u8>> = (0..200u8).map(|i| vec![i; usize::from(i) + 1]).collect();
        let slices: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        t.send(2, &slices);
        assert_eq!(received(&a, 200), payloads);
        assert_eq!(received(&b, 200), payloads);
        for s in t.status(3) {
            assert_eq!(
                (s.state, s.sent, s.failed, s.last_error),
                (CollectorState::Up, 200, 0, None)
            );
            assert_eq!(s.sent_bytes, (1..=200).sum::<u64>());
        }
    }

    #[test]
    fn a_refused_collector_backs_off_and_comes_back_and_the_other_misses_nothing() {
        let live = listener("127.0.0.1:0");
        let dead = dead_port();
        let list = [
            CollectorConfig::from(dead),
            CollectorConfig::from(live.local_addr().unwrap()),
        ];
        let mut t = UdpTransport::new();
        let mut now = SECOND;
        t.set_collectors(now, &list);
        // The refusal of the first datagram is met by a later one; on loopback it is there at once.
        for i in 0..10u8 {
            now += SECOND / 10;
            t.tick(now);
            t.send(now, &[&[i]]);
        }
        let s = &t.status(now)[0];
        assert_eq!(s.state, CollectorState::Waiting);
        assert!(s.last_error.as_ref().unwrap().contains("refused"), "{s:?}");
        assert!(s.last_error_ago_ms.unwrap() < 1000);
        assert_eq!(s.sent + s.failed, 10);
        assert!(s.failed >= 8, "{s:?}");
        assert_eq!(
            received(&live, 10),
            (0..10u8).map(|i| vec![i]).collect::<Vec<_>>()
        );

        let back = UdpSocket::bind(dead).unwrap();
        back.set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        now += 60 * SECOND;
        t.tick(now);
        assert_eq!(t.status(now)[0].state, CollectorState::Up);
        t.send(now, &[&[99]]);
        assert_eq!(received(&back, 1), [[99]]);
    }

    #[test]
    fn back_off_doubles_up_to_its_limit() {
        let mut t = UdpTransport::new();
        let mut now = SECOND;
        // 192.0.2.1 (TEST-NET-1) is no address of this host: binding to it fails each time.
        let mut c = CollectorConfig::from(dead_port());
        c.source = Some("192.0.2.1".parse().unwrap());
        t.set_collectors(now, &[c]);
        let mut gaps = Vec::new();
        for _ in 0..8 {
            let next = t.tick(now);
            assert_eq!(t.status(now)[0].state, CollectorState::Waiting);
            assert!(
                t.status(now)[0]
                    .last_error
                    .as_ref()
                    .unwrap()
                    .contains("192.0.2.1")
            );
            gaps.push((next - now) / SECOND);
            now = next;
        }
        assert_eq!(gaps, [1, 2, 4, 8, 8, 8, 8, 8]);
        assert_eq!(t.status(now)[0].trouble, Some(Loss::DeviceGone));
        // Without a route it is not worth so much trouble.
        let ns = parshall_linux::NetNs::anonymous().unwrap();
        let mut c = CollectorConfig::from(dead_port());
        c.namespace = Some(ns.path());
        t.set_collectors(now, &[c]);
        let mut gaps = Vec::new();
        for _ in 0..8 {
            let next = t.tick(now);
            gaps.push((next - now) / SECOND);
            now = next;
        }
        assert_eq!(gaps, [1, 2, 4, 8, 16, 30, 30, 30]);
        t.send(now, &[b"lost"]);
        let s = &t.status(now)[0];
        assert_eq!((s.lost.unreachable, s.failed), (1, 1));
        assert_eq!(s.next_retry_ms, Some(0));
        t.tick(now);
        assert_eq!(t.status(now)[0].next_retry_ms, Some(30_000));
    }

    /// Answers when the test says so.
    #[derive(Clone, Default)]
    struct SlowResolver {
        asked: Arc<Mutex<Vec<(u64, String, u16)>>>,
        answers: Arc<Mutex<VecDeque<Lookup>>>,
    }

    impl Resolve for SlowResolver {
        fn start(&mut self, ticket: u64, host: &str, port: u16) {
            self.asked
                .lock()
                .unwrap()
                .push((ticket, host.to_owned(), port));
        }
        fn finished(&mut self) -> Option<Lookup> {
            self.answers.lock().unwrap().pop_front()
        }
    }

    #[test]
    fn names_are_looked_up_aside_and_again() {
        let live = listener("127.0.0.1:0");
        let r = SlowResolver::default();
        let mut t = UdpTransport::with_resolver(Box::new(r.clone()));
        let config: CollectorConfig = "flows.example.net".parse().unwrap();
        t.set_collectors(SECOND, std::slice::from_ref(&config));
        assert_eq!(
            *r.asked.lock().unwrap(),
            [(0, "flows.example.net".to_owned(), 6343)]
        );
        assert_eq!(t.status(SECOND)[0].state, CollectorState::Resolving);
        t.send(SECOND, &[b"lost"]);
        assert_eq!(t.status(SECOND)[0].failed, 1);

        r.answers.lock().unwrap().push_back(Lookup {
            ticket: 0,
            result: Err("no such name".into()),
        });
        t.tick(2 * SECOND);
        let s = &t.status(2 * SECOND)[0];
        assert_eq!(
            (s.state, s.last_error_ago_ms),
            (CollectorState::Waiting, Some(0))
        );
        assert!(s.last_error.as_ref().unwrap().contains("no such name"));

        t.tick(4 * SECOND);
        assert_eq!(r.asked.lock().unwrap().len(), 2);
        let found = vec![live.local_addr().unwrap()];
        r.answers.lock().unwrap().push_back(Lookup {
            ticket: 1,
            result: Ok(found.clone()),
        });
        t.tick(5 * SECOND);
        t.send(5 * SECOND, &[b"here"]);
        assert_eq!(received(&live, 1), [b"here"]);

        // The name moves: the old address serves until the new one is known.
        t.tick(1000 * SECOND);
        assert_eq!(r.asked.lock().unwrap().len(), 3);
        assert_eq!(t.status(1000 * SECOND)[0].state, CollectorState::Up);
        let moved = listener("127.0.0.1:0");
        let answer = Lookup {
            ticket: 2,
            result: Ok(vec![moved.local_addr().unwrap()]),
        };
        r.answers.lock().unwrap().push_back(answer);
        t.tick(1001 * SECOND);
        t.send(1001 * SECOND, &[b"there"]);
        assert_eq!(received(&moved, 1), [b"there"]);
    }

    #[test]
    fn a_new_list_keeps_what_was_in_the_old_one() {
        let (a, b) = (listener("127.0.0.1:0"), listener("127.0.0.1:0"));
        let ca = CollectorConfig::from(a.local_addr().unwrap());
        let cb = CollectorConfig::from(b.local_addr().unwrap());
        let mut t = UdpTransport::new();
        t.set_collectors(1, std::slice::from_ref(&ca));
        t.send(2, &[b"one"]);
        t.set_collectors(3, &[cb, ca]);
        t.send(4, &[b"two"]);
        assert_eq!(
            t.status(5).iter().map(|s| s.sent).collect::<Vec<_>>(),
            [1, 2]
        );
    }
}
