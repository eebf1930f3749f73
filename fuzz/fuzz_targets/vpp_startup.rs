//! Fuzzes VPP's start-up configuration: whatever the text, there is something to start with or an error in a line of
//! the text, without control characters.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_config::startup::Startup;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match Startup::parse(text) {
        Ok(s) => {
            assert!((1..=64).contains(&s.engine.workers));
            assert!(s.engine.cpus.is_empty() || s.engine.cpus.len() == s.engine.workers);
            assert!((1024..=4 << 20).contains(&s.engine.buffers));
        }
        Err(e) => {
            assert!((1..=text.lines().count().max(1)).contains(&e.line), "{e}");
            assert!(!e.to_string().chars().any(char::is_control), "{e}");
        }
    }
});
