# build: the program and its preload library; run: the main job; test: everything; lint: style only; bench: all workloads
# and a report of this machine, in ten minutes (make bench QUICK=--quick: in two).
.PHONY: build run test lint deps bench
QUICK =

build:
	cargo build --release --workspace

deps:
	@ci/deps.sh

run: deps build
	target/release/byway demo

bench: build
	target/release/byway bench seeds $(QUICK) --out target/bench
	target/release/byway report target/bench -o target/bench/report.html --svg target/bench/plots

test: deps build
	ci/test.sh

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
