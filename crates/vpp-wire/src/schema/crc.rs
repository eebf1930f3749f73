//! CRCs of messages, as VPP's API generator reckons them: CRC-32 (IEEE 802.3) over the fields written as Python prints a list,
//! then over each type they use.

use super::{Count, Field, Header, Message, Schema, Shape};

/// The CRC of a message: clients know messages by name and CRC.
pub fn message(schema: &Schema, message: &Message) -> u32 {
    let mut fields: Vec<Field> = header(message.header);
    fields.extend(message.fields.iter().cloned());
    let crc = crc32(0, list(&fields).as_bytes());
    follow(schema, &fields, crc)
}

fn header(header: Header) -> Vec<Field> {
    let field = |name: &&str| Field {
        kind: "u32".to_owned(),
        name: (*name).to_owned(),
        count: Count::One,
        default: None,
    };
    header.fields().iter().map(field).collect()
}

/// Goes on over the types of fields, in order; a type used twice counts twice.
fn follow(schema: &Schema, fields: &[Field], mut crc: u32) -> u32 {
    for f in fields {
        let Some(shape) = schema.shape(&f.kind) else {
            continue;
        };
        match shape {
            Shape::Alias(..) => crc = crc32(crc, b"[]"),
            Shape::Enum { members, .. } => {
                let known = members.iter().filter(|m| !m.late);
                let all: Vec<String> = known
                    .map(|m| format!("['{}', {}]", m.name, m.value))
                    .collect();
                crc = crc32(crc, format!("[{}]", all.join(", ")).as_bytes());
            }
            Shape::Struct(inner) | Shape::Union(inner) => {
                crc = crc32(crc, list(inner).as_bytes());
                crc = follow(schema, inner, crc);
            }
        }
    }
    crc
}

/// The fields as Python prints them.
fn list(fields: &[Field]) -> String {
    let scalar = |k: &str| {
        matches!(
            k,
            "u8" | "u16" | "u32" | "u64" | "i8" | "i16" | "i32" | "i64" | "f64" | "bool" | "string"
        )
    };
    let one = |f: &Field| {
        let kind = if scalar(&f.kind) {
            f.kind.clone()
        } else {
            format!("vl_api_{}_t", f.kind)
        };
        match &f.count {
            Count::One => format!("['{kind}', '{}']", f.name),
            Count::Fixed(n) | Count::Text(n) => format!("['{kind}', '{}', {n}, None]", f.name),
            Count::Field(by) => format!("['{kind}', '{}', 0, '{by}']", f.name),
        }
    };
    let all: Vec<String> = fields.iter().map(one).collect();
    format!("[{}]", all.join(", "))
}

/// Goes on with a CRC-32 (reflected polynomial 0xEDB88320) over more bytes.
fn crc32(crc: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        let mut c = crc ^ u32::from(*byte);
        for _ in 0..8 {
            c = if c & 1 == 0 {
                c >> 1
            } else {
                c >> 1 ^ 0xEDB8_8320
            };
        }
        c
    };
    !bytes.iter().fold(!crc, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc_32() {
        assert_eq!(crc32(0, b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(crc32(0, b"1234"), b"56789"), 0xCBF4_3926);
    }

    #[test]
    fn every_bare_request_and_every_acknowledgement_has_the_same() {
        let schema = Schema::default();
        let bare = |kind| {
            let fields = Vec::new();
            let (name, service) = (String::new(), None);
            Message {
                name,
                header: kind,
                fields,
                service,
            }
        };
        assert_eq!(message(&schema, &bare(Header::Request)), 0x5107_7d14);
        let mut reply = bare(Header::Reply);
        reply.fields.push(Field {
            kind: "i32".into(),
            name: "retval".into(),
            count: Count::One,
            default: None,
        });
        assert_eq!(message(&schema, &reply), 0xe8d4_e804);
    }
}
