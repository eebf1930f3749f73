#!/usr/bin/env bash
# Unit tests, and a router with changing routes under traffic, in valgrind's memcheck: reads of freed or
# uninitialised memory, and memory that nobody frees.
#
#   tests/valgrind.sh [CRATE...]     default: all below, then the router
#
# Left out are tests that only repeat the same code many times or reserve gigabytes: memcheck takes fifty
# times as long as the machine and one byte of its own for each.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v valgrind >/dev/null || {
    echo "valgrind is missing: apt-get install valgrind" >&2
    exit 1
}
# Threads take turns, or one that waits for another keeps it from running.
memcheck="valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite"
memcheck+=" --fair-sched=yes --num-callers=20"
host=$(rustc -vV | sed -n 's/^host: //p')
runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
export PROPTEST_CASES=4 PROPTEST_FAILURE_PERSISTENCE=off

check() { # crate, arguments of the test programs
    local crate=$1
    shift
    echo "== $crate"
    env "$runner=$memcheck" cargo test --quiet --locked --package "parshall-$crate" --lib -- "$@"
}

one() {
    case $1 in
    rcu) check rcu --skip a_huge_limit --skip stress_tests ;;
    ring) check ring --skip two_threads ;;
    fib) check fib --skip equals_a_linear_scan --skip lookups_during_changes --skip thousands --skip come_and_go ;;
    graph) check graph --skip nothing_is_lost_doubled_or_reordered ;;
    *) check "$1" ;;
    esac
}

router() {
    echo "== a router with changing routes"
    local target=${CARGO_TARGET_DIR:-target}
    cargo build --quiet --locked --package parshall
    $memcheck "$target/debug/parshall" bench churn --seconds 5 --rate 2000 --one-in 2000
}

crates=("$@")
[ $# -gt 0 ] || crates=(ring rcu buffer fib graph nodes)
for crate in "${crates[@]}"; do
    one "$crate"
done
[ $# -gt 0 ] || router
