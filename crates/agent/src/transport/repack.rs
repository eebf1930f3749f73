//! Smaller datagrams for a collector that takes no large ones.
//!
//! Samples go over whole and in their order, into datagrams with the head of the one they came in and numbers of their own:
//! a collector that is sent every datagram of this stream sees no gap (sFlow Version 5, section 5: the number belongs to
//! what the agent sends to one receiver).

/// Bytes of a head with an IPv4 and with an IPv6 address.
const HEAD: [usize; 2] = [28, 40];
/// Words at the end of a head: sequence number, uptime, number of samples.
const SEQUENCE: usize = 12;
const SAMPLES: usize = 4;

/// Takes datagrams apart and packs their samples anew.
pub struct Repacker {
    /// Most bytes.
    most: usize,
    /// Who sends, as in the head of the last datagram.
    sender: Vec<u8>,
    sequence: u32,
    packed: Vec<Vec<u8>>,
    /// Complete ones, from the front.
    full: usize,
    /// Samples in the open one.
    count: u32,
    too_large: usize,
}

impl Repacker {
    /// Datagrams stay below `max_datagram` bytes, as those of the agent stay below theirs.
    pub fn new(max_datagram: u32) -> Repacker {
        Repacker {
            most: (max_datagram.saturating_sub(1) & !3) as usize,
            sender: Vec::new(),
            sequence: 0,
            packed: Vec::new(),
            full: 0,
            count: 0,
            too_large: 0,
        }
    }

    /// Packs what is in `datagrams`. Says how many samples are too large to be sent.
    pub fn pack(&mut self, datagrams: &[&[u8]]) -> usize {
        (self.full, self.count, self.too_large) = (0, 0, 0);
        for d in datagrams {
            self.datagram(d);
        }
        self.close();
        self.too_large
    }

    /// What was packed last.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.packed.iter().take(self.full).map(Vec::as_slice)
    }

    fn datagram(&mut self, d: &[u8]) {
        let Some((head, mut rest)) = split_head(d) else {
            return;
        };
        let sender = &head[..head.len() - SEQUENCE];
        if sender != self.sender {
            self.close();
            self.sender = sender.to_vec();
            self.sequence = 0;
        }
        while let Some((sample, after)) = split_sample(rest) {
            self.sample(head, sample);
            rest = after;
        }
    }

    fn sample(&mut self, head: &[u8], sample: &[u8]) {
        if head.len() + sample.len() > self.most {
            self.too_large += 1;
            return;
        }
        let open = self.packed.get(self.full).map_or(0, Vec::len);
        if self.count > 0 && open + sample.len() > self.most {
            self.close();
        }
        if self.packed.len() == self.full {
            self.packed.push(Vec::with_capacity(self.most));
        }
        let open = &mut self.packed[self.full];
        if self.count == 0 {
            open.clear();
            open.extend_from_slice(head);
        }
        open.extend_from_slice(sample);
        self.count += 1;
    }

    /// Completes the open datagram.
    fn close(&mut self) {
        if self.count == 0 {
            return;
        }
        self.sequence = self.sequence.wrapping_add(1);
        let at = self.sender.len();
        if let Some(open) = self.packed.get_mut(self.full) {
            open[at..at + 4].copy_from_slice(&self.sequence.to_be_bytes());
            open[at + SEQUENCE - SAMPLES..at + SEQUENCE].copy_from_slice(&self.count.to_be_bytes());
        }
        self.full += 1;
        self.count = 0;
    }
}

/// The head of a datagram and its samples.
fn split_head(d: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = match d.get(4..8)? {
        [0, 0, 0, 1] => HEAD[0],
        [0, 0, 0, 2] => HEAD[1],
        _ => return None,
    };
    d.split_at_checked(length)
}

