//! Sub-interfaces and VLAN tags.

use parshall_command::{Args, CommandSpec};
use parshall_nodes::vlan::{VlanId, VlanMatch};

use super::{Context, Handler, Output};
use crate::error::{Error, Result};
use crate::router::Router;
use crate::virtual_interface::{SubSpec, Vtr};

/// Most sub-interfaces that one range makes: one for each VLAN there is.
const RANGE: u32 = 4094;

pub(super) const COMMANDS: &[CommandSpec<Handler>] = &[
    CommandSpec {
        pattern: "create sub-interfaces <if:interface> <id:word> [( default | untagged | <type:{dot1q|dot1ad}> <outer:word> \
                  [inner-dot1q <inner:word>] [exact-match] )]",
        help: "Make a sub-interface: the frames of an interface that have certain VLAN tags",
        detail: "With the number alone it takes the frames with this VLAN tag (802.1Q) and no further one; with a range such \
                 as 100-199 there is one for each number. The most specific sub-interface gets a frame: both tags, outer tag \
                 and any inner one, outer tag alone, `default`. Only one of exact tags can be routed; the others are \
                 switched.",
        params: &[
            (
                "id",
                "Number of the sub-interface: it is called IF.NUMBER; or a range of them",
            ),
            ("outer", "Outer VLAN, 1 to 4094, or any"),
            ("inner", "Inner VLAN, 1 to 4094, or any"),
        ],
        handler: create,
    },
    CommandSpec {
        pattern: "delete sub-interface <if:interface>",
        help: "Delete a sub-interface",
        detail: "",
        params: &[],
        handler: delete,
    },
    CommandSpec {
        pattern: "set interface l2 tag-rewrite <if:interface> ( disable | pop <pop:u8 1..=2> \
                  | push <type:{dot1q|dot1ad}> <outer:u16 0..=4095> [<inner:u16 0..=4095>] \
                  | translate <how:{1-1|1-2|2-1|2-2}> <type:{dot1q|dot1ad}> <outer:u16 0..=4095> [<inner:u16 0..=4095>] )",
        help: "Change the VLAN tags of frames that an interface switches",
        detail: "What comes in is changed as said, what goes out the other way round: tags that were taken off are put on \
                 again as the sub-interface has them.",
        params: &[
            ("pop", "Tags to take off"),
            (
                "how",
                "Tags to take off, and how many are put on in their place",
            ),
            ("outer", "VLAN of the outer tag that is put on"),
            ("inner", "VLAN of the inner tag that is put on"),
        ],
        handler: tag_rewrite,
    },
];

/// A VLAN of a match.
fn vlan(text: &str) -> Result<VlanId> {
    match text.parse::<u16>() {
        Ok(id @ 1..=4094) => Ok(VlanId::Is(id)),
        _ if text == "any" => Ok(VlanId::Any),
        _ => Err(Error::refused(format!(
            "{text} is no VLAN: 1 to 4094 or any"
        ))),
    }
}

/// The numbers of a range, or of one sub-interface.
fn numbers(text: &str) -> Result<(u32, u32)> {
    let wrong = || {
        Error::refused(format!(
            "{text} is neither a number nor a range such as 100-199"
        ))
    };
    let number = |t: &str| t.parse::<u32>().map_err(|_| wrong());
    let (first, last) = match text.split_once('-') {
        Some((a, b)) => (number(a)?, number(b)?),
        None => (number(text)?, number(text)?),
    };
    if last < first || last - first >= RANGE {
        return Err(wrong());
    }
    Ok((first, last))
}

fn takes(args: &Args, id: u32) -> Result<VlanMatch> {
    if args.has("default") {
        return Ok(VlanMatch::Default);
    }
    if args.has("untagged") {
        return Ok(VlanMatch::Untagged);
    }
    let Some(kind) = args.get::<&str>("type") else {
        return Ok(VlanMatch::Tagged {
            dot1ad: false,
            outer: vlan(&id.to_string())?,
            inner: None,
            exact: true,
        });
    };
    Ok(VlanMatch::Tagged {
        dot1ad: kind == "dot1ad",
        outer: vlan(args.need("outer")?)?,
        inner: args.get::<&str>("inner").map(vlan).transpose()?,
        exact: args.has("exact-match"),
    })
}

fn create(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let parent = args.need::<&str>("if")?;
    let (first, last) = numbers(args.need("id")?)?;
    if first != last && (args.has("default") || args.has("untagged") || args.has("type")) {
        return Err(Error::refused(
            "a range stands alone: each number is then its VLAN",
        ));
    }
    let mut names = Vec::new();
    for id in first..=last {
        let sub = SubSpec {
            parent: 0,
            id,
            takes: takes(args, id)?,
        };
        names.push(r.create_sub_interface(parent, sub)?);
    }
    Ok(Output::Text(names.join(" ")))
}

fn delete(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    r.delete_sub_interface(args.need("if")?)?;
    Ok(Output::Done)
}

fn tag_rewrite(r: &mut Router, args: &Args, _: &Context) -> Result<Output> {
    let mut vtr = Vtr {
        pop: args.get("pop").unwrap_or(0),
        push: [args.get("outer"), args.get("inner")],
        dot1ad: args.get::<&str>("type") == Some("dot1ad"),
    };
    if let Some(how) = args.get::<&str>("how") {
        vtr.pop = if how.starts_with('1') { 1 } else { 2 };
        let into = if how.ends_with('1') { 1 } else { 2 };
        if vtr.push.iter().flatten().count() != into {
            return Err(Error::refused(format!(
                "translate {how} puts {into} on: it takes as many VLANs"
            )));
        }
    }
    r.set_tag_rewrite(args.need("if")?, vtr)?;
    Ok(Output::Done)
}
