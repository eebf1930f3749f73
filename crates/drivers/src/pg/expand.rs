//! Turns a template with its ranges into the frames a worker copies.
//!
//! All frames of a stream share most of their bytes. So one base frame is kept, and for each variant
//! only the *window*: the span of bytes that differ (a destination address and two checksums are 18
//! bytes). A worker copies the base and then the window over it. The window list is what is walked
//! sequentially, and being small it stays in the cache where whole frames would not.

use super::fields::{Edit, Fixup, Pseudo, Values};
use super::rng::SplitMix64;
use super::spec::{Size, SpecError, Template};

/// Random ranges repeat after this many draws (when [`max_variants`](super::StreamSpec::max_variants)
/// allows it).
const RANDOM_VARIANTS: u64 = 16_384;

/// Frames ready to be copied.
#[derive(Debug)]
pub(super) struct Frames {
    /// The longest frame, padded with zero bytes to a multiple of 64.
    pub base: Vec<u8>,
    /// Where the window starts.
    pub at: usize,
    /// Bytes of a window: 0 (all frames alike), 16, 32, 64 or a larger multiple of 16.
    pub width: usize,
    /// The windows, one behind the other.
    pub windows: Vec<u8>,
    /// Different frames.
    pub count: usize,
    /// Whether the ranges would have needed more.
    pub truncated: bool,
    size: Size,
    sizes: Vec<u16>,
}

impl Frames {
    /// Makes all variants. `mac` is the interface's address.
    ///
    /// # Errors
    /// When the template contradicts itself (see [`Template`]).
    pub fn new(
        template: &Template,
        seed: u64,
        max_variants: usize,
        mac: [u8; 6],
    ) -> Result<Frames, SpecError> {
        let (count, truncated) = variants(template, max_variants);
        let headers = template.header_bytes();
        let mut maker = Maker::new(template, seed, mac, headers);
        let (at, width) = window(template, count, maker.base.len());
        let sizes_vary = count > 1 && template.size.min < template.size.max;
        let mut frames = Frames {
            base: Vec::new(),
            at,
            width,
            windows: Vec::with_capacity(count * width),
            count,
            truncated,
            size: template.size,
            sizes: Vec::with_capacity(if sizes_vary { count } else { 0 }),
        };
        for i in 0..count {
            let len = maker.make(i as u64);
            if i == 0 {
                frames.base.clone_from(&maker.base);
                frames.base[..maker.head.len()].copy_from_slice(&maker.head);
            }
            if sizes_vary {
                // Lengths are at most MAX_FRAME, which is u16::MAX.
                frames.sizes.push(len as u16);
            }
            frames
                .windows
                .extend_from_slice(&maker.head[at..at + width]);
        }
        Ok(frames)
    }

    /// Length of variant `i` in bytes.
    #[inline]
    pub fn len(&self, i: usize) -> usize {
        self.sizes.get(i).map_or(self.size.min, |&n| usize::from(n))
    }

    /// The one length of all variants, if there is one.
    #[inline]
    pub fn fixed_len(&self) -> Option<usize> {
        self.sizes.is_empty().then_some(self.size.min)
    }

    /// The window of variant `i`.
    #[inline]
    pub fn window(&self, i: usize) -> &[u8] {
        self.windows
            .get(i * self.width..(i + 1) * self.width)
            .unwrap_or(&[])
    }
}

/// How many different frames there are, and whether that is fewer than the ranges ask for.
fn variants(t: &Template, max: usize) -> (usize, bool) {
    let max = max as u64;
    let mut all = 1u64;
    let mut random = t.size.random && t.size.min < t.size.max;
    if !t.size.random {
        all = lcm(all, (t.size.max - t.size.min) as u64 + 1);
    }
    for edit in &t.edits {
        match &edit.values {
            Values::Increment { first, last } => {
                all = lcm(
                    all,
                    u64::try_from(last - first)
                        .unwrap_or(u64::MAX)
                        .saturating_add(1),
                );
            }
            Values::List(list) => all = lcm(all, list.len() as u64),
            Values::Random { first, last } => random |= first != last,
        }
    }
    if random {
        // Whole rounds of what increments, so that the end joins the start.
        all = all.saturating_mul(RANDOM_VARIANTS.div_ceil(all));
    }
    (all.min(max) as usize, all > max)
}

