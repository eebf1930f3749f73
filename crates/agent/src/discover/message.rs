//! DNS messages: questions out, answers in (RFC 1035 section 4, RFC 2782 for SRV, RFC 3596 for AAAA).
//!
//! Only what discovery asks for is read: SRV, TXT, A and AAAA records of class IN. Answers come from whoever can reach our
//! port: every length is checked, a compressed name goes strictly backwards, and what a message can make us keep is bounded
//! by its own size.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a header.
const HEADER: usize = 12;
/// Longest name, in the bytes of the wire.
const MAX_NAME: usize = 255;
/// Longest label.
const MAX_LABEL: usize = 63;
/// The class of the Internet.
const IN: u16 = 1;
/// The largest time to live (RFC 2181 section 8); what is above counts as 0.
const MAX_TTL: u32 = i32::MAX as u32;
/// Records looked at. More than fit into any answer that makes sense.
const MAX_RECORDS: usize = 1024;

/// A type of record that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// IPv4 address.
    A,
    /// IPv6 address.
    Aaaa,
    /// Where a service is.
    Srv,
    /// Text.
    Txt,
}

impl RecordType {
    const fn number(self) -> u16 {
        match self {
            RecordType::A => 1,
            RecordType::Txt => 16,
            RecordType::Aaaa => 28,
            RecordType::Srv => 33,
        }
    }
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// An address.
    Address(IpAddr),
    /// Where a service is.
    Srv {
        /// Less is better.
        priority: u16,
        /// Share among those of one priority.
        weight: u16,
        /// Port.
        port: u16,
        /// Host; empty = there is no such service.
        target: String,
    },
    /// Strings.
    Txt(Vec<Vec<u8>>),
}

/// A record of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose it is, in lower case, without the last dot.
    pub name: String,
    /// How long it may be kept, in seconds.
    pub ttl: u32,
    /// What it says.
    pub data: Data,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// It was cut off: ask again over TCP.
    pub truncated: bool,
    /// The name does not exist (RFC 1035 section 4.1.1, code 3).
    pub no_such_name: bool,
    /// Records of the type asked for.
    pub records: Vec<Record>,
    /// Addresses that the server gave along.
    pub additional: Vec<Record>,
}

/// Why a message is not the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It ends too early, or a name in it is none.
    #[error("the answer is broken")]
    Broken,
    /// It answers something else.
    #[error("the answer is to another question")]
    NotOurs,
    /// The server could or would not answer.
    #[error("the name server answered \"{}\"", code_words(*.0))]
    Refused(u8),
}

fn code_words(code: u8) -> &'static str {
    match code {
        1 => "format error",
        2 => "server failure",
        4 => "not implemented",
        5 => "refused",
        _ => "error",
    }
}

/// A question for records of one type of a name, with recursion desired. `None` when the name cannot be asked for.
pub fn question(id: u16, name: &str, of: RecordType) -> Option<Vec<u8>> {
    let mut m = Vec::with_capacity(HEADER + MAX_NAME + 4);
    m.extend_from_slice(&id.to_be_bytes());
    // Recursion desired; one question.
    m.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        let length = u8::try_from(label.len()).ok()?;
        if length == 0 || label.len() > MAX_LABEL {
            return None;
        }
        m.push(length);
        m.extend_from_slice(label.as_bytes());
    }
    m.push(0);
    if m.len() - HEADER > MAX_NAME {
        return None;
    }
    m.extend_from_slice(&of.number().to_be_bytes());
    m.extend_from_slice(&IN.to_be_bytes());
    Some(m)
}

