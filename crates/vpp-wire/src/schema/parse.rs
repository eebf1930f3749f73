//! Reads the notation of `api/`: a block a line and its fields indented below it.
//!
//! ```text
//! module NAME VERSION CRC
//! alias NAME TYPE            alias NAME u8[6]
//! enum NAME BASE             flags NAME BASE            members below: NAME VALUE [late]
//! struct NAME                union NAME                 fields below
//! request NAME ...           client_index and context lead its fields
//! reply NAME                 context leads its fields
//! plain NAME ...             has the fields below and no other
//! field: TYPE NAME   TYPE NAME[16]   TYPE NAME[count]   string NAME[64]   string NAME[]   ... = DEFAULT
//! answer of a request: `ack` (NAME_reply with a retval, not written down), `-> REPLY`, `-> REPLY stream DETAILS`,
//!   `=> DETAILS` (a dump), `-> null`, and `events EVENT...` behind it
//! ```

use super::{Count, Field, Header, Member, Message, Module, Service, Shape, Type};

/// A line that opens a block, and the lines below it.
struct Block<'t> {
    number: usize,
    words: Vec<&'t str>,
    below: Vec<(usize, Vec<&'t str>)>,
}

fn blocks(text: &str) -> Result<Vec<Block<'_>>, String> {
    let mut out: Vec<Block> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || line.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            out.push(Block {
                number,
                words,
                below: Vec::new(),
            });
        } else if let Some(block) = out.last_mut() {
            block.below.push((number, words));
        } else {
            return Err(format!("line {number}: a field of nothing"));
        }
    }
    Ok(out)
}

/// The types of a text.
pub fn types(text: &str) -> Result<Vec<Type>, String> {
    let one = |b: &Block| {
        let wrong = || format!("types, line {}: not a type", b.number);
        let shape = match b.words[..] {
            ["alias", _, of] => alias(of),
            ["enum" | "flags", _, base] => Shape::Enum {
                flags: b.words[0] == "flags",
                base: base.to_owned(),
                members: members(b)?,
            },
            ["struct", _] => Shape::Struct(fields(b)?),
            ["union", _] => Shape::Union(fields(b)?),
            _ => return Err(wrong()),
        };
        Ok(Type {
            name: b.words[1].to_owned(),
            shape,
        })
    };
    blocks(text)?.iter().map(one).collect()
}

fn alias(of: &str) -> Shape {
    let (kind, n) = split_brackets(of);
    Shape::Alias(kind.to_owned(), n.and_then(|n| n.parse().ok()))
}

/// "a[b]" is "a" and "b".
fn split_brackets(word: &str) -> (&str, Option<&str>) {
    match word.strip_suffix(']').and_then(|w| w.split_once('[')) {
        Some((name, inner)) => (name, Some(inner)),
        None => (word, None),
    }
}

fn members(block: &Block) -> Result<Vec<Member>, String> {
    let one = |(number, words): &(usize, Vec<&str>)| {
        let value = words.get(1).and_then(|v| v.parse().ok());
        let value = value.ok_or_else(|| format!("line {number}: a member without a value"))?;
        Ok(Member {
            name: words[0].to_owned(),
            value,
            late: words.get(2) == Some(&"late"),
        })
    };
    block.below.iter().map(one).collect()
}

fn fields(block: &Block) -> Result<Vec<Field>, String> {
    let one = |(number, words): &(usize, Vec<&str>)| {
        let (kind, name, default) = match words[..] {
            [kind, name] => (kind, name, None),
            [kind, name, "=", default] => (kind, name, Some(default.to_owned())),
            _ => return Err(format!("line {number}: not a field")),
        };
        let (name, inner) = split_brackets(name);
        let count = match (inner, inner.and_then(|n| n.parse().ok())) {
            (None, _) => Count::One,
            (Some(_), Some(n)) if kind == "string" => Count::Text(n),
            (Some(""), _) if kind == "string" => Count::Text(0),
            (Some(_), Some(n)) => Count::Fixed(n),
            (Some(field), None) => Count::Field(field.to_owned()),
        };
        Ok(Field {
            kind: kind.to_owned(),
            name: name.to_owned(),
            count,
            default,
        })
    };
    block.below.iter().map(one).collect()
}

