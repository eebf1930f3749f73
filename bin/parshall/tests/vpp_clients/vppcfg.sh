#!/bin/sh
# vppcfg as it is, in a mount and a network namespace of its own (unshare -mn): it looks for /run/vpp/api.sock and nowhere else when it
# applies. Arguments: the router, its configuration, vppcfg, a folder for files.
set -eu
router=$1 config=$2 vppcfg=$3 dir=$4
mount --make-rprivate /
mount -t tmpfs none /run
"$router" run -c "$config" --vpp-compat 2>"$dir/router.log" &
pid=$!
trap 'kill $pid' EXIT
n=0
while [ ! -S /run/vpp/api.sock ]; do
  n=$((n + 1))
  [ $n -lt 200 ] && kill -0 $pid || { cat "$dir/router.log" >&2; exit 1; }
  sleep 0.1
done
"$vppcfg" check -c "$dir/wanted.yaml"
"$vppcfg" dump -o "$dir/before.yaml"
"$vppcfg" plan -c "$dir/wanted.yaml" -o "$dir/plan.exec"
"$vppcfg" apply -c "$dir/wanted.yaml"
"$vppcfg" dump -o "$dir/after.yaml"
# Nothing is left to do.
"$vppcfg" plan -c "$dir/wanted.yaml" -o "$dir/again.exec"
# The router ends in order, or the test fails.
trap - EXIT
kill $pid
wait $pid