/// Reads the answer to the question that `question(id, name, of)` made.
///
/// # Errors
/// When it is none.
pub fn answer(m: &[u8], id: u16, name: &str, of: RecordType) -> Result<Answer, MessageError> {
    let mut r = Reader { m, at: 0 };
    let (got, flags) = (r.u16()?, r.u16()?);
    let [questions, answers, authorities, additionals] = [r.u16()?, r.u16()?, r.u16()?, r.u16()?];
    let is_response = flags & 0x8000 != 0 && flags & 0x7800 == 0;
    if got != id || !is_response || questions != 1 {
        return Err(MessageError::NotOurs);
    }
    let asked = (r.name()?, r.u16()?, r.u16()?);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    if asked != (name, of.number(), IN) {
        return Err(MessageError::NotOurs);
    }
    let code = (flags & 0x000f) as u8;
    let mut found = Answer {
        truncated: flags & 0x0200 != 0,
        no_such_name: code == 3,
        ..Answer::default()
    };
    if !matches!(code, 0 | 3) {
        return Err(MessageError::Refused(code));
    }
    if found.truncated {
        // Whatever is there is not all.
        return Ok(found);
    }
    let mut looked_at = 0;
    for (section, count) in [(0, answers), (1, authorities), (2, additionals)] {
        for _ in 0..count {
            looked_at += 1;
            if looked_at > MAX_RECORDS {
                return Err(MessageError::Broken);
            }
            let Some((kind, record)) = r.record()? else {
                continue;
            };
            match section {
                0 if kind == of.number() => found.records.push(record),
                2 if matches!(record.data, Data::Address(_)) => found.additional.push(record),
                _ => {}
            }
        }
    }
    Ok(found)
}

struct Reader<'a> {
    m: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], MessageError> {
        let end = self.at.checked_add(n).ok_or(MessageError::Broken)?;
        let bytes = self.m.get(self.at..end).ok_or(MessageError::Broken)?;
        self.at = end;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, MessageError> {
        let b = self.take(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from(self.u16()?) << 16 | u32::from(self.u16()?))
    }

    /// A name, in lower case, its labels joined by dots. What is not a printable character of a name is written as `?`: no
    /// such name is looked up, and it can be shown.
    fn name(&mut self) -> Result<String, MessageError> {
        let mut text = String::new();
        let (mut at, mut end, mut bytes) = (self.at, None, 1);
        loop {
            let length = *self.m.get(at).ok_or(MessageError::Broken)?;
            match length {
                0 => {
                    self.at = end.unwrap_or(at + 1);
                    return Ok(text);
                }
                1..=63 => {
                    let label = self.m.get(at + 1..at + 1 + usize::from(length));
                    let label = label.ok_or(MessageError::Broken)?;
                    bytes += label.len() + 1;
                    if bytes > MAX_NAME {
                        return Err(MessageError::Broken);
                    }
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.extend(label.iter().map(|b| shown(*b)));
                    at += 1 + label.len();
                }
                192.. => {
                    let low = *self.m.get(at + 1).ok_or(MessageError::Broken)?;
                    let to = usize::from(length & 0x3f) << 8 | usize::from(low);
                    end.get_or_insert(at + 2);
                    // Strictly backwards, so it comes to an end.
                    if to >= at {
                        return Err(MessageError::Broken);
                    }
                    at = to;
                }
                _ => return Err(MessageError::Broken),
            }
        }
    }

    /// A record and its type; `None` when it is of no type that is read here.
    fn record(&mut self) -> Result<Option<(u16, Record)>, MessageError> {
        let name = self.name()?;
        let (kind, class, ttl) = (self.u16()?, self.u16()?, self.u32()?);
        let length = usize::from(self.u16()?);
        let start = self.at;
        let body = self.take(length)?;
        if class != IN {
            return Ok(None);
        }
        let after = self.at;
        let data = match (kind, body) {
            (1, [a, b, c, d]) => Data::Address(Ipv4Addr::new(*a, *b, *c, *d).into()),
            (28, body) => {
                let a: [u8; 16] = body.try_into().map_err(|_| MessageError::Broken)?;
                Data::Address(Ipv6Addr::from(a).into())
            }
            (33, _) => self.srv(start, after)?,
            (16, body) => Data::Txt(strings(body)?),
            (1, _) => return Err(MessageError::Broken),
            _ => return Ok(None),
        };
        self.at = after;
        let ttl = if ttl > MAX_TTL { 0 } else { ttl };
        Ok(Some((kind, Record { name, ttl, data })))
    }

    fn srv(&mut self, start: usize, after: usize) -> Result<Data, MessageError> {
        self.at = start;
        let (priority, weight, port) = (self.u16()?, self.u16()?, self.u16()?);
        let target = self.name()?;
        if self.at != after {
            return Err(MessageError::Broken);
        }
        Ok(Data::Srv {
            priority,
            weight,
            port,
            target,
        })
    }
}

