//! Asks name servers, one question after the other, and waits for the answers: on a thread of its own.
//!
//! UDP first, TCP when an answer was cut off (RFC 7766 section 5). Questions go from a port and with a number that nobody can
//! guess (RFC 5452 section 9), over a connected socket.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use parshall_linux::NetNs;

use super::message::{Answer, Data, MessageError, Record, RecordType, answer, question};
use super::resolv::Resolver;
use super::settings::Settings;
use super::{Found, Place};
use crate::collector_config::{CollectorConfig, CollectorHost, Origin, is_host_name};
use crate::config::AgentConfig;

/// The service (RFC 2782; its name is sFlow's).
const SERVICE: &str = "_sflow._udp";
/// All questions together take no longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Notes kept of an answer.
const MAX_NOTES: usize = 16;

/// Asks for the collectors of a place.
///
/// # Errors
/// When nobody answers; a name server that says that there are none is no error.
pub fn look_up(place: &Place) -> Result<Found, String> {
    let Some(namespace) = &place.namespace else {
        return look_up_here(place);
    };
    let ns = NetNs::open(namespace).map_err(|e| e.to_string())?;
    ns.run(|| look_up_here(place)).map_err(|e| e.to_string())?
}

fn look_up_here(place: &Place) -> Result<Found, String> {
    let mut resolver = Resolver::system(place.namespace.as_deref());
    if let Some(server) = place.server {
        resolver.servers = vec![server];
    }
    let domains = match &place.domain {
        Some(domain) => vec![domain.clone()],
        None => resolver.search.clone(),
    };
    let mut asker = Asker {
        resolver,
        deadline: Instant::now() + LONGEST,
    };
    let mut found =
        Err("no domain to look in: name one, or put `search` into /etc/resolv.conf".into());
    for domain in domains {
        let name = format!("{SERVICE}.{}", domain.trim_matches('.'));
        found = asker.service(&name, place);
        if found.as_ref().is_ok_and(|f| !f.collectors.is_empty()) {
            break;
        }
    }
    found
}

struct Asker {
    resolver: Resolver,
    deadline: Instant,
}

impl Asker {
    fn service(&mut self, name: &str, place: &Place) -> Result<Found, String> {
        let services = self.ask(name, RecordType::Srv)?;
        let mut found = Found {
            name: name.to_owned(),
            ..Found::default()
        };
        let mut list = Vec::new();
        for r in &services.records {
            found.keep_for(r.ttl);
            if let Data::Srv {
                priority,
                weight,
                port,
                target,
            } = &r.data
            {
                // The root stands for: there is no such service (RFC 2782).
                if target.is_empty() {
                    continue;
                }
                list.push((*priority, u16::MAX - *weight, target.clone(), *port));
            }
        }
        list.sort_unstable();
        list.dedup();
        for (_, _, target, port) in list {
            if found.collectors.len() == AgentConfig::MAX_COLLECTORS {
                found.note(format!(
                    "more than {} collectors",
                    AgentConfig::MAX_COLLECTORS
                ));
                break;
            }
            self.collector(&target, port, &services.additional, place, &mut found);
        }
        // That nobody answers for the texts does not make collectors wrong.
        match self.ask(name, RecordType::Txt) {
            Ok(texts) => found.read_texts(&texts.records),
            Err(e) => found.no_settings = Some(format!("no settings: {e}")),
        }
        Ok(found)
    }

    fn collector(
        &mut self,
        target: &str,
        port: u16,
        given: &[Record],
        place: &Place,
        found: &mut Found,
    ) {
        if !is_host_name(target) || port == 0 {
            found.note(format!("{target} port {port} is no collector"));
            return;
        }
        let mut addresses: Vec<&Record> = given.iter().filter(|r| r.name == target).collect();
        let asked: Vec<Record>;
        if addresses.is_empty() {
            let both = [RecordType::Aaaa, RecordType::A].map(|t| self.ask(target, t));
            asked = both.into_iter().flatten().flat_map(|a| a.records).collect();
            addresses = asked.iter().collect();
        }
        for r in &addresses {
            found.keep_for(r.ttl);
        }
        let ips: Vec<IpAddr> = addresses
            .iter()
            .filter_map(|r| match r.data {
                Data::Address(a) if !a.is_unspecified() => Some(a),
                _ => None,
            })
            .collect();
        let host = match preferred(&ips, port) {
            Some(ip) => CollectorHost::Address(ip),
            // It may stand in the hosts file.
            None => CollectorHost::Name(target.to_owned()),
        };
        let c = CollectorConfig {
            origin: Origin::Dns,
            namespace: place.namespace.clone(),
            ..CollectorConfig::new(host, port)
        };
        if !found.collectors.iter().any(|x| x.is_same(&c)) {
            found.collectors.push(c);
        }
    }

