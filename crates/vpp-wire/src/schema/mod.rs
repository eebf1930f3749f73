//! What the messages of VPP's binary API are, as data: types, messages, services; read from the texts in `api/`.
//!
//! The build script makes Rust types of it, tests check its CRCs, and the reference page and the API JSON are printed
//! from it. CRCs follow VPP's API generator: CRC-32 over the fields as text and over the types they use.

mod crc;
mod json;
mod parse;

pub use crc::message as message_crc;
pub use json::module as module_json;

/// How many values a field has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// One.
    One,
    /// So many.
    Fixed(usize),
    /// As many as an earlier field says.
    Field(String),
    /// A text: of so many bytes, or with its length in front where that is 0.
    Text(usize),
}

/// A field of a message or struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its type: a scalar ("u32"), "string", or the bare name of a type.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// How many values it has.
    pub count: Count,
    /// What clients send unless told otherwise.
    pub default: Option<String>,
}

/// A value of an enum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
    /// It came later and is left out of CRCs.
    pub late: bool,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Another name for a type, or for so many scalars.
    Alias(String, Option<usize>),
    /// Named values on a scalar.
    Enum {
        /// Its values can be combined.
        flags: bool,
        /// The scalar.
        base: String,
        /// The values.
        members: Vec<Member>,
    },
    /// Fields one after the other.
    Struct(Vec<Field>),
    /// Fields in the same place.
    Union(Vec<Field>),
}

/// A type and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Bare name: "prefix" is `vl_api_prefix_t` in CRCs and JSON.
    pub name: String,
    /// What it is.
    pub shape: Shape,
}

/// Who leads a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// `client_index` and `context`.
    Request,
    /// `context`.
    Reply,
    /// Nothing that is the same for many.
    Plain,
}

impl Header {
    /// The fields that it stands for.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Header::Request => &["client_index", "context"],
            Header::Reply => &["context"],
            Header::Plain => &[],
        }
    }
}

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Service {
    /// Its reply; "null" = none. With `dump` what it is a list of.
    pub reply: String,
    /// Any number of `reply`, and no end.
    pub dump: bool,
    /// What comes before the reply, any number of times.
    pub stream: Option<String>,
    /// What may come later, unasked.
    pub events: Vec<String>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its name.
    pub name: String,
    /// What leads it.
    pub header: Header,
    /// The fields after that.
    pub fields: Vec<Field>,
    /// How it is answered, if it is a request.
    pub service: Option<Service>,
}

/// A file of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its name, such as "sflow".
    pub name: String,
    /// Its version, such as "0.1.0".
    pub version: String,
    /// CRC of VPP's file of that name.
    pub crc: u32,
    /// Its messages in order.
    pub messages: Vec<Message>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schema {
    /// Types, each before those that use it.
    pub types: Vec<Type>,
    /// Modules; the first one's messages have fixed numbers.
    pub modules: Vec<Module>,
}

impl Schema {
    /// A type by its bare name.
    pub fn shape(&self, name: &str) -> Option<&Shape> {
        self.types.iter().find(|t| t.name == name).map(|t| &t.shape)
    }

    /// All messages in the order of their numbers, the first of which is 1.
    pub fn messages(&self) -> impl Iterator<Item = (&Module, &Message)> {
        let all = |m| std::iter::repeat(m).zip(Module::messages(m));
        self.modules.iter().flat_map(all)
    }

    /// The type that an alias stands for in the end, and how many values it has.
    pub fn resolve<'a>(&'a self, name: &'a str) -> (&'a str, Option<usize>) {
        match self.shape(name) {
            Some(Shape::Alias(to, None)) => self.resolve(to),
            Some(Shape::Alias(to, n)) => (to, *n),
            _ => (name, None),
        }
    }

    /// Fewest bytes that a value of a type takes.
    pub fn size(&self, name: &str) -> usize {
        match self.shape(name) {
            Some(Shape::Alias(to, n)) => self.size(to) * n.unwrap_or(1),
            Some(Shape::Enum { base, .. }) => self.size(base),
            Some(Shape::Struct(fields)) => fields.iter().map(|f| self.field_size(f)).sum(),
            Some(Shape::Union(fields)) => {
                let sizes = fields.iter().map(|f| self.field_size(f));
                sizes.max().unwrap_or(0)
            }
            None => match name {
                "u8" | "i8" | "bool" => 1,
                "u16" | "i16" => 2,
                "u32" | "i32" => 4,
                _ => 8,
            },
        }
    }

    /// Fewest bytes that a field takes.
    pub fn field_size(&self, field: &Field) -> usize {
        match &field.count {
            Count::One => self.size(&field.kind),
            Count::Fixed(n) => n * self.size(&field.kind),
            Count::Field(_) => 0,
            Count::Text(0) => 4,
            Count::Text(n) => *n,
        }
    }
}

impl Module {
    fn messages(&self) -> std::slice::Iter<'_, Message> {
        self.messages.iter()
    }
}

/// The texts: types, then the modules in the order of their messages' numbers. `interface` comes early: clients take over the
/// default of an index that they read first.
const TYPES: &str = include_str!("../../api/types.api");
const MODULES: &[&str] = &[
    include_str!("../../api/memclnt.api"),
    include_str!("../../api/interface.api"),
    include_str!("../../api/vlib.api"),
    include_str!("../../api/vpe.api"),
    include_str!("../../api/ip.api"),
    include_str!("../../api/ip_neighbor.api"),
    include_str!("../../api/arp.api"),
    include_str!("../../api/ip6_nd.api"),
    include_str!("../../api/mpls.api"),
    include_str!("../../api/l2.api"),
    include_str!("../../api/bond.api"),
    include_str!("../../api/tapv2.api"),
    include_str!("../../api/lcp.api"),
    include_str!("../../api/acl.api"),
    include_str!("../../api/vxlan.api"),
    include_str!("../../api/gre.api"),
    include_str!("../../api/ipip.api"),
    include_str!("../../api/sflow.api"),
    include_str!("../../api/pg.api"),
];

/// Reads all of `api/`.
///
/// # Errors
/// Says which line of which text is wrong: a mistake of the program.
pub fn all() -> Result<Schema, String> {
    let mut schema = Schema {
        types: parse::types(TYPES)?,
        modules: Vec::new(),
    };
    for text in MODULES {
        schema.modules.push(parse::module(text)?);
    }
    Ok(schema)
}
