# build: the program and its preload library; run: the main job; test: everything; lint: style only.
.PHONY: build run test lint deps

build:
	cargo build --release --workspace

deps:
	@ci/deps.sh

run: deps build
	target/release/byway demo

test: deps build
	ci/test.sh

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
