"""VPP's own Python library as it is, against a router with pg0 and pg1: SOCKET, and the folder of API JSON unless it is to ask the router."""

import sys
import time

from vpp_papi import VPPApiClient

socket = sys.argv[1]
if len(sys.argv) > 2:
    vpp = VPPApiClient(server_address=socket, apidir=sys.argv[2])
else:
    vpp = VPPApiClient(server_address=socket, bootstrapapi=True)
events = []
vpp.register_event_callback(lambda name, message: events.append((name, message)))
vpp.connect("papi-test")
api = vpp.api

version = api.show_version()
assert version.retval == 0 and version.program == "vpe", version
assert any(v.name == "sflow.api" for v in api.api_versions().api_versions)

interfaces = {i.interface_name: i for i in api.sw_interface_dump()}
assert list(interfaces) == ["local0", "pg0", "pg1"], list(interfaces)
pg0 = interfaces["pg0"].sw_if_index
assert (pg0, interfaces["pg0"].interface_dev_type) == (1, "pg"), interfaces["pg0"]

# sFlow, as its users script it.
for n in (100, 10, 128):
    assert api.sflow_sampling_rate_set(sampling_N=n).retval == 0
    assert api.sflow_sampling_rate_get().sampling_N == n
assert api.sflow_sampling_rate_set().retval == 0
assert api.sflow_sampling_rate_get().sampling_N == 10000
assert api.sflow_polling_interval_set(polling_S=10).retval == 0
assert api.sflow_polling_interval_get().polling_S == 10
assert api.sflow_header_bytes_set(header_B=128).retval == 0
assert api.sflow_header_bytes_get().header_B == 128
for index in (1, 2):
    assert api.sflow_enable_disable(enable_disable=True, hw_if_index=index).retval == 0
assert [d.hw_if_index for d in api.sflow_interface_dump()] == [1, 2]
assert [d.hw_if_index for d in api.sflow_interface_dump(hw_if_index=2)] == [2]
assert api.sflow_interface_dump(hw_if_index=1234) == []
assert api.sflow_enable_disable(enable_disable=False, hw_if_index=1).retval == 0
assert [d.hw_if_index for d in api.sflow_interface_dump()] == [2]
assert api.sflow_enable_disable(enable_disable=False, hw_if_index=2).retval == 0
assert api.sflow_enable_disable(enable_disable=False, hw_if_index=2).retval == -81
assert api.sflow_enable_disable(enable_disable=True, hw_if_index=99).retval == -2
assert api.sflow_direction_set(sampling_D=3).retval == 0
assert api.sflow_direction_get().sampling_D == 3
assert api.sflow_drop_monitoring_get().drop_M == 0

# Interfaces, addresses, routes.
assert api.sw_interface_set_flags(sw_if_index=pg0, flags=1).retval == 0
assert api.sw_interface_add_del_address(sw_if_index=pg0, is_add=1, prefix="172.16.1.1/24").retval == 0
assert [str(a.prefix) for a in api.ip_address_dump(sw_if_index=pg0, is_ipv6=False)] == ["172.16.1.1/24"]
assert api.ip_table_add_del_v2(table={"table_id": 9, "is_ip6": False}, is_add=1).retval == 0
path = {"sw_if_index": pg0, "weight": 1, "proto": 0, "nh": {"address": {"ip4": "172.16.1.2"}}, "label_stack": [{}] * 16}
route = {"table_id": 9, "prefix": "10.1.0.0/16", "n_paths": 1, "paths": [path]}
assert api.ip_route_add_del(is_add=1, is_multipath=0, route=route).retval == 0
told = api.ip_route_dump(table={"table_id": 9, "is_ip6": False})
assert [(str(d.route.prefix), d.route.n_paths) for d in told] == [("10.1.0.0/16", 1)], told
assert str(told[0].route.paths[0].nh.address.ip4) == "172.16.1.2"
assert api.ip_route_lookup(table_id=9, prefix="10.1.2.3/32").route.paths[0].sw_if_index == pg0
assert api.ip_table_add_del_v2(table={"table_id": 9, "is_ip6": False}, is_add=0).retval == 0
neighbor = {"sw_if_index": pg0, "flags": 1, "mac_address": "02:00:00:00:00:09", "ip_address": "172.16.1.9"}
assert api.ip_neighbor_add_del(is_add=1, neighbor=neighbor).retval == 0
assert [str(n.neighbor.mac_address) for n in api.ip_neighbor_dump(sw_if_index=pg0, af=0)] == ["02:00:00:00:00:09"]

