//! The API JSON of a module: what clients in Python read to know messages, in the form of VPP's API generator.

use super::{Count, Field, Message, Module, Schema, Service, Shape, message_crc};

/// One module as a JSON object, with all the types it uses.
pub fn module(schema: &Schema, module: &Module) -> String {
    let used = used_types(schema, module);
    let of = |want: fn(&Shape) -> bool| -> String {
        let types = used.iter().filter(|t| want(&t.shape));
        join(types.map(|t| shape(schema, &t.name, &t.shape)))
    };
    let aliases = used.iter().filter_map(|t| alias(schema, &t.name, &t.shape));
    let services = module.messages.iter().filter_map(|m| {
        let text = m.service.as_ref().map(service)?;
        Some(format!("\"{}\": {text}", m.name))
    });
    let messages = module.messages.iter().map(|m| message(schema, m));
    format!(
        "{{\n\"module\": \"{}\",\n\"types\": [{}],\n\"messages\": [{}],\n\"unions\": [{}],\n\"enums\": [{}],\n\"enumflags\": [{}],\n\
         \"services\": {{{}}},\n\"options\": {{\"version\": \"{}\"}},\n\"aliases\": {{{}}},\n\"vl_api_version\": \"{:#010x}\",\n\
         \"imports\": [],\n\"counters\": [],\n\"paths\": []\n}}\n",
        module.name,
        of(|s| matches!(s, Shape::Struct(_))),
        join(messages),
        of(|s| matches!(s, Shape::Union(_))),
        of(|s| matches!(s, Shape::Enum { flags: false, .. })),
        of(|s| matches!(s, Shape::Enum { flags: true, .. })),
        join(services),
        module.version,
        join(aliases),
        module.crc,
    )
}

fn join(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(",\n")
}

/// The types that a module's messages use, in the schema's order: each before what uses it.
fn used_types<'s>(schema: &'s Schema, module: &Module) -> Vec<&'s super::Type> {
    let mut names: Vec<&str> = Vec::new();
    let fields = module.messages.iter().flat_map(|m| &m.fields);
    let mut open: Vec<&str> = fields.map(|f| f.kind.as_str()).collect();
    while let Some(name) = open.pop() {
        let Some(t) = schema.types.iter().find(|t| t.name == name) else {
            continue;
        };
        if names.contains(&t.name.as_str()) {
            continue;
        }
        names.push(&t.name);
        match &t.shape {
            Shape::Alias(to, _) => open.push(to),
            Shape::Enum { .. } => {}
            Shape::Struct(f) | Shape::Union(f) => open.extend(f.iter().map(|f| f.kind.as_str())),
        }
    }
    let used = |t: &&super::Type| names.contains(&t.name.as_str());
    schema.types.iter().filter(used).collect()
}

fn kind(schema: &Schema, bare: &str) -> String {
    match schema.shape(bare) {
        Some(_) => format!("vl_api_{bare}_t"),
        None => bare.to_owned(),
    }
}

fn field(schema: &Schema, f: &Field) -> String {
    let count = match &f.count {
        Count::One => String::new(),
        Count::Fixed(n) | Count::Text(n) => format!(", {n}"),
        Count::Field(by) => format!(", 0, \"{by}\""),
    };
    let default = f.default.as_ref();
    let default = default.map_or(String::new(), |d| format!(", {{\"default\": {d}}}"));
    format!(
        "[\"{}\", \"{}\"{count}{default}]",
        kind(schema, &f.kind),
        f.name
    )
}

fn fields(schema: &Schema, fields: &[Field]) -> Vec<String> {
    fields.iter().map(|f| field(schema, f)).collect()
}

fn shape(schema: &Schema, name: &str, shape: &Shape) -> String {
    let mut items = vec![format!("\"{name}\"")];
    match shape {
        Shape::Alias(..) => {}
        Shape::Struct(f) | Shape::Union(f) => items.extend(fields(schema, f)),
        Shape::Enum { base, members, .. } => {
            items.extend(
                members
                    .iter()
                    .map(|m| format!("[\"{}\", {}]", m.name, m.value)),
            );
            items.push(format!("{{\"enumtype\": \"{base}\"}}"));
        }
    }
    format!("[{}]", items.join(", "))
}

fn alias(schema: &Schema, name: &str, shape: &Shape) -> Option<String> {
    let Shape::Alias(to, n) = shape else {
        return None;
    };
    let length = n.map_or(String::new(), |n| format!(", \"length\": {n}"));
    Some(format!(
        "\"{name}\": {{\"type\": \"{}\"{length}}}",
        kind(schema, to)
    ))
}

fn message(schema: &Schema, m: &Message) -> String {
    let mut items = vec![
        format!("\"{}\"", m.name),
        "[\"u16\", \"_vl_msg_id\"]".to_owned(),
    ];
    let lead = m
        .header
        .fields()
        .iter()
        .map(|name| format!("[\"u32\", \"{name}\"]"));
    items.extend(lead);
    items.extend(fields(schema, &m.fields));
    items.push(format!(
        "{{\"crc\": \"{:#010x}\", \"options\": {{}}}}",
        message_crc(schema, m)
    ));
    format!("[{}]", items.join(", "))
}

fn service(s: &Service) -> String {
    let mut items = vec![format!("\"reply\": \"{}\"", s.reply)];
    if s.dump || s.stream.is_some() {
        items.push("\"stream\": true".to_owned());
    }
    items.extend(
        s.stream
            .as_ref()
            .map(|d| format!("\"stream_msg\": \"{d}\"")),
    );
    if !s.events.is_empty() {
        let all: Vec<String> = s.events.iter().map(|e| format!("\"{e}\"")).collect();
        items.push(format!("\"events\": [{}]", all.join(", ")));
    }
    format!("{{{}}}", items.join(", "))
}
