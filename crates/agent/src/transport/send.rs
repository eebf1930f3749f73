//! Hands datagrams to the kernel with as few system calls as possible.
//!
//! Two ways: sendmmsg(2), many datagrams a call; and UDP segmentation offload (udp(7), `UDP_SEGMENT`), one large row of
//! datagrams that are all of one length but for a shorter last one, which goes through the kernel as one packet and is cut
//! apart at the end, by the device where it can. Samples of one traffic mix are mostly of one length, so rows come by
//! themselves; what does not fit into one goes the first way. Datagrams are never padded to fit.

use std::io::IoSlice;
use std::os::fd::RawFd;

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, sendmmsg, sendmsg};

/// Most datagrams in one system call.
const BATCH: usize = 64;
/// Bytes in a row at most: what fits into one IPv4 or IPv6 packet beside the headers.
const ROW_BYTES: usize = 65_535 - 40 - 8;
/// Datagrams in a row at most (`UDP_MAX_SEGMENTS` of kernels before 6.10).
const ROW_MOST: usize = 64;
/// Datagrams from which on a row pays. It takes a busy router to have so many at once: on a calm one, captures on this
/// machine show every datagram as the wire will.
const ROW_LEAST: usize = 8;

/// How much was sent, and what stopped the rest.
pub struct Outcome {
    /// Datagrams that went out, from the front.
    pub sent: usize,
    /// Why no more.
    pub error: Option<Errno>,
}

/// Sends the datagrams on a connected socket. `rows` says whether segmentation offload may be used, and is cleared when the
/// system cannot do it.
pub fn send_all(fd: RawFd, datagrams: &[&[u8]], rows: &mut bool) -> Outcome {
    let mut sent = 0;
    while sent < datagrams.len() {
        let rest = &datagrams[sent..];
        let row = if *rows { row_at(rest) } else { 1 };
        let result = if row >= ROW_LEAST {
            send_row(fd, &rest[..row])
        } else {
            send_batch(fd, &rest[..singles(rest, *rows)])
        };
        match result {
            Ok(n) => sent += n,
            Err(Errno::EINTR) => {}
            // No checksum offload below, a path MTU smaller than the datagrams, or an old kernel: all of them can
            // still send one datagram after the other, in fragments if need be.
            Err(Errno::EIO | Errno::EINVAL | Errno::EMSGSIZE | Errno::EOPNOTSUPP)
                if row >= ROW_LEAST =>
            {
                *rows = false;
            }
            Err(e) => {
                return Outcome {
                    sent,
                    error: Some(e),
                };
            }
        }
    }
    Outcome { sent, error: None }
}

/// Datagrams at the front that can go as one row: equal lengths, the last one possibly shorter.
fn row_at(datagrams: &[&[u8]]) -> usize {
    let Some(first) = datagrams.first().map(|d| d.len()).filter(|l| *l > 0) else {
        return 0;
    };
    let most = (ROW_BYTES / first).clamp(1, ROW_MOST);
    let mut n = 0;
    for d in datagrams.iter().take(most) {
        if d.len() > first || d.is_empty() {
            break;
        }
        n += 1;
        if d.len() < first {
            break;
        }
    }
    n
}

/// Datagrams at the front that go one by one: up to where a row begins.
fn singles(datagrams: &[&[u8]], rows: bool) -> usize {
    let most = datagrams.len().min(BATCH);
    let mut n = 1;
    while rows && n < most {
        let row = row_at(&datagrams[n..]);
        if row >= ROW_LEAST {
            break;
        }
        n += row.max(1);
    }
    if rows { n.min(most) } else { most }
}

const FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT.union(MsgFlags::MSG_NOSIGNAL);

fn send_row(fd: RawFd, datagrams: &[&[u8]]) -> Result<usize, Errno> {
    let mut parts = [IoSlice::new(&[]); ROW_MOST];
    let mut bytes = 0;
    for (part, d) in parts.iter_mut().zip(datagrams) {
        *part = IoSlice::new(d);
        bytes += d.len();
    }
    // A row is at most 64 KiB, so one datagram's length fits.
    let size = datagrams.first().map_or(0, |d| d.len()) as u16;
    let control = [ControlMessage::UdpGsoSegments(&size)];
    let done = sendmsg::<()>(fd, &parts[..datagrams.len()], &control, FLAGS, None)?;
    // The kernel takes all or nothing.
    if done == bytes {
        Ok(datagrams.len())
    } else {
        Err(Errno::EIO)
    }
}