# Sub-interfaces and labels.
sub = api.create_subif(sw_if_index=pg0, sub_id=20, sub_if_flags=2 | 16, outer_vlan_id=20, inner_vlan_id=0)
assert sub.retval == 0, sub
told = api.sw_interface_dump(sw_if_index=sub.sw_if_index)[0]
assert (told.interface_name, told.sub_id, told.sub_outer_vlan_id, told.type) == ("pg0.20", 20, 20, 1), told
assert api.delete_subif(sw_if_index=sub.sw_if_index).retval == 0
assert api.mpls_table_add_del(mt_is_add=1, mt_table={"mt_table_id": 0}).retval == 0
assert api.sw_interface_set_mpls_enable(sw_if_index=pg0, enable=1).retval == 0
assert [m.sw_if_index for m in api.mpls_interface_dump()] == [pg0]
label = {"mr_label": 100, "mr_eos": 1, "mr_n_paths": 1, "mr_paths": [path]}
assert api.mpls_route_add_del(mr_is_add=1, mr_is_multipath=0, mr_route=label).retval == 0
assert [d.mr_route.mr_label for d in api.mpls_route_dump(table={"mt_table_id": 0})] == [100]

# Command lines, and what is not there.
assert "pg0" in api.cli_inband(cmd="sh int").reply
wrong = api.cli_inband(cmd="set interface state nowhere up")
assert wrong.retval < 0 and "nowhere" in wrong.reply, wrong
assert api.lcp_itf_pair_add_del_v3(sw_if_index=pg0, host_if_name="x").retval == -9
assert api.bridge_domain_dump() == []

# A bridge domain, and what it learns.
assert api.want_l2_macs_events2(max_macs_in_event=0).retval == -7
assert api.want_l2_macs_events2(pid=7).retval == 0
assert api.l2fib_set_scan_delay(scan_delay=1).retval == 0
for line in (
    "set interface l2 bridge pg1 20",
    "set interface state pg1 up",
    "packet-generator new { name learn limit 1 size 64-64 interface pg1 node ethernet-input data { "
    "IP4: 0200.0000.0077 -> 0200.0000.0099 UDP: 192.0.2.1 -> 192.0.2.2 UDP: 1 -> 2 incrementing 8 } }",
):
    assert api.cli_inband(cmd=line).retval == 0, line
pg1 = interfaces["pg1"].sw_if_index
# The first look comes after the wish, and only what is learned from then on is told.
learned = []
deadline = time.monotonic() + 20
while not learned and time.monotonic() < deadline:
    for line in ("l2fib flush-mac all", "packet-generator enable-stream learn"):
        assert api.cli_inband(cmd=line).retval == 0, line
    time.sleep(0.1)
    learned = [m for name, e in list(events) if name == "l2_macs_event" for m in e.mac if m.action == 0]
assert learned and str(learned[0].mac_addr) == "02:00:00:00:00:77" and learned[0].sw_if_index == pg1, events
assert {e.pid for name, e in events if name == "l2_macs_event"} == {7}
assert [str(e.mac) for e in api.l2_fib_table_dump(bd_id=20)] == ["02:00:00:00:00:77"]
assert api.bridge_domain_add_del_v2(bd_id=20, is_add=0).retval == -120

vpp.disconnect()
print("papi: all well")
