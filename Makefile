# Everything a person or CI does here. Build products lie outside the clone, so that many clones share them.
SHELL := /bin/bash
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/tallystick/target
# One seed when it is given, else a thousand from the first on.
ifeq ($(origin SEED),undefined)
COUNT ?= 1000
endif
COUNT ?= 1
SEED ?= 1
T ?= 30
# Which ledger is simulated: settlement, processes (settlement over a cluster), liars (both, with members that lie
# under their own keys), flows or consensus (of the chain).
LEDGER ?= settlement

.PHONY: run kafka demo-flows demo-chain demo-kafka demo-gateway test lint sim fuzz mutants bench doc setup build

run: build            ## a temporary network: payments, benchmark, audit
	scripts/demo "$(CARGO_TARGET_DIR)/release/tally"

demo-flows: build     ## a network of nodes: cash, an IOU, a bond for cash, a node killed in mid-flow
	scripts/demo-flows "$(CARGO_TARGET_DIR)/release/tally"

demo-chain: build     ## four validators: a Solidity contract through ethers and viem, validators killed and started again
	@scripts/setup --node
	scripts/demo-chain "$(CARGO_TARGET_DIR)/release/tally"

demo-kafka: build     ## every stage a process of its own, joined by Kafka: each is killed while payments run, then an audit
	@scripts/setup --kafka
	scripts/demo-kafka "$(CARGO_TARGET_DIR)/release/tally"

demo-gateway: build   ## behind TLS: curl, the Python and TypeScript clients, 100,000 payments over gRPC, camt.053, a proof, refusals
	@scripts/setup --clients
	scripts/demo-gateway "$(CARGO_TARGET_DIR)/release/tally"

build: setup
	cargo build --release --locked -p tally

kafka:                ## installs Apache Kafka where it is missing and starts a broker on loopback
	@scripts/setup --kafka
	@echo "Kafka serves at $$(scripts/kafka start); stop it with: scripts/kafka stop"

test:                 ## every test; starts a PostgreSQL server and Kafka brokers of its own
	@scripts/setup --test
	scripts/check-history --test
	scripts/check-iso20022
	cargo test --release --locked --workspace
	scripts/check-messages "$(CARGO_TARGET_DIR)/release/tally"
	scripts/check-openapi "$(CARGO_TARGET_DIR)/release/tally"
	scripts/check-client-python "$(CARGO_TARGET_DIR)/release/tally"
	scripts/check-client-typescript "$(CARGO_TARGET_DIR)/release/tally"
	scripts/check-hostile "$(CARGO_TARGET_DIR)/release/tally"

lint: setup           ## form, lints, layers, documentation, deployment
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	scripts/check-layers
	RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --workspace --no-deps --quiet
	scripts/check-deploy

doc:                  ## the documentation of every crate
	cargo doc --release --locked --workspace --no-deps
	@echo "$(CARGO_TARGET_DIR)/doc/tally/index.html"

sim: setup            ## simulated networks under faults, of one LEDGER: one seed, or many
	cargo build --release --locked -p tally-trials
	"$(CARGO_TARGET_DIR)/release/tally-sim" "$(LEDGER)" "$(SEED)" "$(COUNT)"

bench: build          ## limits of this machine, each stage, the whole network, recovery, audit; nodes, a chain: half an hour
	"$(CARGO_TARGET_DIR)/release/tally" bench all --full --progress --out "$(or $(OUT),tally-bench)"
	"$(CARGO_TARGET_DIR)/release/tally" bench flows --progress --out "$(or $(OUT),tally-bench)" --html "$(or $(OUT),tally-bench)/flows.html"
	for part in evm import rpc chain; do "$(CARGO_TARGET_DIR)/release/tally" bench $$part --progress --out "$(or $(OUT),tally-bench)" || exit; done

fuzz: setup           ## every decoder, for T seconds each
	cargo build --release --locked -p tally-trials
	"$(CARGO_TARGET_DIR)/release/tally-fuzz" "$(T)"

mutants: setup        ## puts known mistakes back, one after the other: a named test finds each; NAMES= for some of them
	scripts/mutants $(NAMES)

setup:
	@scripts/setup
