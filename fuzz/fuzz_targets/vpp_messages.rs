//! Fuzzes the stream of a binary API client: frames in pieces, and what they hold. A message that is understood must encode to
//! bytes that are understood as the same message.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_vpp_wire::{Frames, Header, Lead, Reader, again, frame, message};

fuzz_target!(|data: &[u8]| {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    // As a socket gives it: in pieces.
    let mut frames = Frames::new(4096);
    for piece in stream.chunks(usize::from(*cut).max(1)) {
        frames.push(piece);
        loop {
            match frames.next_message() {
                Ok(Some(bytes)) => understand(bytes),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(frames.waiting() <= 4096 + 16 + piece.len());
    }
    // And without the frame, so that mutations reach the messages soon.
    understand(stream);
});

fn understand(bytes: &[u8]) {
    let Some((id, rest)) = bytes.split_first_chunk::<2>() else {
        return;
    };
    let id = u16::from_be_bytes(*id);
    let Some(info) = message(id) else { return };
    let mut r = Reader::new(rest);
    if Lead::get(info.header, &mut r).is_err() {
        return;
    }
    let lead = 4 * Header::fields(info.header).len();
    if let Some(Ok(first)) = again(id, &rest[lead..]) {
        assert!(first.len() >= info.least);
        assert_eq!(again(id, &first), Some(Ok(first.clone())), "{}", info.name);
        assert_eq!(frame(&first).len(), 16 + first.len());
    }
}
