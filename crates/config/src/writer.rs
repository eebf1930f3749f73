//! Plain data as YAML text that reads back to the same data: blocks for what is large, one line for what is small.

use std::fmt::Write;

use serde_json::Value;

/// Longest value that is written on one line.
const LINE: usize = 100;
/// Words that a reader may take for something else than text.
const KEYWORDS: &[&str] = &[
    "true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf",
];

/// `value` as a document.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(&mut out, value, 0),
        _ => {}
    }
    out
}

fn block(out: &mut String, value: &Value, depth: usize) {
    let pad = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, v) in map {
                // Writing to a String cannot fail, here and below.
                let _ = write!(out, "{pad}{}:", text(key));
                below(out, v, depth);
            }
        }
        Value::Array(items) => {
            for v in items {
                let _ = writeln!(out, "{pad}- {}", flow(v));
            }
        }
        scalar => {
            let _ = writeln!(out, "{pad}{}", flow(scalar));
        }
    }
}

fn below(out: &mut String, value: &Value, depth: usize) {
    let line = flow(value);
    let nested = match value {
        Value::Object(map) => map.values().any(|v| v.is_object() || v.is_array()),
        Value::Array(items) => items.iter().any(Value::is_object),
        _ => false,
    };
    let scalar = !value.is_object() && !value.is_array();
    if scalar || depth > 0 && !nested && line.len() <= LINE || line.len() <= 2 {
        let _ = writeln!(out, " {line}");
    } else {
        out.push('\n');
        block(out, value, depth + 1);
    }
}

fn flow(value: &Value) -> String {
    match value {
        Value::Null => "~".into(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(s) => text(s),
        Value::Array(items) => {
            let all: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", all.join(", "))
        }
        Value::Object(map) => {
            let one = |(k, v): (&String, &Value)| format!("{}: {}", text(k), flow(v));
            let all: Vec<String> = map.iter().map(one).collect();
            format!("{{{}}}", all.join(", "))
        }
    }
}

/// A text bare where nobody can take it for something else, else in quotes, as JSON has them.
fn text(s: &str) -> String {
    let name = s.starts_with(|c: char| c.is_ascii_alphabetic())
        && s.chars()
            .all(|c| c.is_ascii_alphanumeric() || "_.-/".contains(c))
        && !KEYWORDS.contains(&s.to_ascii_lowercase().as_str());
    let address = s.split_once('/').map_or(s, |(a, _)| a);
    let address = s.chars().all(|c| c.is_ascii_digit() || "./".contains(c))
        && address.parse::<std::net::Ipv4Addr>().is_ok();
    let word = s.parse::<u32>().is_ok();
    if name || address {
        return s.into();
    }
    if word {
        return format!("\"{s}\"");
    }
    serde_json::to_string(s).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn small_things_stand_on_one_line() {
        let value = json!({
            "interfaces": {"tap0": {"addresses": ["192.0.2.1/24", "2001:db8::1/64"], "mtu": 1500}, "lo": {}},
            "routes": [{"prefix": "::/0", "via": "fe80::1"}],
            "workers": 2,
        });
        assert_eq!(
            write(&value),
            "interfaces:\n  tap0:\n    addresses: [192.0.2.1/24, \"2001:db8::1/64\"]\n    mtu: 1500\n  lo: {}\n\
             routes:\n  - {prefix: \"::/0\", via: \"fe80::1\"}\nworkers: 2\n"
        );
        assert_eq!(write(&json!({})), "");
    }

    #[test]
    fn texts_stay_texts() {
        for (s, want) in [
            ("off", "\"off\""),
            ("7", "\"7\""),
            ("a b", "\"a b\""),
            ("10.0.0.1/24", "10.0.0.1/24"),
            ("memif0/0", "memif0/0"),
            ("", "\"\""),
            ("a\nb", "\"a\\nb\""),
        ] {
            assert_eq!(text(s), want);
        }
    }
}