fn send_batch(fd: RawFd, datagrams: &[&[u8]]) -> Result<usize, Errno> {
    let parts: Vec<[IoSlice<'_>; 1]> = datagrams.iter().map(|d| [IoSlice::new(d)]).collect();
    let peers: Vec<Option<()>> = vec![None; datagrams.len()];
    // Made anew for each batch: it holds raw pointers and so may not lie in a value that moves between threads.
    let mut headers = MultiHeaders::<()>::preallocate(datagrams.len(), None);
    match sendmmsg(fd, &mut headers, &parts, &peers, [], FLAGS)?.count() {
        // The kernel never says so; were it to, this must not become a loop.
        0 => Err(Errno::EAGAIN),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn row(lengths: &[usize]) -> usize {
        let datagrams: Vec<Vec<u8>> = lengths.iter().map(|l| vec![0; *l]).collect();
        let slices: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
        row_at(&slices)
    }

    #[test]
    fn rows_end_with_a_shorter_datagram_or_before_a_longer_one() {
        assert_eq!(row(&[]), 0);
        assert_eq!(row(&[100]), 1);
        assert_eq!(row(&[100, 100, 100]), 3);
        assert_eq!(row(&[100, 100, 60, 60]), 3);
        assert_eq!(row(&[100, 100, 160, 100]), 2);
        assert_eq!(row(&[100; 100]), ROW_MOST);
        assert_eq!(row(&[8960; 20]), 7);
        assert_eq!(row(&[1396; 64]), 46);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn whatever_the_lengths_every_datagram_arrives_as_it_was(
            runs in proptest::collection::vec((1usize..1400, 1usize..40), 1..6)
        ) {
            let to = UdpSocket::bind("127.0.0.1:0").unwrap();
            to.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let from = UdpSocket::bind("127.0.0.1:0").unwrap();
            from.connect(to.local_addr().unwrap()).unwrap();
            let lengths = runs.iter().flat_map(|(len, n)| std::iter::repeat_n(*len, *n)).take(100);
            let datagrams: Vec<Vec<u8>> = (0u8..).zip(lengths).map(|(i, l)| vec![i; l]).collect();
            let slices: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
            let mut rows = true;
            let outcome = send_all(from.as_raw_fd(), &slices, &mut rows);
            prop_assert_eq!((outcome.sent, outcome.error, rows), (datagrams.len(), None, true));
            let mut buffer = [0; 2048];
            for want in &datagrams {
                let n = to.recv(&mut buffer).unwrap();
                prop_assert_eq!(&buffer[..n], &want[..]);
            }
        }
    }

    #[test]
    fn what_cannot_go_in_a_row_goes_one_by_one() {
        // The way carries 1,280 bytes: the kernel refuses to cut a row into pieces that it would have to fragment.
        let ns = parshall_linux::NetNs::anonymous().unwrap();
        let net = parshall_linux::Net::in_ns(&ns).unwrap();
        net.set_mtu("lo", 1280).unwrap();
        net.set_up("lo").unwrap();
        let (to, from) = ns
            .run(|| {
                let to = UdpSocket::bind("127.0.0.1:0").unwrap();
                let from = UdpSocket::bind("127.0.0.1:0").unwrap();
                (to, from)
            })
            .unwrap();
        to.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        from.connect(to.local_addr().unwrap()).unwrap();
        let datagrams: Vec<Vec<u8>> = (0..16).map(|i| vec![i; 1396]).collect();
        let slices: Vec<&[u8]> = datagrams.iter().map(Vec::as_slice).collect();
        let mut rows = true;
        let outcome = send_all(from.as_raw_fd(), &slices, &mut rows);
        assert_eq!((outcome.sent, outcome.error, rows), (16, None, false));
        let mut buffer = [0; 2048];
        for want in &datagrams {
            let n = to.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..n], &want[..]);
        }
    }
}
