//! Fuzzes what a client of the `vppctl` socket sends: telnet is taken apart, the line is edited, and neither grows
//! beyond its bound nor says anything to the terminal that is not text or a sequence of its own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_cli::vppctl::{Editor, Event, Input, MAX_LINE, Telnet};

fuzz_target!(|data: &[u8]| {
    let (mut telnet, mut editor) = (Telnet::default(), Editor::default());
    for byte in data {
        match telnet.feed(*byte) {
            Some(Input::Byte(byte)) => {
                if let Event::Line(line) | Event::Complete(line) | Event::Help(line) =
                    editor.feed(byte)
                {
                    assert!(line.len() <= MAX_LINE);
                    assert!(line.chars().all(|c| (' '..='~').contains(&c)), "{line:?}");
                }
            }
            Some(Input::Terminal(name)) => assert!(name.len() <= 256),
            None => {}
        }
        let shown = editor.output();
        assert!(shown.iter().all(|b| b.is_ascii()));
    }
});
