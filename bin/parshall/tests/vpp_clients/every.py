"""VPP's own Python library calls every request that the router lists, first against a router that has something of every kind, so that each
dump tells of something: each is answered with the message that its definition names, and the router lives on. Argument: SOCKET."""

import sys

from vpp_papi import VPPApiClient

vpp = VPPApiClient(server_address=sys.argv[1], bootstrapapi=True)
vpp.connect("every-message")
api = vpp.api

# About the connection itself: what the library sends by itself, or what ends it.
OWN = {
    "memclnt_create", "memclnt_create_v2", "memclnt_delete", "memclnt_rx_thread_suspend", "memclnt_read_timeout", "rx_thread_exit",
    "sockclnt_create", "sockclnt_delete", "rpc_call", "trace_plugin_msg_ids",
}
# Where nothing is a value that the library cannot put into a message, or not one to try.
ARGUMENTS = {
    "sw_interface_set_mtu": {"sw_if_index": 1, "mtu": [0] * 4},
    "get_first_msg_id": {"name": "sflow_273ad146"},
    "tap_create_v2": {"id": 7},
    "tap_create_v3": {"id": 8},
}
# Nothing of the kind is ever there.
EMPTY = {"ip_mtable_dump", "lcp_itf_pair_get", "lcp_itf_pair_get_v2", "proxy_arp_dump", "proxy_arp_intfc_dump"}

SETUP = """
set interface state pg0 up
set interface ip address pg0 10.0.0.1/24
create loopback interface
set interface ip address loop0 10.255.0.1/32
create sub pg0 100 dot1q 100 exact-match
set interface unnumbered pg0.100 use loop0
ip table add 5
ip route add 10.9.0.0/16 via 10.0.0.2 pg0
set ip neighbor pg0 10.0.0.2 02:00:00:00:00:02
mpls table add 0
set interface mpls pg0 enable
mpls local-label add 100 eos via 10.0.0.2 pg0
create bond id 0 mode xor
create packet-generator interface pg2
create packet-generator interface pg3
create packet-generator interface pg4
bond add BondEthernet0 pg2
set interface l2 xconnect pg3 pg4
set interface l2 bridge pg1 10
l2fib add 02:00:00:00:00:05 10 pg1 static
set bridge-domain arp entry 10 10.1.0.1 02:00:00:00:00:06
create vxlan tunnel src 10.0.0.1 dst 10.0.0.3 vni 7 decap-next l2
create gre tunnel src 10.0.0.1 dst 10.0.0.3
create ipip tunnel src 10.0.0.1 dst 10.0.0.3
create tap id 3
sflow enable pg0
"""
for line in SETUP.strip().splitlines():
    said = api.cli_inband(cmd=line)
    assert said.retval == 0, (line, said)
acl = api.acl_add_replace(acl_index=0xFFFFFFFF, tag="all", count=1, r=[{
    "is_permit": 1, "proto": 0, "src_prefix": "0.0.0.0/0", "dst_prefix": "0.0.0.0/0",
    "srcport_or_icmptype_last": 65535, "dstport_or_icmpcode_last": 65535}])
assert acl.retval == 0, acl
assert api.acl_interface_set_acl_list(sw_if_index=1, count=1, n_input=1, acls=[acl.acl_index]).retval == 0
macip = api.macip_acl_add_replace(acl_index=0xFFFFFFFF, tag="own", count=1, r=[{
    "is_permit": 1, "src_mac": "02:00:00:00:00:02", "src_mac_mask": "ff:ff:ff:ff:ff:ff", "src_prefix": "10.0.0.0/24"}])
assert macip.retval == 0, macip
assert api.macip_acl_interface_add_del(sw_if_index=1, acl_index=macip.acl_index).retval == 0


def answered(name, service):
    """Calls a request; what is wrong with the answer, or nothing."""
    arguments = dict(ARGUMENTS.get(name, {}))
    if "dump" in name and name != "sw_interface_dump":
        known = vpp.messages[name].field_by_name
        arguments.update({f: WANTED[f] for f in WANTED if f in known and name not in WITHOUT})
    answer = getattr(api, name)(**arguments)
    if service.get("stream"):
        if "stream_msg" in service:
            reply, answer = answer
            if type(reply).__name__ != service["reply"]:
                return f"a {type(reply).__name__} at the end"
            details = service["stream_msg"]
        else:
            details = service["reply"]
        if not answer and name not in EMPTY:
            return "nothing is told"
        wrong = {type(a).__name__ for a in answer} - {details}
        return f"{wrong} among the details" if wrong else None
    if type(answer).__name__ != service["reply"]:
        return f"a {type(answer).__name__}"
    return None


# What dumps have to be asked for so that they tell of something.
WANTED = {"sw_if_index": 0xFFFFFFFF, "bd_id": 0xFFFFFFFF, "acl_index": 0xFFFFFFFF}
WITHOUT = set()
bond = next(i.sw_if_index for i in api.sw_interface_dump() if i.interface_name == "BondEthernet0")
ARGUMENTS["ip_address_dump"] = {"sw_if_index": 1}
ARGUMENTS["sw_member_interface_dump"] = {"sw_if_index": bond}
ARGUMENTS["l2_fib_table_dump"] = {"bd_id": 10}
WITHOUT.update({"ip_address_dump", "sw_member_interface_dump", "l2_fib_table_dump"})

services = {n: s for n, s in vpp.services.items() if n not in OWN}
assert len(services) > 110, len(services)
# Dumps first: others change what there is to tell.
faults = []
for name in sorted(services, key=lambda n: (not services[n].get("stream"), n)):
    try:
        fault = answered(name, services[name])
    except Exception as e:
        fault = f"{type(e).__name__}: {e}"
    if fault:
        faults.append(f"{name}: {fault}")
    assert api.control_ping().retval == 0, name
assert not faults, "\n".join(faults)
assert api.show_version().program == "vpe"
vpp.disconnect()
print(f"{len(services)} requests; every message: all well")
