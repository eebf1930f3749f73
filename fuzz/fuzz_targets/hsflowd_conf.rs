//! Fuzzes the reader of hsflowd.conf: whatever the text, there are settings or errors, each with a line of the text; settings
//! are a good section of a configuration file, with as many commands.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parshall_config::hsflowd::import;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let lines = text.lines().count();
    match import(text) {
        Ok(got) => {
            assert!(got.notes.iter().all(|n| n.line <= lines));
            let yaml = got.yaml();
            let plan = parshall_config::parse(&yaml, "r.yaml").unwrap_or_else(|e| panic!("{e}\n{yaml}"));
            assert_eq!(plan.commands.len(), got.commands().count(), "{yaml}");
        }
        Err(all) => {
            assert!(!all.is_empty());
            for e in all {
                assert!(e.line <= lines);
                assert!(!e.to_string().chars().any(char::is_control), "{e}");
            }
        }
    }
});