fn lcm(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// The span of bytes that differ between variants, widened to what is quick to copy.
fn window(t: &Template, count: usize, room: usize) -> (usize, usize) {
    if count <= 1 {
        return (0, 0);
    }
    let sized = t.size.min < t.size.max;
    let edits = t.edits.iter().map(|e| (e.at, e.bytes));
    let fixups = t
        .fixups
        .iter()
        .filter(|f| sized || !f.is_length())
        .map(Fixup::field);
    let spans: Vec<(usize, usize)> = edits.chain(fixups).collect();
    let low = spans.iter().map(|s| s.0).min().unwrap_or(0);
    let high = spans.iter().map(|s| s.0 + s.1).max().unwrap_or(0);
    if low >= high {
        return (0, 0);
    }
    let width = match high - low {
        0..=16 => 16,
        17..=32 => 32,
        33..=64 => 64,
        n => n.next_multiple_of(16),
    };
    // Inside the first 64 bytes where the fields are: then a short frame is one fixed-size copy.
    let room = if high <= 64 { 64 } else { room };
    (low.min(room.saturating_sub(width)), width)
}

/// Makes one variant after the other in `head`, the first bytes of the frame.
struct Maker<'t> {
    template: &'t Template,
    rng: SplitMix64,
    base: Vec<u8>,
    head: Vec<u8>,
    /// For each fixup that needs it: sums of the 16-bit words behind the headers.
    tails: Vec<Tail>,
}

/// Running sums of the 16-bit words of the base frame from `from` on: `sums[k]` is that of the first
/// `k` words. It makes the checksum of each variant cost only its headers.
struct Tail {
    from: usize,
    sums: Vec<u64>,
}

