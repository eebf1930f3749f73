//! Writes Rust: a struct for each type and message with its encoding, and the table of all messages with CRCs and API JSON.

use std::fmt::Write;

use crate::schema::{Count, Field, Header, Message, Schema, Shape, message_crc, module_json};

/// "ip_route" is `IpRoute`.
fn camel(name: &str) -> String {
    let word = |w: &str| {
        let mut c = w.chars();
        c.next()
            .map_or(String::new(), |f| f.to_uppercase().chain(c).collect())
    };
    name.split('_').map(word).collect()
}

/// A field's name, where Rust has no word of that name.
fn ident(name: &str) -> String {
    let name = name.to_lowercase();
    if ["type", "match", "mod", "use", "in", "ref"].contains(&name.as_str()) {
        format!("{name}_")
    } else {
        name
    }
}

/// The Rust type of one value.
fn value_type(schema: &Schema, kind: &str) -> String {
    match schema.resolve(kind) {
        (to, Some(n)) => format!("[{}; {n}]", value_type(schema, to)),
        (to, None) if schema.shape(to).is_some() => camel(to),
        (to, None) => to.to_owned(),
    }
}

fn field_type(schema: &Schema, f: &Field) -> String {
    let one = || value_type(schema, &f.kind);
    match &f.count {
        Count::One => one(),
        Count::Fixed(n) => format!("[{}; {n}]", one()),
        Count::Field(_) => format!("Vec<{}>", one()),
        Count::Text(_) => "String".to_owned(),
    }
}

/// Whether a field says how many values a later one has: then it is not kept.
fn is_count(f: &Field, all: &[Field]) -> bool {
    all.iter().any(|o| o.count == Count::Field(f.name.clone()))
}

fn struct_of(schema: &Schema, out: &mut String, doc: &str, name: &str, fields: &[Field]) {
    let _ = writeln!(
        out,
        "/// {doc}\n#[derive(Clone, Debug, Default, PartialEq)]\npub struct {name} {{"
    );
    for f in fields.iter().filter(|f| !is_count(f, fields)) {
        let what = match &f.count {
            Count::Text(0) => format!("`{}`, a text", f.kind),
            Count::Text(n) => format!("`{}`, a text of less than {n} bytes", f.kind),
            _ => format!("`{}`", f.kind),
        };
        let _ = writeln!(
            out,
            "    /// {what}.\n    pub {}: {},",
            ident(&f.name),
            field_type(schema, f)
        );
    }
    let _ = writeln!(out, "}}");
}

fn get_body(schema: &Schema, name: &str, fields: &[Field]) -> String {
    let mut out = String::new();
    for f in fields {
        let id = ident(&f.name);
        let how = match &f.count {
            Count::One | Count::Fixed(_) => format!("<{} as Wire>::get(r)?", field_type(schema, f)),
            Count::Field(by) => format!("r.list({} as usize)?", ident(by)),
            Count::Text(0) => "r.long_text()?".to_owned(),
            Count::Text(n) => format!("r.text({n})?"),
        };
        let _ = writeln!(out, "        let {id} = {how};");
    }
    let kept: Vec<String> = fields
        .iter()
        .filter(|f| !is_count(f, fields))
        .map(|f| ident(&f.name))
        .collect();
    let _ = writeln!(out, "        Ok({name} {{ {} }})", kept.join(", "));
    out
}

fn put_body(schema: &Schema, fields: &[Field]) -> String {
    let mut out = String::new();
    for f in fields {
        let id = ident(&f.name);
        let counted = fields
            .iter()
            .find(|o| o.count == Count::Field(f.name.clone()));
        let how = match (&f.count, counted) {
            (_, Some(list)) => {
                format!(
                    "count(self.{}.len(), {}::MAX as u64) as {}",
                    ident(&list.name),
                    f.kind,
                    f.kind
                )
            }
            (Count::Field(by), _) => {
                let by = fields
                    .iter()
                    .find(|o| o.name == *by)
                    .map_or("u32", |o| o.kind.as_str());
                let _ = writeln!(
                    out,
                    "        for x in self.{id}.iter().take(count(self.{id}.len(), {by}::MAX as u64) as usize) {{ x.put(out); }}"
                );
                continue;
            }
            (Count::Text(0), _) => {
                let _ = writeln!(out, "        put_long_text(out, &self.{id});");
                continue;
            }
            (Count::Text(n), _) => {
                let _ = writeln!(out, "        put_text(out, &self.{id}, {n});");
                continue;
            }
            _ => format!("self.{id}"),
        };
        let _ = writeln!(out, "        Wire::put(&({how}), out);");
    }
    let _ = schema;
    out
}

