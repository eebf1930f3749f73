#!/usr/bin/env bash
# Runs tests of VPP's own Python test-suite, unmodified, with Parshall in VPP's place.
#
#   tests/vpp-suite.sh [TEST...]      a file, file.class or file.class.method; by default those known to pass
#
# VPP's source is fetched once, into the user's cache; nothing of it is a part of Parshall. With VPP_SOURCE=FOLDER
# a checkout that is there already is used. PARSHALL=BINARY is what is tested (default: the release binary).
set -euo pipefail

known=(test_sflow test_sflow_egress test_l2xc test_l2xc_multi_instance test_l2bd test_l2bd_multi_instance test_l2bd_learnlimit test_l2bd_learnlimit_bdenabled
  test_ip6_vrf_multi_instance test_vtr test_ip_ecmp test_interface_crud test_pg_capture)
version=b575ec2c56d7da5da54ab34ccdd3c019ac8cb642 # of the 26.10 line: what the known ones were seen to pass with
here="$(cd "$(dirname "$0")/.." && pwd)"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/parshall-tests"
parshall="${PARSHALL:-$here/target/release/parshall}"
[ -x "$parshall" ] || { echo "$0: $parshall is missing: make build, or PARSHALL=PATH" >&2; exit 1; }
command -v tshark >/dev/null || { echo "$0: tshark is missing: tests/setup.sh" >&2; exit 1; }

source="${VPP_SOURCE:-$cache/vpp-${version:0:12}}"
if [ ! -d "$source/test" ]; then
  echo "$0: fetching VPP ${version:0:12}"
  mkdir -p "$source.part"
  curl -fsSL "https://github.com/FDio/vpp/archive/$version.tar.gz" |
    tar xz -C "$source.part" --strip-components 1
  mv "$source.part" "$source"
fi

# What test/requirements.txt of VPP asks for, as far as these tests import it.
venv="$cache/vpp-suite"
packages="vpp-papi==2.4.2 scapy==2.4.5 ply sh parameterized pexpect psutil six syslog_rfc5424_parser objgraph
  pympler noiseprotocol pyyaml jsonschema pycryptodome cryptography deprecation"
if [ "$(cat "$venv/.installed" 2>/dev/null || true)" != "$packages" ]; then
  python3 -m venv --clear "$venv"
  # shellcheck disable=SC2086 # several words
  "$venv/bin/pip" install --quiet --disable-pip-version-check $packages
  echo "$packages" >"$venv/.installed"
fi

# The framework reads every message that VPP has, also those that Parshall does not.
work="$cache/vpp-suite-$(cd "$source" && pwd | cksum | cut -d' ' -f1)"
if [ ! -e "$work/json/.complete" ]; then
  echo "$0: describing VPP's messages"
  mkdir -p "$work/json/core" "$work/json/plugins"
  (cd "$source" && find src -name '*.api' | while read -r file; do
    case $file in src/plugins/*) kind=plugins ;; *) kind=core ;; esac
    "$venv/bin/python" src/tools/vppapigen/vppapigen.py --includedir src --input "$file" \
      JSON --outputdir "$work/json/$kind/" --output "$work/json/$kind/$(basename "$file").json" >/dev/null
  done)
  touch "$work/json/.complete"
fi
mkdir -p "$work/bin" "$work/failed"
ln -sf "$(realpath "$parshall")" "$work/bin/vpp"

filters="$(IFS=,; echo "${*:-${known[*]}}" | tr ' ' ',')"
export PYTHONPATH="$source/test:$source/test/asf"
cd "$source/test"
exec "$venv/bin/python" run_tests.py --filter="$filters" --vpp="$work/bin/vpp" --vpp-install-dir="$work/json" \
  --vpp-ws-dir="$source" --venv-dir="$venv" --vpp-tag=vpp --failed-dir="$work/failed" --jobs=1 \
  --decode-pcaps=none --tmp-dir="${TMPDIR:-/tmp}" --force-foreground
