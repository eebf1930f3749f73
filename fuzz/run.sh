#!/usr/bin/env bash
# Builds the fuzz targets and runs each for SECONDS.
#
#   fuzz/run.sh SECONDS [TARGET...]      default: every file in fuzz_targets/
#
# Fails if any target crashes, hangs for 10 s or takes over 1 GiB, and names the input that did
# it. New inputs are kept in corpus/TARGET (not in git) for the next run; seeds/TARGET is the
# start. To see a crash again: the binary that is named, with the input as its argument.
#
#   FUZZ_JOBS=N          targets at a time, default: one per CPU
#   FUZZ_SANITIZER=name  also build with a sanitizer, e.g. "address"
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if [[ ! "${1:-}" =~ ^[1-9][0-9]*$ ]]; then
    sed -n '2,12s/^# \{0,1\}//p' run.sh >&2
    exit 2
fi
seconds=$1
shift
targets=("$@")
if [[ ${#targets[@]} -eq 0 ]]; then
    for file in fuzz_targets/*.rs; do
        targets+=("$(basename "$file" .rs)")
    done
fi

host=$(rustc -vV | sed -n 's/^host: //p')
bin_dir="${CARGO_TARGET_DIR:-$PWD/target}/$host/release"

# The flags cargo-fuzz would set. RUSTC_BOOTSTRAP lets the stable compiler take them.
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags+=" -Cllvm-args=-sanitizer-coverage-inline-8bit-counters"
flags+=" -Cllvm-args=-sanitizer-coverage-pc-table"
flags+=" -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
if [[ -n "${FUZZ_SANITIZER:-}" ]]; then
    flags+=" -Zsanitizer=$FUZZ_SANITIZER"
fi
# An explicit --target keeps the flags away from build scripts.
bins=()
for target in "${targets[@]}"; do
    bins+=(--bin "$target")
done
RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags" \
    cargo build --quiet --release --locked --target "$host" "${bins[@]}"

run_one() {
    local target=$1 seconds=$2 bin_dir=$3
    mkdir -p "corpus/$target" "artifacts/$target"
    local log="artifacts/$target/log" dirs=("corpus/$target")
    if [[ -d "seeds/$target" ]]; then
        dirs+=("seeds/$target")
    fi
    if "$bin_dir/$target" "${dirs[@]}" -max_total_time="$seconds" -max_len=2048 -timeout=10 \
        -rss_limit_mb=1024 -print_final_stats=1 -artifact_prefix="artifacts/$target/" \
        >"$log" 2>&1; then
        local runs cov
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        cov=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
        echo "ok    $target: $runs runs, $cov edges"
        return 0
    fi
    local input
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    {
        echo "CRASH $target"
        grep -m 3 -A 2 -E 'panicked at|ERROR: ' "$log" || tail -5 "$log"
        echo "      input: $PWD/${input:-(none written; see $log)}"
        echo "      again: $bin_dir/$target $PWD/${input:-}"
    } >&2
    return 1
}
export -f run_one

printf '%s\n' "${targets[@]}" |
    xargs -P "${FUZZ_JOBS:-$(nproc)}" -I{} bash -c "run_one {} $seconds '$bin_dir'" || {
    echo "fuzz: at least one target failed" >&2
    exit 1
}
