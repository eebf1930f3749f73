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
  tcpdump:tcpdump          # takes datagrams off the loopback
  sfcapd:nfdump-sflow      # collectors of others, which our datagrams have to please:
  nfdump:nfdump            #   nfdump's,
  sfacctd:pmacct           #   pmacct's
  go:golang-go             #   and goflow2, which is built below
  dpdk-testpmd:dpdk-dev    # the yardstick of the benches, and the other side of memif
  valgrind:valgrind        # counts the instructions a packet takes
  qemu-system-x86_64:qemu-system-x86 # a stock kernel beside this one (tests/kvm-lab), with all its modules
  busybox:busybox-static   # what starts in it, with cpio to pack it
  cpio:cpio
  modprobe:kmod            # finds the modules it needs
  xz:xz-utils              # unpacks its kernel
  /usr/lib/frr/bgpd:frr    # tells us of its BGP routes by BMP
  promtool:prometheus      # judges the metrics; nothing of it needs to run
  script:bsdutils          # a terminal for `parshall top`
  systemd-analyze:systemd  # judges the service's unit
  dropwatch:dropwatch      # reads the drops that we report to the kernel's drop monitor
)

PATH="$PATH:/usr/sbin:/sbin"
programs=() packages=()
python3 -c 'import ensurepip' 2>/dev/null || { programs+=(python3-venv) packages+=(python3-venv); }
for need in "${needs[@]}"; do
  if ! command -v "${need%%:*}" >/dev/null; then
    programs+=("${need%%:*}")
    packages+=("${need##*:}")
  fi
done

# Debian's Python comes without what makes environments.
if ! python3 -c 'import ensurepip, venv' 2>/dev/null; then
  programs+=("python3 -m venv")
  packages+=(python3-venv)
fi

install_packages() {
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "tests/setup.sh: installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q
    apt-get install -q -y --no-install-recommends "${packages[@]}"
    return
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
}

# goflow2 is a Go module and nobody's package. It is built once, into the user's cache.
goflow2=github.com/netsampler/goflow2/v2/cmd/goflow2@v2.2.6
goflow2_toolchain=go1.24.1 # its go.mod's
build_goflow2() {
  local bin="${XDG_CACHE_HOME:-$HOME/.cache}/parshall-tests/bin" built
  built=$(go version -m "$bin/goflow2" 2>/dev/null | awk '$1 == "mod" { print $3 }' || true)
  [ "$built" = "${goflow2##*@}" ] && return
  echo "tests/setup.sh: building $goflow2"
  local go=go have
  have=$(go env GOVERSION)
  # Before 1.21 a Go cannot fetch the toolchain that a module asks for. But a toolchain is itself a module.
  if [ "$(printf 'go1.21\n%s\n' "$have" | sort -V | head -1)" != go1.21 ]; then
    local module="golang.org/toolchain@v0.0.1-$goflow2_toolchain.$(go env GOOS)-$(go env GOARCH)"
    go mod download "$module"
    local root
    root="$(go env GOMODCACHE)/$module"
    chmod -R u+w "$root" && chmod -R +x "$root/bin" "$root/pkg/tool"
    go="$root/bin/go"
  fi
  # A newer Go builds it as it is; an older one fetches what go.mod asks for.
  local choice=auto
  [ "$(printf '%s\n%s\n' "$goflow2_toolchain" "$have" | sort -V | head -1)" = "$goflow2_toolchain" ] && choice=local
  env -u GOROOT GOTOOLCHAIN="$choice" GOBIN="$bin" GOFLAGS= CGO_ENABLED=0 "$go" install "$goflow2"
}

# VPP's clients, unmodified: its Python library and vppcfg from PyPI, and a small client with its Go library.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/parshall-tests"
python_clients=(vpp-papi==2.4.2 vppcfg==1.2.4)
install_vpp_clients() {
  local venv="$cache/vpp-clients" stamp
  stamp="${python_clients[*]}"
  if [ "$(cat "$venv/.installed" 2>/dev/null || true)" != "$stamp" ]; then
    echo "tests/setup.sh: installing $stamp"
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check "${python_clients[@]}"
    echo "$stamp" >"$venv/.installed"
  fi
  # The Go client is built of what stands in tests/govpp, with the toolchain of goflow2 where Go is older than modules with toolchains.
  local here source
  here="$(cd "$(dirname "${BASH_SOURCE[0]}")/govpp" && pwd)"
  source=$(cat "$here"/*.go "$here"/go.mod "$here"/go.sum | sha256sum | cut -d' ' -f1)
  [ -x "$cache/bin/govpp-client" ] && [ "$(cat "$cache/bin/govpp-client.source" 2>/dev/null || true)" = "$source" ] && return
  echo "tests/setup.sh: building tests/govpp"
  local go=go root
  root="$(go env GOMODCACHE)/golang.org/toolchain@v0.0.1-$goflow2_toolchain.$(go env GOOS)-$(go env GOARCH)"
  if [ "$(printf 'go1.21\n%s\n' "$(go env GOVERSION)" | sort -V | head -1)" != go1.21 ]; then
    if [ ! -x "$root/bin/go" ]; then
      go mod download "golang.org/toolchain@v0.0.1-$goflow2_toolchain.$(go env GOOS)-$(go env GOARCH)"
      chmod -R u+w "$root" && chmod -R +x "$root/bin" "$root/pkg/tool"
    fi
    go="$root/bin/go"
  fi
  (cd "$here" && env -u GOROOT GOFLAGS= CGO_ENABLED=0 "$go" build -trimpath -o "$cache/bin/govpp-client" .)
  echo "$source" >"$cache/bin/govpp-client.source"
}

# Judges from PyPI, in an environment of their own in the user's cache.
judges=(openapi-spec-validator==0.9.0 prometheus-client==0.26.0)
build_venv() {
  local venv="${XDG_CACHE_HOME:-$HOME/.cache}/parshall-tests/venv" judge
  [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
  for judge in "${judges[@]}"; do
    [ -d "$(echo "$venv"/lib/python3*/site-packages/"$(echo "${judge%%==*}" | tr - _)-${judge##*==}".dist-info)" ] ||
      "$venv/bin/pip" install --quiet --disable-pip-version-check "$judge"
  done
}

[ ${#packages[@]} -eq 0 ] || install_packages
build_goflow2
install_vpp_clients
build_venv