fn wire_impl(schema: &Schema, out: &mut String, name: &str, fields: &[Field]) {
    let least: usize = fields.iter().map(|f| schema.field_size(f)).sum();
    let (r, o) = if fields.is_empty() {
        ("_r", "_out")
    } else {
        ("r", "out")
    };
    let _ = writeln!(
        out,
        "impl Wire for {name} {{\n    const LEAST: usize = {least};\n    fn get({r}: &mut Reader<'_>) -> Result<Self, DecodeError> {{\n{}    }}\n    \
         fn put(&self, {o}: &mut Vec<u8>) {{\n{}    }}\n}}",
        get_body(schema, name, fields),
        put_body(schema, fields)
    );
}

/// The types and messages.
pub fn rust(schema: &Schema) -> String {
    let mut out = String::new();
    for t in &schema.types {
        let name = camel(&t.name);
        match &t.shape {
            Shape::Alias(..) => {}
            Shape::Struct(fields) => {
                struct_of(
                    schema,
                    &mut out,
                    &format!("VPP's type `{}`.", t.name),
                    &name,
                    fields,
                );
                wire_impl(schema, &mut out, &name, fields);
            }
            Shape::Union(_) => newtype(
                &mut out,
                &t.name,
                &name,
                &format!("[u8; {}]", schema.size(&t.name)),
                schema.size(&t.name),
            ),
            Shape::Enum { base, members, .. } => {
                newtype(&mut out, &t.name, &name, base, schema.size(base));
                let _ = writeln!(out, "impl {name} {{");
                for m in members {
                    let _ = writeln!(
                        out,
                        "    /// {}.\n    pub const {}: {name} = {name}({});",
                        m.value,
                        m.name.to_uppercase(),
                        m.value
                    );
                }
                let _ = writeln!(
                    out,
                    "    /// Whether it has all bits of `flag`.\n    pub fn has(self, flag: {name}) -> bool {{ self.0 & flag.0 == flag.0 }}\n}}"
                );
            }
        }
    }
    for (id, (module, m)) in (1..).zip(schema.messages()) {
        message(schema, &mut out, id, &module.name, m);
    }
    out
}

fn newtype(out: &mut String, vpp: &str, name: &str, base: &str, size: usize) {
    let _ = writeln!(
        out,
        "/// VPP's type `{vpp}`.\n#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]\npub struct {name}(\n    /// As it is sent.\n    pub {base},\n);\n\
         impl Wire for {name} {{\n    const LEAST: usize = {size};\n    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {{ Ok({name}(Wire::get(r)?)) }}\n    \
         fn put(&self, out: &mut Vec<u8>) {{ self.0.put(out); }}\n}}"
    );
}

fn message(schema: &Schema, out: &mut String, id: usize, module: &str, m: &Message) {
    let name = camel(&m.name);
    let doc = format!("Message `{}` of module `{module}`.", m.name);
    struct_of(schema, out, &doc, &name, &m.fields);
    wire_impl(schema, out, &name, &m.fields);
    let _ = writeln!(
        out,
        "impl Message for {name} {{\n    const ID: u16 = {id};\n    const HEADER: Header = Header::{};\n}}",
        header(m.header)
    );
}

fn header(h: Header) -> &'static str {
    match h {
        Header::Request => "Request",
        Header::Reply => "Reply",
        Header::Plain => "Plain",
    }
}

/// The tables.
pub fn info(schema: &Schema) -> String {
    let mut out = String::from(
        "/// All messages; the number of one is its place, from 1 on.\npub const MESSAGES: &[MessageInfo] = &[\n",
    );
    for (module, m) in schema.messages() {
        let retval = m
            .fields
            .first()
            .is_some_and(|f| f.name == "retval" && f.kind == "i32");
        let least: usize = m.fields.iter().map(|f| schema.field_size(f)).sum();
        let reply = m
            .service
            .as_ref()
            .filter(|s| !s.dump)
            .map(|s| s.reply.as_str());
        let _ = writeln!(
            out,
            "    MessageInfo {{ name: {:?}, crc: {:#010x}, module: {:?}, header: Header::{}, retval: {retval}, least: {least}, reply: {reply:?} }},",
            m.name,
            message_crc(schema, m),
            module.name,
            header(m.header),
        );
    }
    out.push_str("];\n/// All modules.\npub const MODULES: &[ModuleInfo] = &[\n");
    let mut first = 1;
    for m in &schema.modules {
        let version: Vec<&str> = m.version.split('.').collect();
        let _ = writeln!(
            out,
            "    ModuleInfo {{ name: {:?}, version: [{}], crc: {:#010x}, first: {first}, count: {}, json: {:?} }},",
            m.name,
            version.join(", "),
            m.crc,
            m.messages.len(),
            module_json(schema, m),
        );
        first += m.messages.len();
    }
    out.push_str("];\n/// Decodes the body of a message by its number and encodes it again: what a test of all of them needs.\npub fn again(id: u16, body: &[u8]) -> Option<Result<Vec<u8>, DecodeError>> {\n    match id {\n");
    for (id, (_, m)) in (1..).zip(schema.messages()) {
        let _ = writeln!(
            out,
            "        {id} => Some(body_again::<msg::{}>(body)),",
            camel(&m.name)
        );
    }
    out.push_str("        _ => None,\n    }\n}\n");
    out
}
