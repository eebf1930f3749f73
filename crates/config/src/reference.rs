//! The fields as a page of the documentation, made of the schema: it cannot tell of a field that is not
//! there, or leave one out.

use std::fmt::Write as _;

use crate::fields::FILE_SECTION;
use crate::schema::{Default, Field, Kind, Section};

const INTRO: &str = "\
# The configuration file

`parshall run -c FILE.yaml` brings a router into the state that a file describes; `parshall config check FILE.yaml` says
what is wrong with one. This page is made from the program's own description of the fields.

The file is YAML 1.2: one document of at most 4 MiB, each key once, no tags; anchors and aliases may be used. Numbers and
`true`/`false` are written without quotes. An error names the file, line, column and field; all errors of a file are told
at once, and a file with an error changes nothing:

    router.yaml:7:10: interfaces.tap0.mtu: `20` will not do; allowed is a whole number from 68 to 65521 bytes

The file becomes commands of the command language, in the order of their dependencies: tables, interfaces and their
settings, sFlow, BGP feeds, state of the interfaces, neighbours, routes, labels, streams, `commands`; streams start last.
`parshall config check --plan FILE.yaml` prints them. The same file changes a running router:
[how](../how-to/change-the-configuration.md).

Sections and fields of vppcfg 1.2 are among those below, with its names and rules: `loopbacks`, `bondethernets`,
`bridgedomains`, `vxlan_tunnels`, `taps`, and of an interface `sub-interfaces`, `l2xc`, `unnumbered`, `lcp`, `description` and
`device-type`. They stand beside ours in one file: an interface is described once, under `interfaces` or `loopbacks`, and what
makes a bond, a tunnel or a tap of vppcfg's under its own section. An interface that is named like VPP's hardware
(`GigabitEthernet3/0/0`) and has no `type` has to be there already.

Examples: [router.yaml](../examples/router.yaml), [mpls-core.yaml](../examples/mpls-core.yaml),
[lab-pg.yaml](../examples/lab-pg.yaml).
";

/// The page, in Markdown.
pub fn markdown() -> String {
    let mut page = INTRO.to_owned();
    let mut sections: Vec<&'static Section> = Vec::new();
    collect(&FILE_SECTION, &mut sections);
    for section in sections {
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {}\n", section.title);
        if !section.help.is_empty() {
            let _ = write!(page, "\n{}\n", section.help);
        }
        let has_only = section.fields.iter().any(|f| !f.only.is_empty());
        let _ = write!(page, "\n{}\n", heading(has_only));
        for field in section.fields {
            let _ = writeln!(page, "{}", row(field, has_only));
        }
    }
    page
}

/// A section before those in it, each once.
pub(crate) fn collect(section: &'static Section, out: &mut Vec<&'static Section>) {
    if out.iter().any(|s| s.title == section.title) {
        return;
    }
    out.push(section);
    for field in section.fields {
        for inner in field.kind.sections() {
            collect(inner, out);
        }
    }
}

fn heading(has_only: bool) -> &'static str {
    if has_only {
        "| field | for | unit | allowed | without it | meaning |\n|---|---|---|---|---|---|"
    } else {
        "| field | unit | allowed | without it | meaning |\n|---|---|---|---|---|"
    }
}

fn row(field: &Field, has_only: bool) -> String {
    let only = match (has_only, field.only) {
        (false, _) => String::new(),
        (true, []) => " all |".into(),
        (true, only) => format!(" {} |", only.join(", ")),
    };
    let default = match field.default {
        Default::Required => "required".into(),
        Default::None => String::new(),
        Default::Value(text) => format!("`{text}`"),
        Default::Words(text) => text.to_owned(),
    };
    format!(
        "| `{}` |{only} {} | {} | {default} | {} |",
        field.name,
        field.unit,
        linked(&field.kind),
        field.help
    )
    .replace("|  |", "| |")
    .replace("|  |", "| |")
}

/// What is allowed, with links to the sections.
fn linked(kind: &Kind) -> String {
    let mut text = kind.allowed("");
    for section in kind.sections() {
        let anchor = section.title.to_lowercase().replace(' ', "-");
        let link = format!("[{}](#{anchor})", section.title);
        text = text.replace(&format!("\"{}\"", section.title), &link);
    }
    text
}
