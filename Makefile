# Every chore. `make` lists them.
#
# On Debian as root, what is missing is installed; elsewhere it is named. Python packages go to
# a virtual environment in .venv, at the versions of the lock files.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
CARGO_TARGET_DIR ?= target
export CARGO_TARGET_DIR
# What the package is built as. `dev`, as tests are: sooner built, and slower.
PROFILE ?= release
RECORDER := python/tierscope/_record/libtierscope_record.so
export VIRTUAL_ENV := $(abspath $(VENV))
export PYO3_PYTHON := $(abspath $(BIN)/python)
export PYO3_BUILD_EXTENSION_MODULE := 1
# The Python bindings link to no interpreter, so that they have no test binary.
RUST_TESTS := --workspace --exclude tierscope-python

.PHONY: help
help: ## Lists the chores.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Builds everything and runs SQLite on three machines: the main job, in a few minutes.
	tools/need --wish qemu-user sqlite3
	tools/demo $(BIN)/tierscope

.PHONY: build
build: $(VENV)/run-packages ## Builds the package, release (PROFILE), into .venv.
	$(BIN)/maturin develop --profile $(PROFILE)
	@# With the package, and as maturin has built it: otherwise both would be built anew, each time.
	PYO3_CONFIG_FILE=$$(ls -t $(abspath $(CARGO_TARGET_DIR))/maturin/pyo3-config-*.txt | head -n 1) \
		cargo build --profile $(PROFILE) -p tierscope-record -p tierscope-python
	mkdir -p $(dir $(RECORDER))
	@# By renaming: a run may have the old one loaded, which must not change under it.
	cp $(CARGO_TARGET_DIR)/$(PROFILE:dev=debug)/libtierscope_record.so $(RECORDER).new
	mv -f $(RECORDER).new $(RECORDER)

.PHONY: wheel
wheel: build ## Builds a wheel into dist.
	$(BIN)/maturin build --release --out dist

.PHONY: test
test: build $(VENV)/dev-packages ## Runs the tests of Rust and Python.
	tools/need --wish qemu-user sqlite3
	tools/need --wish chromium-headless-shell
	@# The same random cases each time; `make properties` draws others.
	PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} cargo test $(RUST_TESTS)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

.PHONY: contributing
contributing: $(VENV)/dev-packages ## Follows CONTRIBUTING.md in a copy of the repository, and tests the part of each kind that comes of it.
	cargo test -p tierscope-xtask --test scaffold

.PHONY: thorough
thorough: $(VENV)/dev-packages ## Tests laws of whole machines with all cases; `make test` tries a part of them.
	TIERSCOPE_THOROUGH=1 PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED:-1} \
		cargo test -p tierscope-system --test laws

.PHONY: properties
properties: $(VENV)/dev-packages ## Tests laws with random cases never drawn before, CASES of each (5000).
	PROPTEST_CASES=$${CASES:-5000} cargo test $(RUST_TESTS) --lib

OBSERVED := readahead threads reclaim limited shmem swap huge advice write-back writers locks drawn-locks journal drawn names drawn-names metadata drawn-metadata block

# An observer that this computer lacks something for ends with 77: others go on, and what is committed is compared.
observed = python3 tests/kernel/$(1) || test $$? -eq 77

.PHONY: kernel
kernel: ## Watches what this computer's kernel reads ahead, reclaims, journals and asks devices for, and compares the model with it. As root.
	mkdir -p build
	rm -f $(OBSERVED:%=build/%.json)
	$(call observed,observe.py --seed $${SEED:-2} build/readahead.json)
	$(call observed,observe_threads.py --seed $${SEED:-2} build/threads.json)
	$(call observed,observe_reclaim.py --seed $${SEED:-2} build/reclaim.json)
	$(call observed,observe_limited.py --seed $${SEED:-2} build/limited.json)
	$(call observed,observe_shmem.py --seed $${SEED:-2} build/shmem.json)
	$(call observed,observe_swap.py --seed $${SEED:-2} build/swap.json)
	$(call observed,observe_huge.py --seed $${SEED:-2} build/huge.json)
	$(call observed,observe_advice.py --seed $${SEED:-2} build/advice.json)
	$(call observed,observe_write_back.py --seed $${SEED:-2} build/write-back.json)
	$(call observed,observe_writers.py --seed $${SEED:-2} --each 2 build/writers.json)
	$(call observed,observe_locks.py build/locks.json)
	$(call observed,observe_locks.py --drawn --seed $${SEED:-2} build/drawn-locks.json)
	$(call observed,observe_journal.py build/journal.json)
	$(call observed,observe_journal.py --drawn $${SEED:-2} build/drawn.json)
	$(call observed,observe_journal.py --names build/names.json)
	$(call observed,observe_journal.py --names --drawn $${SEED:-2} build/drawn-names.json)
	$(call observed,observe_metadata.py build/metadata.json)
	$(call observed,observe_metadata.py --drawn $${SEED:-2} build/drawn-metadata.json)
	$(call observed,observe_block.py --seed $${SEED:-2} build/block.json)
	TIERSCOPE_OBSERVED=$(CURDIR)/build/readahead.json \
	TIERSCOPE_OBSERVED_THREADS=$(CURDIR)/build/threads.json \
	TIERSCOPE_OBSERVED_RECLAIM=$(CURDIR)/build/reclaim.json \
	TIERSCOPE_OBSERVED_LIMITED=$(CURDIR)/build/limited.json \
	TIERSCOPE_OBSERVED_SHMEM=$(CURDIR)/build/shmem.json \
	TIERSCOPE_OBSERVED_SWAP=$(CURDIR)/build/swap.json \
	TIERSCOPE_OBSERVED_HUGE=$(CURDIR)/build/huge.json \
	TIERSCOPE_OBSERVED_ADVICE=$(CURDIR)/build/advice.json \
	TIERSCOPE_OBSERVED_WRITE_BACK=$(CURDIR)/build/write-back.json \
	TIERSCOPE_OBSERVED_WRITERS=$(CURDIR)/build/writers.json \
	TIERSCOPE_OBSERVED_LOCKS=$(CURDIR)/build/locks.json \
	TIERSCOPE_OBSERVED_DRAWN_LOCKS=$(CURDIR)/build/drawn-locks.json \
	TIERSCOPE_OBSERVED_JOURNAL=$(CURDIR)/build/journal.json \
	TIERSCOPE_OBSERVED_DRAWN=$(CURDIR)/build/drawn.json \
	TIERSCOPE_OBSERVED_NAMES=$(CURDIR)/build/names.json \
	TIERSCOPE_OBSERVED_DRAWN_NAMES=$(CURDIR)/build/drawn-names.json \
	TIERSCOPE_OBSERVED_METADATA=$(CURDIR)/build/metadata.json \
	TIERSCOPE_OBSERVED_DRAWN_METADATA=$(CURDIR)/build/drawn-metadata.json \
	TIERSCOPE_OBSERVED_BLOCK=$(CURDIR)/build/block.json \
		cargo test -p tierscope-system --test validation -- --nocapture \
		readahead reclaim limited:: shmem:: swap:: huge_pages:: advice:: write_back:: writers:: calls:: journal metadata:: block_requests

