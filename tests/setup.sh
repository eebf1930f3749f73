#!/usr/bin/env bash
# Makes sure that the programs the end-to-end tests call are there. As root on Debian or Ubuntu it
# installs what is missing; otherwise it names exactly what is missing and fails.
set -euo pipefail

# program:Debian package, and what the tests do with it
needs=(
  ip:iproute2              # the far side of links and routes, as an operator would set them
  ping:iputils-ping        # reachability, ICMP errors, path MTU
  traceroute:traceroute    # TTL and hop limit handling
  iperf3:iperf3            # TCP and UDP through the router
  python3:python3          # sends datagrams of thousands of flows
  ethtool:ethtool          # offloads of the far side
  setpriv:util-linux       # routers without a privilege
  dnsmasq:dnsmasq-base     # the name server that discovery asks
  clang:clang              # compiles the kernel programs again, to compare
  tshark:tshark            # an independent judge of every datagram and packet we emit
  dpdk-testpmd:dpdk-dev    # the yardstick of the benches, and the other side of memif
  valgrind:valgrind        # counts the instructions a packet takes
)

PATH="$PATH:/usr/sbin:/sbin"
programs=() packages=()
for need in "${needs[@]}"; do
  if ! command -v "${need%%:*}" >/dev/null; then
    programs+=("${need%%:*}")
    packages+=("${need##*:}")
  fi
done
[ ${#packages[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "tests/setup.sh: installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -q -y --no-install-recommends "${packages[@]}"
  exit 0
fi

{
  echo "tests/setup.sh: the tests need these programs, which are not installed: ${programs[*]}"
  if command -v apt-get >/dev/null; then
    echo "  sudo apt-get install ${packages[*]}"
  else
    echo "  (Debian calls their packages: ${packages[*]})"
  fi
} >&2
exit 1
