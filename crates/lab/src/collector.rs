//! The collector: a UDP socket inside the router's namespace and the thread that reads it.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use parshall_linux::NetNs;

use crate::error::{LabError, Result};
use crate::tally::Tally;

/// Where it listens: sFlow's own port; nobody else is in the namespace.
const LISTEN: &str = "127.0.0.1:6343";
/// Room for bursts while this thread waits for a processor, in bytes.
const RECEIVE_BUFFER: usize = 16 << 20;
/// How long it waits for a datagram before it looks whether to stop.
const WAIT: Duration = Duration::from_millis(100);
/// The largest UDP payload.
const MAX_DATAGRAM: usize = 65_535;

/// A collector at work. Dropping it ends it.
pub struct Collector {
    tally: Arc<Mutex<Tally>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl Collector {
    /// Starts collecting on the loopback of `ns`, which must be up.
    ///
    /// # Errors
    /// When the port is taken or the system refuses a thread.
    pub fn start(ns: &NetNs) -> Result<Collector> {
        let tried = || LabError::io(format!("listen for sFlow on {LISTEN} in {}", ns.label()));
        let socket = ns.run(open)?.map_err(tried())?;
        let address = socket.local_addr().map_err(tried())?;
        let tally = Arc::new(Mutex::new(Tally::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stopped) = (Arc::clone(&tally), Arc::clone(&stop));
        let thread = Builder::new()
            .name("lab-collector".into())
            .spawn(move || collect(&socket, &theirs, &stopped))
            .map_err(LabError::io("start the collector's thread"))?;
        Ok(Collector {
            tally,
            stop,
            thread: Some(thread),
            address,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it knows now.
    pub fn snapshot(&self) -> Tally {
        lock(&self.tally).clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed already.
            let _ = thread.join();
        }
    }
}

/// A panic in the middle of a datagram leaves numbers, not broken memory.
fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(LISTEN)?;
    socket.set_read_timeout(Some(WAIT))?;
    // The forced form goes beyond the system's limit but needs CAP_NET_ADMIN there; less than asked for is no error.
    if setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER).is_err() {
        let _ = setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER);
    }
    Ok(socket)
}

fn collect(socket: &UdpSocket, tally: &Mutex<Tally>, stop: &AtomicBool) {
    let mut buf = vec![0; MAX_DATAGRAM];
    while !stop.load(Ordering::Relaxed) {
        // An error is the end of the wait, or passes.
        if let Ok(n) = socket.recv(&mut buf) {
            lock(tally).datagram(buf.get(..n).unwrap_or(&[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_linux::Net;
    use parshall_sflow_wire::DatagramBuilder;
    use std::time::Instant;

    #[test]
    fn it_hears_datagrams_in_its_namespace() {
        let ns = NetNs::anonymous().unwrap();
        Net::in_ns(&ns).unwrap().set_up("lo").unwrap();
        let collector = Collector::start(&ns).unwrap();
        let sender = ns.run(|| UdpSocket::bind("127.0.0.1:0")).unwrap().unwrap();
        let mut b = DatagramBuilder::new(1400);
        for sequence in [1, 2, 4] {
            b.begin("192.0.2.1".parse().unwrap(), 0, sequence, 0);
            sender.send_to(b.finish(), collector.address()).unwrap();
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        while collector.snapshot().datagrams < 3 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let t = collector.snapshot();
        assert_eq!((t.datagrams, t.datagram_gaps, t.malformed), (3, 1, 0));
    }
}
