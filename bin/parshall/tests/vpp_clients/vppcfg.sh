#!/bin/sh
# vppcfg as it is, in a mount and a network namespace of its own (unshare -mn): it looks for /run/vpp/api.sock and nowhere else when it
# applies. Takes a router to everything that largest.yaml asks for, and back to nothing.yaml. Arguments: the router, its configuration,
# vppcfg, the folder of those two, a folder for files.
set -eu
router=$1 config=$2 vppcfg=$3 wanted=$4 dir=$5
mount --make-rprivate /
mount -t tmpfs none /run
ip link add br0 type bridge
ip link add br1 type bridge
"$router" run -c "$config" --vpp-compat 2>"$dir/router.log" &
pid=$!
trap 'kill $pid' EXIT
n=0
while [ ! -S /run/vpp/api.sock ]; do
  n=$((n + 1))
  [ $n -lt 200 ] && kill -0 $pid || { cat "$dir/router.log" >&2; exit 1; }
  sleep 0.1
done
for step in largest nothing; do
  "$vppcfg" check -c "$wanted/$step.yaml"
  "$vppcfg" plan -c "$wanted/$step.yaml" -o "$dir/$step.exec"
  "$vppcfg" apply -c "$wanted/$step.yaml"
  "$vppcfg" dump -o "$dir/$step.yaml"
  ip -br link show master br0 >"$dir/$step.ports"
  # Nothing is left to do.
  "$vppcfg" plan -c "$wanted/$step.yaml" -o "$dir/$step.again"
done
# The router ends in order, or the test fails.
trap - EXIT
kill $pid
wait $pid
