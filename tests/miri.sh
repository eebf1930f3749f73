#!/usr/bin/env bash
# Unit tests of the crates with unsafe code, and of the codecs, in Miri: an interpreter that finds undefined
# behaviour (aliasing, uninitialised memory, data races) where a run only finds wrong results.
#
#   tests/miri.sh [CRATE...]     default: all below
#   tests/miri.sh --check        whether the toolchain has what it needs; says what is missing
#
# MIRI_TOOLCHAIN=name picks the toolchain, default: nightly. Miri takes a thousand times as long as the
# machine: left out are the tests that only repeat the same code many times, and those that need the kernel.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
toolchain=${MIRI_TOOLCHAIN:-nightly}

has_miri() {
    cargo "+$toolchain" miri --version >/dev/null 2>&1 &&
        [ -d "$(rustc "+$toolchain" --print sysroot)/lib/rustlib/src/rust/library" ]
}
if ! has_miri; then
    echo "the toolchain $toolchain has no miri: rustup toolchain install $toolchain --component miri --component rust-src" >&2
    exit 1
fi
[ "${1:-}" = --check ] && exit 0

export PROPTEST_CASES=3 PROPTEST_FAILURE_PERSISTENCE=off
# Tests take descriptors, clocks and the environment from the system. Seeds are fixed, so runs are the same.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation"
target=${CARGO_TARGET_DIR:-target}/miri

miri() { # crate, arguments of the test programs
    local crate=$1
    shift
    echo "== $crate"
    cargo "+$toolchain" miri test --quiet --locked --target-dir "$target" --package "$crate" "$@"
}

one() {
    case $1 in
    ring | rcu | buffer | counters) miri "parshall-$1" --lib ;;
    fib)
        # Distributions, and tables of thousands of entries; the changes themselves are in the second run.
        miri parshall-fib --lib -- --skip load_balance::tests::adding --skip load_balance::tests::removing \
            --skip lpm_tests --skip rib:: --skip a_large_stretch
        miri parshall-fib --test concurrent -- --skip wide_root
        ;;
    graph)
        # Real workers sleep in epoll_pwait2, which Miri does not know.
        miri parshall-graph --lib -- --skip worker::tests --skip nothing_is_lost_doubled_or_reordered
        ;;
    wire) miri parshall-wire --lib -- --skip agrees_with_the_naive_sum --skip any_ ;;
    *) echo "tests/miri.sh: no crate $1 here" >&2; return 2 ;;
    esac
}

crates=("$@")
[ $# -gt 0 ] || crates=(ring rcu buffer counters fib graph wire)
for crate in "${crates[@]}"; do
    one "$crate"
done
