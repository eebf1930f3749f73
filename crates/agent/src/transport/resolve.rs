//! Looks names up without making anybody wait: getaddrinfo(3) blocks for as long as a name server is silent.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// A finished lookup: its ticket, and the addresses or why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The number the lookup was started with.
    pub ticket: u64,
    /// What came out.
    pub result: Result<Vec<SocketAddr>, String>,
}

/// Looks names up in the background.
pub trait Resolve: Send {
    /// Starts a lookup; its outcome carries `ticket`.
    fn start(&mut self, ticket: u64, host: &str, port: u16);

    /// The next finished lookup, if there is one.
    fn finished(&mut self) -> Option<Lookup>;
}

/// Most lookups at once: a silent name server must not gather threads.
const MAX_LOOKUPS: usize = 64;

/// Runs each lookup on a thread of its own, so that a slow name does not hold up another.
pub struct ThreadResolver {
    done: Receiver<Lookup>,
    tell: Sender<Lookup>,
    /// Cloned into every running lookup; its count is theirs plus one.
    running: Arc<()>,
}

impl Default for ThreadResolver {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadResolver {
    /// A resolver with no lookup under way.
    pub fn new() -> ThreadResolver {
        let (tell, done) = channel();
        ThreadResolver {
            done,
            tell,
            running: Arc::new(()),
        }
    }
}

impl Resolve for ThreadResolver {
    fn start(&mut self, ticket: u64, host: &str, port: u16) {
        let tell = self.tell.clone();
        // The receiver may be gone by the time a lookup ends; nobody wants its outcome then.
        if Arc::strong_count(&self.running) > MAX_LOOKUPS {
            let _ = tell.send(Lookup {
                ticket,
                result: Err("too many lookups under way".to_owned()),
            });
            return;
        }
        let (host, guard) = (host.to_owned(), self.running.clone());
        let spawned = thread::Builder::new()
            .name("parshall-dns".to_owned())
            .spawn(move || {
                let result = (host.as_str(), port)
                    .to_socket_addrs()
                    .map(Iterator::collect)
                    .map_err(|e| e.to_string());
                drop(guard);
                let _ = tell.send(Lookup { ticket, result });
            });
        if let Err(e) = spawned {
            let result = Err(format!("no thread for the lookup: {e}"));
            let _ = self.tell.send(Lookup { ticket, result });
        }
    }

    fn finished(&mut self) -> Option<Lookup> {
        self.done.try_recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(r: &mut ThreadResolver) -> Lookup {
        loop {
            match r.finished() {
                Some(l) => return l,
                None => thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
    }

    #[test]
    fn addresses_and_localhost_resolve_and_nonsense_does_not() {
        let mut r = ThreadResolver::new();
        r.start(1, "192.0.2.1", 5);
        assert_eq!(
            wait(&mut r),
            Lookup {
                ticket: 1,
                result: Ok(vec!["192.0.2.1:5".parse().unwrap()])
            }
        );
        r.start(2, "localhost", 5);
        let l = wait(&mut r);
        assert!(l.result.unwrap().iter().all(|a| a.ip().is_loopback()));
        r.start(3, "no such name", 5);
        let l = wait(&mut r);
        assert_eq!(l.ticket, 3);
        assert!(l.result.is_err());
    }
}
