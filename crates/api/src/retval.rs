//! VPP's numbers for why not (`vnet/error.h`), and which of them stands for which refusal of the router.

use parshall_control::Error;

/// Anything.
pub const UNSPECIFIED: i32 = -1;
/// No such interface.
pub const NO_INTERFACE: i32 = -2;
/// No such table.
pub const NO_TABLE: i32 = -3;
/// No such entry.
pub const NO_ENTRY: i32 = -6;
/// A value that cannot be.
pub const VALUE: i32 = -7;
/// Not here.
pub const UNIMPLEMENTED: i32 = -9;
/// The system refused.
pub const SYSTEM: i32 = -11;
/// It cannot be made under that number.
pub const REGISTRATION: i32 = -31;
/// No paths in a route.
pub const NO_PATHS: i32 = -52;
/// No interface of that index in a path.
pub const NO_MATCHING_INTERFACE: i32 = -54;
/// A VLAN that cannot be.
pub const VLAN: i32 = -55;
/// A sub-interface of that number or VLAN is there.
pub const VLAN_EXISTS: i32 = -56;
/// An address is not on that interface.
pub const NO_ADDRESS: i32 = -60;
/// The interface does not speak IPv6.
pub const NO_IP6: i32 = -62;
/// An interface that cannot do that.
pub const WRONG_INTERFACE: i32 = -71;
/// Fewer tags than are to be taken off.
pub const TAG_COUNT: i32 = -72;
/// An argument that cannot be.
pub const ARGUMENT: i32 = -73;
/// There is such a tunnel.
pub const TUNNEL_EXISTS: i32 = -75;
/// There is an interface of that name.
pub const INTERFACE_EXISTS: i32 = -79;
/// A member of a bond cannot do that.
pub const BOND_MEMBER: i32 = -80;
/// It is so already.
pub const EXISTS: i32 = -81;
/// Both ends are the same.
pub const SAME_ENDS: i32 = -82;
/// An address of no family.
pub const FAMILY: i32 = -97;
/// Not the index of a sub-interface.
pub const NO_SUB_INTERFACE: i32 = -98;
/// Another address of the table has that subnet.
pub const ADDRESS_IN_USE: i32 = -105;
/// An interface has addresses.
pub const ADDRESS_FOUND: i32 = -114;
/// An entry is there.
pub const ENTRY_EXISTS: i32 = -116;
/// A bridge domain of that number is there.
pub const BRIDGE_EXISTS: i32 = -119;
/// A bridge domain has ports.
pub const BRIDGE_IN_USE: i32 = -120;
/// Bridge domain 0 is none to change.
pub const BRIDGE_FIXED: i32 = -121;
/// Too large a number for a bridge domain.
pub const BRIDGE_NUMBER: i32 = -122;
/// Another interface has the address.
pub const DUPLICATE_ADDRESS: i32 = -127;
/// A list filters what comes in somewhere.
pub const ACL_IN_USE_INPUT: i32 = -142;
/// A list filters what goes out somewhere.
pub const ACL_IN_USE_OUTPUT: i32 = -143;
/// The number in the name is taken.
pub const INSTANCE_IN_USE: i32 = -147;
/// A bridge domain has a routed interface already.
pub const HAS_BVI: i32 = -152;
/// A limit is reached.
pub const LIMIT: i32 = -162;
/// Ask again.
pub const AGAIN: i32 = -165;
/// A prefix that is too long for its family.
pub const PREFIX_LENGTH: i32 = -171;

/// VPP's number for what the router says, where the message has none of its own for it.
pub fn of(e: &Error) -> i32 {
    match e {
        Error::NoInterface { .. } => NO_INTERFACE,
        Error::NoTable { .. } => NO_TABLE,
        Error::InterfaceExists(_) => INTERFACE_EXISTS,
        Error::DuplicateAddress { .. } => DUPLICATE_ADDRESS,
        Error::Overlap { .. } => ADDRESS_IN_USE,
        Error::Interface { .. } => WRONG_INTERFACE,
        Error::Missing(_) => NO_ENTRY,
        Error::Exists(_) => EXISTS,
        Error::Full(_) => LIMIT,
        Error::Device(_) => SYSTEM,
        Error::Refused(_) => VALUE,
        Error::InUse(_) | Error::Parse(_) => UNSPECIFIED,
    }
}
