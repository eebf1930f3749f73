# Everything a contributor or CI calls. CI (.ci/run) calls the same commands.
CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)
PARSHALL := $(TARGET)/release/parshall
# Seconds for each fuzz target: `make fuzz SECONDS_EACH=1200`.
SECONDS_EACH ?= 60

# How many pairs of configurations `make pairs` tries, and the number of the first.
PAIRS ?= 10000
FIRST ?= 0

# Target of `make cross`, CPU level of `make wide`.
CROSS ?= aarch64-unknown-linux-gnu
WIDE ?= x86-64-v4

.PHONY: help build deb demo test bench lint fmt fuzz pairs loom miri valgrind cross wide clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

build: ## The release binary
	$(CARGO) build --release --locked --package parshall

deb: build ## A Debian package into $(TARGET)/debian
	packaging/deb.sh $(PARSHALL) $(TARGET)/debian

demo: build ## Router, hosts, traffic and a collector, for 30 seconds
	$(PARSHALL) lab

test: ## All tests; installs what they need when root, else names what is missing
	tests/setup.sh
	$(CARGO) test --workspace --locked

bench: build ## All benches into docs/performance.md; QUICK=1: a first look; PEER_VPP=PATH: beside a VPP
	tests/setup.sh
	$(PARSHALL) bench all --yardstick testpmd $(if $(PEER_VPP),--peer-vpp $(PEER_VPP)) --out target/bench \
	    $(if $(QUICK),--quick,--docs docs/performance.md --commit "$$(git describe --always --dirty)")

lint: ## Format, clippy, dependency ranks, source rules
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) xtask check

fmt: ## Format everything
	$(CARGO) fmt --all

fuzz: ## Every fuzz target for SECONDS_EACH seconds
	fuzz/run.sh $(SECONDS_EACH)

pairs: ## Configurations at random applied one after the other (PAIRS=number, FIRST=the first)
	PARSHALL_PAIRS=$(PAIRS) PARSHALL_FIRST_PAIR=$(FIRST) \
	    $(CARGO) test --locked --package parshall-config --lib what_is_applied -- --nocapture

loom: ## Every interleaving of the lock-free crates' models
	RUSTFLAGS="--cfg loom" $(CARGO) test --release --locked --target-dir $(TARGET)/loom \
	    --package parshall-ring --package parshall-rcu --package parshall-buffer --lib
	RUSTFLAGS="--cfg loom" $(CARGO) test --release --locked --target-dir $(TARGET)/loom \
	    --package parshall-fib --lib loom_tests

miri: ## The crates with unsafe code, and the codecs, in Miri (a nightly toolchain with miri and rust-src)
	tests/miri.sh

valgrind: ## Unit tests and a router with changing routes in memcheck
	tests/valgrind.sh

cross: ## Does everything compile for arm64? (CROSS=another target)
	$(CARGO) check --workspace --all-targets --locked --target $(CROSS)

wide: ## Does everything compile for one CPU level (WIDE=x86-64-v4), not chosen when it runs?
	RUSTFLAGS="-C target-cpu=$(WIDE)" $(CARGO) check --workspace --all-targets --locked --target-dir $(TARGET)/$(WIDE)

clean: ## Remove what was built
	$(CARGO) clean
