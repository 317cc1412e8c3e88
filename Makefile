# Everything a person or CI does here. Build products lie outside the clone, so that many clones share them.
SHELL := /bin/bash
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tallystick/target
SEED ?= 1
T ?= 30

.PHONY: run test lint sim fuzz bench doc setup build

run: build            ## a temporary network: payments, benchmark, audit
	scripts/demo "$(CARGO_TARGET_DIR)/release/tally"

build: setup
	cargo build --release --locked -p tally

test: setup           ## every test
	cargo test --release --locked --workspace

lint: setup           ## form, lints, layers, documentation
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	scripts/check-layers
	RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --workspace --no-deps --quiet

doc:                  ## the documentation of every crate
	cargo doc --release --locked --workspace --no-deps
	@echo "$(CARGO_TARGET_DIR)/doc/tally/index.html"

sim: build            ## simulated runs with faults, from SEED on
	"$(CARGO_TARGET_DIR)/release/tally" sim --seed "$(SEED)"

fuzz: setup           ## every fuzz target for T seconds
	scripts/fuzz "$(T)"

bench: build          ## limits of this machine, each stage, the whole network
	scripts/bench "$(CARGO_TARGET_DIR)/release/tally"

setup:
	@scripts/setup