/// A module.
pub fn module(text: &str) -> Result<Module, String> {
    let mut module: Option<Module> = None;
    for b in blocks(text)? {
        let Some(m) = &mut module else {
            module = Some(head(&b)?);
            continue;
        };
        let at = |e| format!("{}, line {}: {e}", m.name, b.number);
        let (message, acknowledged) = message(&b).map_err(at)?;
        let reply = acknowledged.then(|| acknowledgement(&message));
        m.messages.push(message);
        m.messages.extend(reply);
    }
    module.ok_or_else(|| "an empty module".to_owned())
}

fn head(b: &Block) -> Result<Module, String> {
    let ["module", name, version, crc] = b.words[..] else {
        return Err("a module begins with its name, version and CRC".to_owned());
    };
    Ok(Module {
        name: name.to_owned(),
        version: version.to_owned(),
        crc: u32::from_str_radix(crc, 16).map_err(|e| format!("{name}: {e}"))?,
        messages: Vec::new(),
    })
}

fn message(b: &Block) -> Result<(Message, bool), String> {
    let header = match b.words[0] {
        "request" => Header::Request,
        "reply" => Header::Reply,
        "plain" => Header::Plain,
        other => return Err(format!("'{other}' is no kind of message")),
    };
    let name = *b.words.get(1).ok_or("a message without a name")?;
    let (service, acknowledged) = service(name, b.words.get(2..).unwrap_or(&[]))?;
    let message = Message {
        name: name.to_owned(),
        header,
        fields: fields(b)?,
        service,
    };
    Ok((message, acknowledged))
}

fn service(name: &str, words: &[&str]) -> Result<(Option<Service>, bool), String> {
    let Some(first) = words.first() else {
        return Ok((None, false));
    };
    let mut service = Service::default();
    let rest = match *first {
        "ack" => {
            service.reply = format!("{name}_reply");
            &words[1..]
        }
        "->" | "=>" => {
            service.reply = (*words.get(1).ok_or("no reply is named")?).to_owned();
            service.dump = *first == "=>";
            &words[2..]
        }
        other => return Err(format!("'{other}' is no kind of answer")),
    };
    match rest {
        [] => {}
        ["stream", details] => service.stream = Some((*details).to_owned()),
        ["events", events @ ..] => {
            service.events = events.iter().map(|e| (*e).to_owned()).collect();
        }
        _ => return Err("cannot be read to its end".to_owned()),
    }
    Ok((Some(service), *first == "ack"))
}

/// The reply that says only whether it worked.
fn acknowledgement(request: &Message) -> Message {
    Message {
        name: format!("{}_reply", request.name),
        header: Header::Reply,
        fields: vec![Field {
            kind: "i32".to_owned(),
            name: "retval".to_owned(),
            count: Count::One,
            default: None,
        }],
        service: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named_with_their_line() {
        let wrong = |text: &str| module(text).expect_err(text);
        assert_eq!(wrong(""), "an empty module");
        assert_eq!(
            wrong("module a 1 2\nask b"),
            "a, line 2: 'ask' is no kind of message"
        );
        assert_eq!(
            wrong("module a 1 2\nrequest b\n  u8"),
            "a, line 2: line 3: not a field"
        );
        assert_eq!(
            wrong("module a 1 2\nrequest b ->"),
            "a, line 2: no reply is named"
        );
        assert_eq!(wrong("  u8 x"), "line 1: a field of nothing");
        assert!(types("enum a u8\n  B").is_err());
    }

    #[test]
    fn an_acknowledged_request_brings_its_reply() {
        let m = module("module a 1.0 ff\nrequest b ack events c\n  string d[]\n").expect("read");
        let names: Vec<&str> = m.messages.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(names, ["b", "b_reply"]);
        let service = m.messages[0].service.as_ref().expect("answered");
        assert_eq!(
            (service.reply.as_str(), &service.events[..]),
            ("b_reply", &["c".to_owned()][..])
        );
        assert_eq!(m.messages[0].fields[0].count, Count::Text(0));
    }
}
