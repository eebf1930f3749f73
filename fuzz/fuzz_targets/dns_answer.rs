//! Fuzzes answers of name servers: what is read is bounded by the message, and names are of letters that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_agent::discover::message::{Data, RecordType, answer, question};

const NAME: &str = "_sflow._udp.example.net";

fuzz_target!(|data: &[u8]| {
    let Some((kind, rest)) = data.split_first() else {
        return;
    };
    let of = [RecordType::Srv, RecordType::Txt, RecordType::A, RecordType::Aaaa][usize::from(kind % 4)];
    // With the right question in front most inputs get as far as the records.
    let mut m = question(7, NAME, of).unwrap();
    let whole = kind & 0x80 != 0;
    if whole {
        m = rest.to_vec();
    } else {
        m[2..4].copy_from_slice(&[0x81, 0x80]);
        m[6..12].copy_from_slice(&[0, kind >> 2 & 7, 0, 1, 0, kind >> 5 & 3]);
        m.extend_from_slice(rest);
    }
    let Ok(found) = answer(&m, 7, NAME, of) else {
        return;
    };
    let all = found.records.iter().chain(&found.additional);
    let mut bytes = 0;
    for r in all {
        assert!(r.name.len() <= 255 && shows(&r.name), "{}", r.name);
        match &r.data {
            Data::Srv { target, .. } => assert!(target.len() <= 255 && shows(target)),
            Data::Txt(strings) => bytes += strings.iter().map(|s| s.len() + 1).sum::<usize>(),
            Data::Address(_) => {}
        }
    }
    assert!(bytes <= m.len());
});

fn shows(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.?".contains(&b))
}
