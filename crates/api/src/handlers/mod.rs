//! What each message does with the router: one file for each kind of object.
//!
//! Everything is done by the router's own methods. Objects that the router does not have are refused with -9 and listed as none.

mod acl;
mod address;
mod bond;
pub(crate) mod interface;
mod l2;
mod macip;
mod mpls;
mod neighbor;
mod route;
mod sflow;
mod system;
mod tap;
mod tunnel;

use parshall_control::{Interface, Router};

use crate::registry::{Done, Refusal, Registry};
use crate::retval;

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
        macip::register,
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

/// Deletes an interface of the kind that `stem` says.
fn delete(r: &mut Router, index: u32, stem: &str) -> Done<()> {
    let i = interface_of(r, index)?;
    let name = i.name.clone();
    if i.spec.as_ref().is_none_or(|s| s.kind.stem() != stem) {
        let why = format!("{name} is an interface of another kind");
        return Err(Refusal::new(retval::NO_INTERFACE, why));
    }
    Ok(r.delete_interface(&name, stem)?)
}

/// A text of a client as it can stand in a command line and in a configuration.
fn plain_text(text: &str) -> Done<&str> {
    let fine = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '{' | '}' | '#' | '\\');
    if text.is_empty() || !text.chars().all(fine) {
        let why = format!(
            "{text:?} cannot be used: visible characters without quotes, braces, # and \\ can"
        );
        return Err(Refusal::new(retval::VALUE, why));
    }
    Ok(text)
}

/// The Ethernet address that a new interface is to have, if it is told one.
fn own_mac(mac: [u8; 6], given: bool) -> Done<Option<[u8; 6]>> {
    if !given || mac == [0; 6] {
        return Ok(None);
    }
    if mac[0] & 1 != 0 {
        let why = format!("{mac:02x?} is a group's address: an interface cannot have it");
        return Err(Refusal::new(retval::VALUE, why));
    }
    Ok(Some(mac))
}
