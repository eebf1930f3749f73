//! What a schema is made of. The fields themselves are data, in [`crate::fields`]: from them come the
//! checks, the words of the errors and the reference page.

/// A field: described once, here.
pub struct Field {
    /// Its key in the file.
    pub name: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// Unit of a number, as in "bytes"; empty for none.
    pub unit: &'static str,
    /// What holds without it.
    pub default: Default,
    /// One sentence for the reference.
    pub help: &'static str,
    /// Interface types that have it; empty = all.
    pub only: &'static [&'static str],
}

/// What holds when a field is not there.
#[derive(Clone, Copy)]
pub enum Default {
    /// It must be there.
    Required,
    /// Nothing: the thing is not set.
    None,
    /// This value, as it would be written.
    Value(&'static str),
    /// What these words say.
    Words(&'static str),
}

/// Fields that stand together.
pub struct Section {
    /// Its title in the reference.
    pub title: &'static str,
    /// A paragraph for the reference.
    pub help: &'static str,
    /// Its fields, in the order of the reference.
    pub fields: &'static [Field],
}

/// What may stand in a field.
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Uint {
        /// Least.
        min: u64,
        /// Greatest.
        max: u64,
    },
    /// A number.
    Float {
        /// Least.
        min: f64,
        /// Greatest.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A name of letters, digits and `. _ : -`.
    Name {
        /// What it names.
        what: &'static str,
        /// Most bytes.
        max: usize,
    },
    /// A network namespace of Linux: a name, a file or `pid:NUMBER`.
    Namespace,
    /// The name of an interface of this file.
    Interface,
    /// An IPv4 or IPv6 address.
    Address,
    /// An interface's address with the length of its subnet.
    IfAddress,
    /// A network: an address without host bits, and a length.
    Prefix,
    /// A network, with `!` before it to avoid it.
    Rule,
    /// A MAC address of one station.
    Mac,
    /// A host with or without a UDP port.
    Collector,
    /// Frame sizes: `64`, or a range `64-1500` (counting up) or `64+1500` (at random).
    Sizes,
    /// The name of a file.
    Path {
        /// From the root on.
        absolute: bool,
        /// Most bytes.
        max: usize,
    },
    /// Text of one or more lines.
    Text,
    /// Several of a kind.
    List {
        /// Of what.
        of: &'static Kind,
        /// Most of them.
        max: usize,
    },
    /// A section.
    Record(&'static Section),
    /// A section for each interface, under its name.
    Interfaces(&'static Section),
    /// One of these, told apart by their shape: a single value, a list or a section.
    Either(&'static [Kind]),
}

/// The shape a value has in YAML.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Scalar,
    List,
    Map,
}

impl Kind {
    /// The shape that values of this kind have; of several kinds, that of the first.
    pub fn shape(&self) -> Shape {
        match self {
            Kind::List { .. } => Shape::List,
            Kind::Record(_) | Kind::Interfaces(_) => Shape::Map,
            Kind::Either(kinds) => kinds.first().map_or(Shape::Scalar, Kind::shape),
            _ => Shape::Scalar,
        }
    }

    /// What may stand there, to follow "write" or "allowed is", with the unit of numbers.
    pub fn allowed(&self, unit: &str) -> String {
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(" {unit}")
        };
        match self {
            Kind::Bool => "true or false".into(),
            Kind::Uint { min, max } if *max == u64::MAX && *min == 0 => {
                format!("a whole number{unit}, up to 64 bits")
            }
            Kind::Uint { min, max } => format!("a whole number from {min} to {max}{unit}"),
            Kind::Float { min, max } => format!("a number from {min} to {max}{unit}"),
            Kind::Choice(words) => one_of(words),
            Kind::Name { what, max } => {
                format!("{what}: 1 to {max} letters, digits and any of `._:-`")
            }
            Kind::Namespace => {
                "a network namespace by its name, its file (/run/netns/x) or a process in it (pid:1)".into()
            }
            Kind::Interface => "the name of an interface of this file".into(),
            Kind::Address => "an IPv4 or IPv6 address".into(),
            Kind::IfAddress => {
                "an address with the length of its subnet, such as 192.0.2.1/24 or 2001:db8::1/64"
                    .into()
            }
            Kind::Prefix => "a network, such as 192.0.2.0/24 or 2001:db8::/32".into(),
            Kind::Rule => {
                "a network to prefer, such as 192.0.2.0/24, or with `!` before it to avoid".into()
            }
            Kind::Mac => "a unicast MAC address, such as 02:fe:00:00:00:01".into(),
            Kind::Collector => {
                "an address or host name, with or without a port: 192.0.2.1:6343, [2001:db8::1]:6343"
                    .into()
            }
            Kind::Sizes => format!(
                "a number{unit}, or a range: 64-1500 (each one longer), 64+1500 (at random)"
            ),
            Kind::Path { absolute, max } => {
                let which = if *absolute { "an absolute" } else { "a" };
                format!("{which} file name of at most {max} bytes")
            }
            Kind::Text => "text".into(),
            Kind::List { of, max } => format!("a list of at most {max}: {}", of.allowed(&unit_of(&unit))),
            Kind::Record(section) => format!("the fields of \"{}\"", section.title),
            Kind::Interfaces(section) => {
                format!("for each interface, under its name, the fields of \"{}\"", section.title)
            }
            Kind::Either(kinds) => {
                let each: Vec<String> =
                    kinds.iter().map(|k| k.allowed(&unit_of(&unit))).collect();
                each.join("; or ")
            }
        }
    }

    /// The sections that may stand in it.
    pub fn sections(&self) -> Vec<&'static Section> {
        match self {
            Kind::Record(section) | Kind::Interfaces(section) => vec![section],
            Kind::List { of, .. } => of.sections(),
            Kind::Either(kinds) => kinds.iter().flat_map(Kind::sections).collect(),
            _ => Vec::new(),
        }
    }
}

fn unit_of(unit: &str) -> String {
    unit.trim().into()
}

/// "a, b or c".
pub fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [word] => (*word).into(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

impl Section {
    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|f| f.name == name)
    }
}