.PHONY: mutants
mutants: ## Plants faults in a copy of the model; fails where no test finds one. Ten minutes.
	tools/mutants

.PHONY: fuzz
fuzz: ## Fuzzes all that reads a user's file, and devices of any description, for FUZZ_SECONDS (300) each from SEED (1); ONLY names readers, or devices (device/…). Tests do a little of it.
	TIERSCOPE_FUZZ_SECONDS=$${FUZZ_SECONDS:-300} TIERSCOPE_FUZZ_SEED=$${SEED:-1} TIERSCOPE_FUZZ_ONLY=$${ONLY:-} \
		cargo test $(RUST_TESTS) --test fuzz -- --nocapture

.PHONY: lint
lint: $(VENV)/dev-packages ## Checks format, types, generated files, licences and habits.
	git ls-files '*.rs' | xargs rustfmt --check
	cargo clippy --workspace --all-targets -- -D warnings
	@# Generated files and licences; built for the tests, so that those find it built.
	cargo test --quiet $(RUST_TESTS) --test current
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	tools/mutants check
	tools/tidy

.PHONY: format
format: $(VENV)/dev-packages ## Formats Rust and Python. (cargo fmt misses the modules that parts.rs lists.)
	git ls-files '*.rs' | xargs rustfmt
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

.PHONY: generate
generate: build ## Writes schemas, reference pages and Python classes from the Rust types, and the manual page.
	cargo run --quiet -p tierscope-xtask -- generate
	$(BIN)/python -m tierscope.cli.manual wheel/data/share/man/man1/tierscope.1

.PHONY: docs
docs: build $(VENV)/dev-packages ## Builds the documentation, warnings as errors.
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps
	$(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

.PHONY: bench
bench: ## Runs the benchmarks at full size.
	tools/bench

.PHONY: bench-smoke
bench-smoke: ## Runs each benchmark at a small size, so that none rots.
	tools/bench smoke

.PHONY: crash
crash: build ## A million failures of power (POINTS) on every kind of machine that survives them; goes on where it was interrupted.
	tools/crash $(BIN)/tierscope $${POINTS:-1000000}

.PHONY: soak
soak: ## A billion commands of every part of DRAM under the protocol checker: hours.
	cargo run --release --quiet -p tierscope-xtask -- dram-soak 1000000000

.PHONY: lock
lock: $(VENV)/dev-packages ## Renews the lock files from pyproject.toml.
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile $(PIP_COMPILE) --extra build --output-file requirements.lock pyproject.toml
	$(BIN)/pip-compile $(PIP_COMPILE) --extra build --extra dev --constraint requirements.lock \
		--output-file requirements-dev.lock pyproject.toml
PIP_COMPILE := --quiet --upgrade --strip-extras --no-header --no-emit-index-url \
	--no-emit-find-links --no-emit-trusted-host

.PHONY: clean
clean: ## Removes what was built, the demonstration's database and .venv included.
	rm -rf $(CARGO_TARGET_DIR) $(VENV) build dist docs/_build docs/gallery python/tierscope/_record
	rm -f python/tierscope/_core*.so
	find python tests docs -name __pycache__ -prune -exec rm -rf {} +

$(VENV)/run-packages: requirements.lock
	tools/need cargo cc python3-venv
	test -x $(BIN)/python || python3 -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	touch $@

$(VENV)/dev-packages: requirements-dev.lock $(VENV)/run-packages
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	touch $@
