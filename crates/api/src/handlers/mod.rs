//! What each message does with the router: one file for each kind of object.
//!
//! Where the router has a typed method it is called; where there is a command of VPP's grammar that does the same, that is given. Objects
//! that the router does not have yet are refused with -9 and listed as none.

mod acl;
mod address;
mod bond;
pub(crate) mod interface;
mod l2;
mod mpls;
mod neighbor;
mod route;
mod sflow;
mod system;
mod tap;
mod tunnel;

use parshall_control::{Error, Interface, Output, Router};

use crate::registry::{Done, Refusal, Registry, retval};

/// No interface, or any.
pub(crate) const NONE: u32 = u32::MAX;

/// All handlers.
pub(crate) fn all() -> Registry {
    let mut t = Registry::new();
    for register in [
        interface::register,
        address::register,
        route::register,
        neighbor::register,
        mpls::register,
        l2::register,
        bond::register,
        tap::register,
        tunnel::register,
        acl::register,
        sflow::register,
        system::register,
    ] {
        register(&mut t);
    }
    t
}

/// An interface by its index.
fn interface_of(r: &Router, index: u32) -> Done<&Interface> {
    r.interfaces().get(index).ok_or_else(|| {
        Refusal::new(
            retval::NO_INTERFACE,
            format!("there is no interface {index}"),
        )
    })
}

/// Its name.
fn name_of(r: &Router, index: u32) -> Done<String> {
    interface_of(r, index).map(|i| i.name.clone())
}

/// The index of an interface by its name.
fn index_of(r: &Router, name: &str) -> Done<u32> {
    Ok(r.interfaces().find(name)?)
}

/// Whether a dump for `wanted` (none = all) tells of this one.
fn is_wanted(wanted: u32, i: &Interface) -> bool {
    wanted == NONE || wanted == i.index
}

/// Gives a command; a line that the router has no command for is something it cannot do.
fn command(r: &mut Router, line: &str) -> Done<String> {
    match r.run_line(line, false) {
        Ok(Output::Text(text)) => Ok(text),
        Ok(_) => Ok(String::new()),
        Err(Error::Parse(why)) => {
            let why = why.lines().next().unwrap_or_default();
            Err(Refusal::new(
                retval::UNIMPLEMENTED,
                format!("`{line}`: {why}"),
            ))
        }
        Err(e) => Err(e.into()),
    }
}

/// Gives a command that makes an interface and says its name; the interface's index.
fn command_makes(r: &mut Router, line: &str) -> Done<u32> {
    let said = command(r, line)?;
    index_of(r, said.trim())
}

/// The words of a MAC address option of a command, nothing where the driver is to choose.
fn mac_option(word: &str, mac: [u8; 6], given: bool) -> String {
    if given && mac != [0; 6] {
        format!(" {word} {}", mac_text(mac))
    } else {
        String::new()
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    let bytes: Vec<String> = mac.iter().map(|b| format!("{b:02x}")).collect();
    bytes.join(":")
}