impl<'t> Maker<'t> {
    fn new(template: &'t Template, seed: u64, mac: [u8; 6], headers: usize) -> Maker<'t> {
        let mut base = template.bytes.clone();
        base.truncate(template.size.max);
        if template.to_interface {
            base[..6].copy_from_slice(&mac);
        }
        let tails = template
            .fixups
            .iter()
            .map(|f| Tail::of(f, &base, headers))
            .collect();
        base.resize(base.len().next_multiple_of(64), 0);
        // A window is at most as wide as the headers rounded up, and lies in the first 64 bytes when
        // they do; `head` must hold it.
        let head = base[..(headers + 64).next_multiple_of(64).min(base.len())].to_vec();
        Maker {
            template,
            rng: SplitMix64::new(seed),
            base,
            head,
            tails,
        }
    }

    /// Makes variant `i` in `head` and says how long its frame is.
    fn make(&mut self, i: u64) -> usize {
        let template = self.template;
        let size = template.size;
        let span = (size.max - size.min) as u64 + 1;
        let len = size.min
            + if size.random {
                self.rng.below(u128::from(span)) as usize
            } else {
                (i % span) as usize
            };
        for edit in &template.edits {
            let value = match &edit.values {
                Values::Increment { first, last } => match (last - first).checked_add(1) {
                    Some(span) => first + u128::from(i) % span,
                    None => u128::from(i),
                },
                Values::List(list) => list[(i % list.len() as u64) as usize],
                Values::Random { first, last } => {
                    first + self.rng.below((last - first).saturating_add(1))
                }
            };
            put(&mut self.head, edit, value);
        }
        for (fixup, tail) in template.fixups.iter().zip(&self.tails) {
            fix(&mut self.head, &self.base, fixup, len, tail);
        }
        len
    }
}

/// Writes a field's value into the bytes around it.
fn put(head: &mut [u8], edit: &Edit, value: u128) {
    let field = &mut head[edit.at..edit.at + edit.bytes];
    let old = field.iter().fold(0u128, |n, &b| n << 8 | u128::from(b));
    let mask = if edit.bits >= 128 {
        u128::MAX
    } else {
        ((1u128 << edit.bits) - 1) << edit.shift
    };
    let new = (old & !mask) | (value << edit.shift & mask);
    field.copy_from_slice(&new.to_be_bytes()[16 - edit.bytes..]);
}

/// Sets a length or a checksum in the headers of a frame `len` bytes long.
fn fix(head: &mut [u8], base: &[u8], fixup: &Fixup, len: usize, tail: &Tail) {
    let value = match *fixup {
        Fixup::Ipv4Length { ip } => (len - ip) as u16,
        Fixup::Ipv6Length { ip } => (len - ip - 40) as u16,
        Fixup::UdpLength { udp } => (len - udp) as u16,
        Fixup::Ipv4Checksum { ip, len } => {
            head[ip + 10..ip + 12].fill(0);
            fold(words(&head[ip..ip + len]))
        }
        Fixup::Checksum {
            at,
            field,
            end,
            pseudo,
        } => {
            head[at + field..at + field + 2].fill(0);
            let end = end.map_or(len, |e| e.min(len));
            let sum = fold(pseudo_sum(head, pseudo, end - at) + tail.sum(head, base, at, end));
            // RFC 768: a UDP checksum that comes out as zero is sent as all ones.
            let udp = matches!(pseudo, Pseudo::V4(_, 17) | Pseudo::V6(_, 17));
            if udp && sum == 0 { 0xffff } else { sum }
        }
    };
    let (at, _) = fixup.field();
    head[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn pseudo_sum(head: &[u8], pseudo: Pseudo, len: usize) -> u64 {
    let (addresses, protocol) = match pseudo {
        Pseudo::None => return 0,
        Pseudo::V4(ip, protocol) => (&head[ip + 12..ip + 20], protocol),
        Pseudo::V6(ip, protocol) => (&head[ip + 8..ip + 40], protocol),
    };
    words(addresses) + u64::from(protocol) + len as u64
}

/// Sum of the big-endian 16-bit words; an odd last byte counts as the high half (RFC 1071).
fn words(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let odd = rest.first().map_or(0, |&b| u64::from(b) << 8);
    pairs
        .iter()
        .map(|&p| u64::from(u16::from_be_bytes(p)))
        .sum::<u64>()
        + odd
}

/// One's complement of the folded sum.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Tail {
    fn of(fixup: &Fixup, base: &[u8], headers: usize) -> Tail {
        let Fixup::Checksum { at, .. } = *fixup else {
            return Tail {
                from: 0,
                sums: Vec::new(),
            };
        };
        // Whole words from the transport header on, so that the sums line up.
        let from = at + (headers - at).next_multiple_of(2);
        let mut sums = vec![0];
        let mut sum = 0;
        for pair in base.get(from..).unwrap_or(&[]).chunks_exact(2) {
            sum += words(pair);
            sums.push(sum);
        }
        Tail { from, sums }
    }

    /// Sum of the words from `at` to `end`: headers as they are in `head`, the rest by table.
    fn sum(&self, head: &[u8], base: &[u8], at: usize, end: usize) -> u64 {
        if end <= self.from {
            return words(&head[at..end]);
        }
        let pairs = (end - self.from) / 2;
        let odd_at = self.from + pairs * 2;
        let odd = if odd_at < end {
            u64::from(base[odd_at]) << 8
        } else {
            0
        };
        words(&head[at..self.from]) + self.sums.get(pairs).copied().unwrap_or(0) + odd
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::samples::{internet_sum, tcp6_frame, udp4_frame};
    use crate::pg::{Field, Source, StreamSpec};
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn frames(spec: &StreamSpec) -> Frames {
        let Source::Generate(t) = &spec.source else {
            panic!("generated")
        };
        Frames::new(t, spec.seed, spec.max_variants, [2; 6]).unwrap()
    }
    fn frame(f: &Frames, i: usize) -> Vec<u8> {
        let mut bytes = f.base.clone();
        bytes[f.at..f.at + f.width].copy_from_slice(f.window(i));
        bytes.truncate(f.len(i));
        bytes
    }

    #[test]
    fn addresses_ports_and_sizes_vary_together_with_valid_checksums() {
        let spec = StreamSpec::from_frame("s", &udp4_frame(200))
            .unwrap()
            .vary(
                Field::Ip4Destination,
                Ipv4Addr::new(10, 0, 0, 254)..=Ipv4Addr::new(10, 0, 1, 1),
            )
            .unwrap()
            .vary(Field::SourcePort, Values::from(1000u16..=1002).random())
            .unwrap()
            .sized(Size {
                min: 64,
                max: 67,
                random: false,
            })
            .unwrap();
        let f = frames(&spec);
        assert_eq!((f.count, f.truncated), (16_384, false));
        for i in 0..100 {
            let b = frame(&f, i);
            assert_eq!(b.len(), 64 + i % 4);
            assert_eq!(
                usize::from(u16::from_be_bytes([b[16], b[17]])),
                b.len() - 14
            );
            assert_eq!(
                usize::from(u16::from_be_bytes([b[38], b[39]])),
                b.len() - 34
            );
            assert_eq!(
                internet_sum(&b[14..34], 0),
                0xffff,
                "IPv4 header, frame {i}"
            );
            let pseudo = 17 + (b.len() - 34) as u32;
            assert_eq!(internet_sum(&b[26..], pseudo), 0xffff, "UDP, frame {i}");
            let last = u32::from_be_bytes([b[30], b[31], b[32], b[33]]);
            assert_eq!(last, u32::from(Ipv4Addr::new(10, 0, 0, 254)) + i as u32 % 4);
            assert!((1000..=1002).contains(&u16::from_be_bytes([b[34], b[35]])));
        }
    }

    #[test]
    fn ipv6_lists_keep_tcp_checksums() {
        let to: Vec<Ipv6Addr> = (0..7)
            .map(|i| Ipv6Addr::new(0x2001, 0xdb8, i * 77, 0, 0, 0, 0, i))
            .collect();
        let spec = StreamSpec::from_frame("s", &tcp6_frame(101))
            .unwrap()
            .vary(Field::Ip6Destination, Values::list(to.iter().copied()))
            .unwrap()
            .vary(
                Field::EthDestination,
                [2, 0, 0, 0, 0, 1]..=[2, 0, 0, 0, 0, 3],
            )
            .unwrap();
        let f = frames(&spec);
        assert_eq!(f.count, 21);
        for i in 0..21 {
            let b = frame(&f, i);
            assert_eq!(b[38..54], to[i % 7].octets());
            assert_eq!(b[5] as usize, 1 + i % 3);
            assert_eq!(internet_sum(&b[22..], 6 + (b.len() - 54) as u32), 0xffff);
        }
    }

    #[test]
    fn the_seed_decides_and_the_bound_holds() {
        let spec = |seed| {
            let base = StreamSpec::from_frame("s", &udp4_frame(64)).unwrap();
            let any = Values::from(0u32..=u32::MAX).random();
            StreamSpec {
                seed,
                max_variants: 500,
                ..base.vary(Field::Ip4Source, any).unwrap()
            }
        };
        let (a, b, c) = (frames(&spec(1)), frames(&spec(1)), frames(&spec(2)));
        assert_eq!(a.windows, b.windows);
        assert_ne!(a.windows, c.windows);
        assert_eq!((a.count, a.truncated, a.width), (500, true, 32));
    }

    #[test]
    fn bit_fields_leave_their_neighbours_alone() {
        let mut head = [0xff; 6];
        let edit = Edit {
            at: 1,
            bytes: 4,
            shift: 12,
            bits: 20,
            values: Values::List(vec![0]),
        };
        put(&mut head, &edit, 0x12345);
        assert_eq!(head, [0xff, 0x12, 0x34, 0x5f, 0xff, 0xff]);
        let whole = Edit {
            at: 0,
            bytes: 2,
            shift: 0,
            bits: 16,
            values: Values::List(vec![0]),
        };
        put(&mut head, &whole, 0xabcd);
        assert_eq!(head[..3], [0xab, 0xcd, 0x34]);
    }

    #[test]
    fn periods_join() {
        assert_eq!(lcm(4, 6), 12);
        assert_eq!(lcm(1, 250), 250);
        assert_eq!(lcm(u64::MAX, 2), u64::MAX);
    }
}