/// The first sample, with its tag and length, and what follows.
fn split_sample(d: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = d.get(4..8)?.try_into().ok().map(u32::from_be_bytes)?;
    let whole = usize::try_from(length).ok()?.checked_add(8)?;
    d.split_at_checked(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parshall_sflow_wire::{
        CounterRecord, CounterSampleHead, DataSource, Datagram, DatagramBuilder, SampleToSend,
    };
    use proptest::prelude::*;
    use std::net::IpAddr;

    /// Datagrams with samples of these sizes; their source tells them apart.
    fn built(agent: &str, most: usize, sizes: &[usize]) -> Vec<Vec<u8>> {
        let agent: IpAddr = agent.parse().unwrap();
        let (mut all, mut sequence) = (Vec::new(), 1);
        let mut b = DatagramBuilder::new(most);
        b.begin(agent, 5, sequence, 1000);
        for (i, size) in sizes.iter().enumerate() {
            let name = "x".repeat(*size);
            let record = CounterRecord::PortName(parshall_sflow_wire::record::PortName {
                name: parshall_sflow_wire::record::Text(name.as_bytes()),
            });
            let head = CounterSampleHead {
                sequence: i as u32 + 1,
                source: DataSource::interface(7),
            };
            let sample = SampleToSend::Counters(head, std::slice::from_ref(&record));
            if b.try_push(&sample).is_err() {
                all.push(b.finish().to_vec());
                sequence += 1;
                b.begin(agent, 5, sequence, 1000);
                b.try_push(&sample).unwrap();
            }
        }
        all.push(b.finish().to_vec());
        all
    }

    /// Sequence numbers of datagrams, and of the samples in them.
    fn numbers<'a>(datagrams: impl Iterator<Item = &'a [u8]>) -> (Vec<u32>, Vec<u32>) {
        let (mut ours, mut samples) = (Vec::new(), Vec::new());
        for d in datagrams {
            let datagram = Datagram::parse(d).unwrap();
            ours.push(datagram.sequence);
            assert_eq!((datagram.sub_agent_id, datagram.uptime_ms), (5, 1000));
            for s in datagram.samples() {
                match s.unwrap() {
                    parshall_sflow_wire::Sample::Counters(c) => samples.push(c.head.sequence),
                    other => panic!("{other:?}"),
                }
            }
        }
        (ours, samples)
    }

    proptest! {
        #[test]
        fn every_sample_arrives_once_in_order_in_datagrams_that_are_small_enough(
            sizes in proptest::collection::vec(1usize..255, 1..80),
            most in 600u32..1400,
            six in any::<bool>(),
        ) {
            let agent = if six { "2001:db8::1" } else { "192.0.2.1" };
            let large = built(agent, 1396, &sizes);
            let slices: Vec<&[u8]> = large.iter().map(Vec::as_slice).collect();
            let mut r = Repacker::new(most);
            prop_assert_eq!(r.pack(&slices), 0);
            prop_assert!(r.datagrams().all(|d| d.len() < most as usize));
            let (ours, samples) = numbers(r.datagrams());
            prop_assert_eq!(&samples, &(1..=sizes.len() as u32).collect::<Vec<_>>());
            let n = ours.len() as u32;
            prop_assert_eq!(ours, (1..=n).collect::<Vec<_>>());
            // The numbers go on with the next batch, and start again for another agent.
            r.pack(&slices[..1]);
            prop_assert_eq!(numbers(r.datagrams()).0[0], n + 1);
            let other = built("198.51.100.1", 1396, &[10]);
            r.pack(&[&other[0]]);
            prop_assert_eq!(numbers(r.datagrams()).0, vec![1]);
        }

        #[test]
        fn whatever_is_in_a_datagram_nothing_breaks(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut d = vec![0, 0, 0, 5, 0, 0, 0, 1];
            d.extend(bytes);
            let mut r = Repacker::new(600);
            r.pack(&[&d, &d[8..], &[]]);
            prop_assert!(r.datagrams().all(|d| d.len() < 600));
        }
    }

    #[test]
    fn samples_that_fit_in_none_are_counted() {
        let large = built("192.0.2.1", 1396, &[200, 100]);
        let mut r = Repacker::new(200);
        assert_eq!(r.pack(&[&large[0]]), 1);
        assert_eq!(numbers(r.datagrams()), (vec![1], vec![2]));
    }
}