    /// Asks every server until one answers.
    fn ask(&self, name: &str, of: RecordType) -> Result<Answer, String> {
        let mut why = "no name server".to_owned();
        for _ in 0..self.resolver.attempts {
            for server in &self.resolver.servers {
                let left = self.deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err("the name servers take too long".into());
                }
                match exchange(*server, name, of, self.resolver.timeout.min(left)) {
                    Ok(answer) => return Ok(answer),
                    Err(e) => why = format!("{name}: {server}: {e}"),
                }
            }
        }
        Err(why)
    }
}

impl Found {
    fn keep_for(&mut self, ttl: u32) {
        self.ttl = Some(self.ttl.map_or(ttl, |t| t.min(ttl)));
    }

    fn note(&mut self, text: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(text);
        }
    }

    /// Takes settings out of TXT records.
    pub(super) fn read_texts(&mut self, records: &[Record]) {
        let mut settings = Settings::default();
        for r in records {
            self.keep_for(r.ttl);
            let Data::Txt(strings) = &r.data else {
                continue;
            };
            for s in strings {
                let text = String::from_utf8_lossy(s);
                let (key, value) = text.split_once('=').unwrap_or((&text, ""));
                // Shown as it came, it could hold anything.
                let shown = || text.escape_default().to_string();
                match settings.set(key, value) {
                    Ok(true) => {}
                    Ok(false) if text.is_empty() => {}
                    Ok(false) => self.note(format!("{} is not known", shown())),
                    Err(e) => self.note(format!("{}: {e}", shown())),
                }
            }
        }
        self.settings = settings;
    }
}

/// The first address that there is a way to, IPv6 before IPv4 as RFC 6724 has it; without any, the first IPv4 one.
fn preferred(ips: &[IpAddr], port: u16) -> Option<IpAddr> {
    let mut order: Vec<IpAddr> = ips.iter().copied().filter(IpAddr::is_ipv6).collect();
    order.extend(ips.iter().filter(|a| a.is_ipv4()));
    let reaches = |ip: &&IpAddr| {
        let socket = UdpSocket::bind(any(ip.is_ipv4()));
        socket.is_ok_and(|s| s.connect(SocketAddr::new(**ip, port)).is_ok())
    };
    let first = order.iter().find(reaches);
    let last = || order.iter().find(|a| a.is_ipv4()).or(order.first());
    first.or_else(last).copied()
}

fn any(ipv4: bool) -> SocketAddr {
    let ip: IpAddr = if ipv4 {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    SocketAddr::new(ip, 0)
}

/// A number that nobody can guess: the standard library seeds its hashers from the system's randomness.
fn number() -> u16 {
    RandomState::new().build_hasher().finish() as u16
}

/// One question to one server.
fn exchange(
    server: SocketAddr,
    name: &str,
    of: RecordType,
    timeout: Duration,
) -> Result<Answer, String> {
    let words = |e: io::Error| match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => e.to_string(),
    };
    let id = number();
    let message = question(id, name, of).ok_or("not a name that can be looked up")?;
    let deadline = Instant::now() + timeout;
    let found = over_udp(server, &message, deadline, |m| answer(m, id, name, of)).map_err(words)?;
    let found = found.map_err(|e| e.to_string())?;
    if !found.truncated {
        return Ok(found);
    }
    let m = over_tcp(server, &message, deadline).map_err(words)?;
    answer(&m, id, name, of).map_err(|e| e.to_string())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(left)
}

fn over_udp<T>(
    server: SocketAddr,
    message: &[u8],
    deadline: Instant,
    read: impl Fn(&[u8]) -> Result<T, MessageError>,
) -> io::Result<Result<T, MessageError>> {
    let socket = UdpSocket::bind(any(server.is_ipv4()))?;
    socket.connect(server)?;
    socket.send(message)?;
    let mut buffer = [0; 4096];
    loop {
        socket.set_read_timeout(Some(left(deadline)?))?;
        let n = socket.recv(&mut buffer)?;
        match read(&buffer[..n]) {
            // Late, or somebody guesses: the answer may come yet.
            Err(MessageError::NotOurs) => {}
            other => return Ok(other),
        }
    }
}

