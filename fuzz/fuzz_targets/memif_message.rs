//! Fuzzes control messages of memif: what parses must encode to a message that parses to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_drivers::memif::message::{MESSAGE_LEN, Message};

fuzz_target!(|data: &[u8]| {
    // Short inputs stand for messages whose rest is zero; only a whole one is ever read.
    let mut bytes = data.to_vec();
    let whole = bytes.len() <= MESSAGE_LEN;
    if whole {
        bytes.resize(MESSAGE_LEN, 0);
    }
    let Ok(message) = Message::parse(&bytes) else {
        return;
    };
    assert!(whole, "a message of {} bytes was taken", data.len());
    let again = message.encode();
    assert_eq!(Message::parse(&again), Ok(message));
    // What is said of it goes to logs: visible ASCII and nothing else.
    let said = match message {
        Message::Hello(h) => h.name.to_string(),
        Message::Init(i) => format!("{}{}", i.name, i.secret),
        Message::Connect(name) | Message::Connected(name) => name.to_string(),
        Message::Disconnect { reason, .. } => reason.to_string(),
        _ => message.name().to_owned(),
    };
    assert!(said.bytes().all(|b| (b' '..=b'~').contains(&b)));
});
