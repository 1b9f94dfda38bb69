# build: the program and its preload library; run: the main job; check: format, lint, unit tests and a smoke run;
# test: everything, half an hour; lint: style only; bench: all workloads and a report of this machine, in ten
# minutes (make bench QUICK=--quick: in two); install: program, preload library, what its benchmarks compare with, the
# native library for C, manual pages, completions; comparators: what `bench native` compares with and that is not in everybody's
# build (iceoryx2).
.PHONY: build comparators run check test lint deps bench install
QUICK =
PREFIX ?= /usr/local
BUILT ?= target/release
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)

build:
	cargo build --release --workspace

comparators:
	cargo build --release --package byway-iceoryx2 --features iceoryx2

deps:
	@ci/deps.sh

run: deps build
	target/release/byway demo

bench: build
	target/release/byway bench seeds $(QUICK) --out target/bench
	target/release/byway report target/bench -o target/bench/report.html --svg target/bench/plots

check: build
	ci/check.sh

test: deps build
	ci/test.sh

lint:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings

install:
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/byway lib/pkgconfig share/man/man1 share/man/man3 \
	  share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d)
	install -m 755 $(BUILT)/byway $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(BUILT)/libbyway_preload.so $(DESTDIR)$(PREFIX)/lib/byway/
	for p in byway-mimalloc byway-iceoryx2; do \
	  [ ! -x $(BUILT)/$$p ] || install -m 755 $(BUILT)/$$p $(DESTDIR)$(PREFIX)/lib/byway/ || exit; done
	install -m 755 $(BUILT)/libbyway.so $(DESTDIR)$(PREFIX)/lib/libbyway.so.0
	ln -sf libbyway.so.0 $(DESTDIR)$(PREFIX)/lib/libbyway.so
	install -m 644 $(BUILT)/libbyway.a $(DESTDIR)$(PREFIX)/lib/
	install -m 644 include/byway.h $(DESTDIR)$(PREFIX)/include/
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' include/byway.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/byway.pc
	install -m 644 docs/man/*.3 $(DESTDIR)$(PREFIX)/share/man/man3/
	$(BUILT)/byway manual $(DESTDIR)$(PREFIX)/share/man/man1
	$(BUILT)/byway completions bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/byway
	$(BUILT)/byway completions zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_byway
	$(BUILT)/byway completions fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/byway.fish
