//! Access lists.

use parshall_vpp_wire::msg::*;

use crate::registry::Registry;

pub(super) fn register(t: &mut Registry) {
    t.answer(|_, _: &AclPluginGetVersion| Ok(AclPluginGetVersionReply { major: 1, minor: 4 }));
    t.dump(|_, _: &AclDump, _| {});
    t.dump(|_, _: &AclInterfaceListDump, _| {});
    t.dump(|_, _: &MacipAclDump, _| {});
    t.ack(|_, _: &AclStatsIntfCountersEnable| Ok(()));
}
