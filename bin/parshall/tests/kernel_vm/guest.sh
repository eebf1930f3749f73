#!/bin/bash
# What the guest does: a router with hsflowd's channels on, a reader of ours and one of strangers, packets of known bytes.
# guest.sh PARSHALL FOLDER: the folder has packets.pcap, drops.pcap, router.yaml, reader.py and kernel.hex (frames), and gets the rest.
set -euo pipefail
parshall=$1 dir=$2
cd "$dir"
ctl() { "$parshall" ctl --socket /run/parshall.sock "$@"; }
until_true() { # tries a command for a minute
  for _ in $(seq 600); do "$@" && return; sleep 0.1; done
  echo "still not true: $*" >&2
  return 1
}
ip link add left type veth peer name left-far
ip link add kernel type veth peer name kernel-far
for i in left left-far kernel kernel-far; do
  sysctl -qw "net.ipv6.conf.$i.disable_ipv6=1"
  ip link set "$i" up
done
tc qdisc add dev kernel clsact
tc filter add dev kernel ingress matchall action sample rate 1 group 9

python3 reader.py "$dir/messages" &
"$parshall" run -c router.yaml 2>log &
"$parshall" sflow psample --json >samples 2>psample.log &
# It reads commands as from a keyboard, and would end where they end.
(echo "set alertmode packet"; echo start; sleep 600) | stdbuf -o0 dropwatch >dropwatch.log 2>&1 &
until_true grep -q activated dropwatch.log
until_true grep -q ready messages 2>/dev/null
until_true grep -q listening psample.log
until_true test -S /run/parshall.sock
ready() { [ "$(ctl --json show sflow | tr -d ' \n' | grep -o '"state":"ready"' | wc -l)" = "$1" ]; }
until_true ready 3
# Only now: what the router sends on its own account when it starts would be sampled before the kernel takes samples.
ctl sflow enable host-left direction tx sampling-rate 1

ctl packet-generator enable-stream packets
ctl packet-generator enable-stream drops
python3 reader.py send kernel-far $(cat kernel.hex)
sent() { [ "$(grep -c '"group":3' samples)" -ge "$(cat expected)" ]; }
until_true sent
# Two more polls, so that counters tell of all packets.
sleep 4
ctl --json show sflow >sflow.json
ctl --json show interface >interfaces.json
ctl --json show hardware-interfaces >hardware.json
cp /sys/class/net/left/ifindex left.index
cp /sys/class/net/kernel/ifindex kernel.index
kill %2
wait %2
kill %1 %3
wait %3