fn over_tcp(server: SocketAddr, message: &[u8], deadline: Instant) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, left(deadline)?)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    stream.write_all(&[&length.to_be_bytes()[..], message].concat())?;
    let mut answer = Vec::new();
    let mut wanted = 2;
    let mut buffer = [0; 4096];
    while answer.len() < wanted {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let most = (wanted - answer.len()).min(buffer.len());
        match stream.read(&mut buffer[..most])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => answer.extend_from_slice(&buffer[..n]),
        }
        if let (2, [a, b]) = (wanted, answer.as_slice()) {
            wanted += usize::from(u16::from_be_bytes([*a, *b]));
        }
    }
    Ok(answer.split_off(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A name server for one question over UDP and, when its answer is cut off, one over TCP.
    fn server(reply: impl Fn(&[u8], bool) -> Vec<u8> + Send + 'static) -> SocketAddr {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = udp.local_addr().unwrap();
        let tcp = TcpListener::bind(at).unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let (n, from) = udp.recv_from(&mut buffer).unwrap();
            // Somebody who guesses is not heard.
            let mut wrong = reply(&buffer[..n], false);
            wrong[0] ^= 1;
            udp.send_to(&wrong, from).unwrap();
            udp.send_to(&reply(&buffer[..n], false), from).unwrap();
            let (mut stream, _) = tcp.accept().unwrap();
            let mut head = [0; 2];
            stream.read_exact(&mut head).unwrap();
            let mut m = vec![0; usize::from(u16::from_be_bytes(head))];
            stream.read_exact(&mut m).unwrap();
            let answer = reply(&m, true);
            stream
                .write_all(&(answer.len() as u16).to_be_bytes())
                .unwrap();
            // In two pieces.
            stream.write_all(&answer[..5]).unwrap();
            stream.write_all(&answer[5..]).unwrap();
        });
        at
    }

    #[test]
    fn an_answer_that_was_cut_off_is_asked_for_over_tcp() {
        let at = server(|m, tcp| {
            let mut a = m.to_vec();
            (a[2], a[3]) = if tcp { (0x81, 0x80) } else { (0x83, 0x80) };
            a[7] = u8::from(tcp);
            if tcp {
                a.extend([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 9, 0, 4, 3, b'a', b'=', b'b']);
            }
            a
        });
        let a = exchange(at, "x.example", RecordType::Txt, Duration::from_secs(20)).unwrap();
        assert_eq!((a.records.len(), a.records[0].ttl), (1, 9));
    }

    #[test]
    fn a_server_that_is_not_there_or_does_not_answer_is_said_to_be() {
        let gone = UdpSocket::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let e = exchange(gone, "x.example", RecordType::A, Duration::from_secs(20)).unwrap_err();
        assert!(e.contains("refused"), "{e}");
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = silent.local_addr().unwrap();
        let e = exchange(at, "x.example", RecordType::A, Duration::from_millis(50)).unwrap_err();
        assert_eq!(e, "no answer");
        assert!(exchange(at, "a..b", RecordType::A, Duration::from_secs(1)).is_err());
    }

    #[test]
    fn texts_become_settings_and_what_is_not_understood_is_noted() {
        let record = |strings: &[&str], ttl| Record {
            name: String::new(),
            ttl,
            data: Data::Txt(strings.iter().map(|s| s.as_bytes().to_vec()).collect()),
        };
        let mut found = Found::default();
        found.read_texts(&[
            record(&["txtvers=1", "sampling=500", "colour=\u{1b}blue", ""], 60),
            record(&["polling=10", "headerBytes=9999"], 30),
        ]);
        assert_eq!(
            (found.settings.sampling, found.settings.polling),
            (Some(500), Some(10))
        );
        assert_eq!(found.ttl, Some(30));
        assert_eq!(
            found.notes,
            [
                "colour=\\u{1b}blue is not known",
                "headerBytes=9999: not a number from 0 to 256"
            ]
        );
    }

    #[test]
    fn an_address_with_a_way_to_it_is_preferred() {
        let ip = |t: &str| t.parse::<IpAddr>().unwrap();
        let ns = NetNs::anonymous().unwrap();
        let net = parshall_linux::Net::in_ns(&ns).unwrap();
        net.set_up("lo").unwrap();
        let inside = |ips: &[IpAddr]| ns.run(|| preferred(ips, 6343)).unwrap();
        let (four, six, far) = (ip("127.0.0.1"), ip("::1"), ip("2001:db8::1"));
        assert_eq!(inside(&[four, six]), Some(six));
        assert_eq!(inside(&[far, four]), Some(four));
        assert_eq!(inside(&[far, ip("192.0.2.1")]), Some(ip("192.0.2.1")));
        assert_eq!(inside(&[far]), Some(far));
        assert_eq!(inside(&[]), None);
    }
}