/// The strings of a TXT record (RFC 1035 section 3.3.14).
fn strings(mut body: &[u8]) -> Result<Vec<Vec<u8>>, MessageError> {
    let mut all = Vec::new();
    while let Some((length, rest)) = body.split_first() {
        let (text, rest) = rest
            .split_at_checked(usize::from(*length))
            .ok_or(MessageError::Broken)?;
        all.push(text.to_vec());
        body = rest;
    }
    Ok(all)
}

fn shown(b: u8) -> char {
    match b {
        b'A'..=b'Z' => char::from(b.to_ascii_lowercase()),
        b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => char::from(b),
        _ => '?',
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAME: &str = "_sflow._udp.example.net";

    /// Header of an answer to `question(7, NAME, SRV)` with that many records in it, and the question.
    fn head(flags: u16, answers: u16, additionals: u16) -> Vec<u8> {
        let mut m = question(7, NAME, RecordType::Srv).unwrap();
        m[2..4].copy_from_slice(&flags.to_be_bytes());
        m[6..8].copy_from_slice(&answers.to_be_bytes());
        m[10..12].copy_from_slice(&additionals.to_be_bytes());
        m
    }

    fn record(name: &[u8], kind: u16, ttl: u32, body: &[u8]) -> Vec<u8> {
        let mut r = name.to_vec();
        r.extend(kind.to_be_bytes());
        r.extend([0, 1]);
        r.extend(ttl.to_be_bytes());
        r.extend((body.len() as u16).to_be_bytes());
        r.extend(body);
        r
    }

    /// The name of the question, compressed.
    const ASKED: &[u8] = &[0xc0, 12];

    /// An answer with a service on c1.example.net, whose last two labels are those of the question, and its address.
    fn good() -> Vec<u8> {
        let mut m = head(0x8180, 1, 1);
        // "_sflow" and "_udp" are 7 and 5 bytes; "example.net" follows.
        let body = [
            &[0, 10, 0, 5, 0x18, 0xc7, 2, b'C', b'1'][..],
            &[0xc0, 12 + 12],
        ]
        .concat();
        let at = m.len() as u16;
        m.extend(record(ASKED, 33, 300, &body));
        let target = (0xc000 | (at + 12 + 6)).to_be_bytes();
        m.extend(record(&target, 1, 60, &[192, 0, 2, 9]));
        m
    }

    fn read(m: &[u8]) -> Result<Answer, MessageError> {
        answer(m, 7, NAME, RecordType::Srv)
    }

    #[test]
    fn a_question_is_as_the_rfc_has_it() {
        let m = question(0x1234, "a.bc.", RecordType::Txt).unwrap();
        let want =
            b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x02bc\x00\x00\x10\x00\x01";
        assert_eq!(m, want);
        let long = "a".repeat(64);
        for name in ["", ".", "a..b", &long, &format!("{}b", "a.".repeat(127))] {
            assert_eq!(question(1, name, RecordType::A), None, "{name}");
        }
        assert!(question(1, &format!("{}b", "a.".repeat(126)), RecordType::A).is_some());
    }

    #[test]
    fn services_and_addresses_are_read_through_compressed_names() {
        let got = read(&good()).unwrap();
        let srv = Data::Srv {
            priority: 10,
            weight: 5,
            port: 6343,
            target: "c1.example.net".into(),
        };
        let want = Record {
            name: NAME.into(),
            ttl: 300,
            data: srv,
        };
        assert_eq!(got.records, [want]);
        let address = Record {
            name: "c1.example.net".into(),
            ttl: 60,
            data: Data::Address("192.0.2.9".parse().unwrap()),
        };
        assert_eq!(got.additional, [address]);
        assert!(!got.truncated && !got.no_such_name);
    }

    #[test]
    fn texts_and_both_kinds_of_addresses_are_read() {
        let ask = |of: RecordType, kind: u16, body: &[u8]| {
            let mut m = question(7, NAME, of).unwrap();
            m[2] = 0x81;
            m[7] = 1;
            m.extend(record(ASKED, kind, u32::MAX, body));
            answer(&m, 7, NAME, of).map(|a| a.records)
        };
        let got = ask(RecordType::Txt, 16, b"\x09txtvers=1\x00\x03a=b").unwrap();
        assert_eq!(
            got[0].data,
            Data::Txt(vec![b"txtvers=1".to_vec(), vec![], b"a=b".to_vec()])
        );
        // A time to live with the top bit set counts as none.
        assert_eq!(got[0].ttl, 0);
        let six = "2001:db8::1".parse::<Ipv6Addr>().unwrap();
        let got = ask(RecordType::Aaaa, 28, &six.octets()).unwrap();
        assert_eq!(got[0].data, Data::Address(six.into()));
        // What was not asked for is passed over.
        assert_eq!(ask(RecordType::Srv, 5, &[0]).unwrap(), []);
        assert_eq!(
            ask(RecordType::Txt, 16, b"\x09txt"),
            Err(MessageError::Broken)
        );
        assert_eq!(ask(RecordType::A, 1, &[1, 2, 3]), Err(MessageError::Broken));
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_refused() {
        let m = good();
        assert_eq!(
            answer(&m, 8, NAME, RecordType::Srv),
            Err(MessageError::NotOurs)
        );
        assert_eq!(
            answer(&m, 7, NAME, RecordType::Txt),
            Err(MessageError::NotOurs)
        );
        assert_eq!(
            answer(&m, 7, "example.net", RecordType::Srv),
            Err(MessageError::NotOurs)
        );
        assert_eq!(read(&head(0x0100, 0, 0)), Err(MessageError::NotOurs));
        assert_eq!(read(&head(0x8182, 0, 0)), Err(MessageError::Refused(2)));
        assert!(read(&head(0x8183, 0, 0)).unwrap().no_such_name);
        assert!(read(&head(0x8380, 9, 0)).unwrap().truncated);
        assert_eq!(read(&head(0x8180, 1, 0)), Err(MessageError::Broken));
        // A name that points at itself, and one that points forwards.
        for pointer in [[0xc0, 0xff], [0xc0, NAME.len() as u8 + 2 + 4 + 12]] {
            let mut m = head(0x8180, 1, 0);
            m.extend(record(&pointer, 33, 1, &[]));
            assert_eq!(read(&m), Err(MessageError::Broken));
        }
    }

    proptest! {
        #[test]
        fn cut_off_answers_are_broken_and_nothing_else(n in 0usize..100) {
            let m = good();
            prop_assume!(n < m.len());
            prop_assert_eq!(read(&m[..n]).is_ok(), false);
        }

        #[test]
        fn changed_answers_do_no_harm(edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
            let mut m = good();
            for (at, byte) in edits {
                let at = at.index(m.len());
                m[at] = byte;
            }
            if let Ok(a) = read(&m) {
                for r in a.records.iter().chain(&a.additional) {
                    prop_assert!(r.name.len() <= 255 && r.name.is_ascii());
                }
            }
        }
    }
}
