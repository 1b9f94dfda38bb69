# `make help` lists the targets: it prints what stands behind `##`.
.PHONY: build run check test lint bench docs comparators deps install uninstall clean deb debian dist help
QUICK =
PREFIX ?= /usr/local
BUILT ?= target/release
OUT ?= target
MDBOOK_VERSION = 0.5.4
MDBOOK = target/tools/mdbook-$(MDBOOK_VERSION)/bin/mdbook
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
PLACE = BUILT='$(BUILT)' PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' \
  VERSION='$(VERSION)' ci/install.sh

build: ## build everything
	cargo build --release

run: deps build ## check and install what is missing, build, run the demo
	target/release/byway demo

check: build ## the quick tests, before a change
	ci/check.sh

test: deps build ## every test, some 40 minutes
	ci/test.sh

# With what the tests need anyway. The preload library cannot be built as they are: without a standard library it cannot unwind.
lint: ## format and clippy alone
	cargo fmt --all --check
	cargo clippy --profile tests --workspace --exclude byway-preload --features byway/tokio --all-targets --quiet -- -D warnings
	cargo clippy --release --package byway-preload --quiet -- -D warnings

bench: build ## all workloads, a report, in ten minutes (QUICK=--quick: two)
	target/release/byway bench seeds $(QUICK) --out target/bench
	target/release/byway report target/bench -o target/bench/report.html --svg target/bench/plots

docs: build $(MDBOOK) ## the documents as a book with a search, in target/book
	ci/book.py $(BUILT)/byway $(MDBOOK)

# The search alone: no server, and nothing that watches.
$(MDBOOK):
	cargo install mdbook --version =$(MDBOOK_VERSION) --locked --root target/tools/mdbook-$(MDBOOK_VERSION) \
	  --no-default-features --features search

comparators: ## build iceoryx2's program, which `bench native` starts
	cargo build --release --package byway-iceoryx2 --features iceoryx2

deps: ## check what building and testing need; as root, install it
	@ci/deps.sh

install: ## install what was built, under DESTDIR and PREFIX (/usr/local)
	@$(PLACE) install

uninstall: ## remove what `make install` installed under PREFIX
	@$(PLACE) uninstall

clean: ## remove everything that was built
	cargo clean

dist: ## a source archive of the last commit, in target/
	@mkdir -p target
	git archive --format=tar.gz --prefix=byway-$(VERSION)/ --output=target/byway-$(VERSION).tar.gz HEAD
	@git diff --quiet HEAD || echo 'dist: changes that are not committed are not in it' >&2

deb: ## Debian packages of what was built, in target/
	@BUILT='$(BUILT)' VERSION='$(VERSION)' OUT='$(OUT)' ci/deb.sh

debian: build ## test the packages in clean roots of Debian 12 and 13
	tests/debian.sh '$(BUILT)/byway'

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target what; do \
	  printf 'make %-12s %s\n' "$$target" "$$what"; done
