# `make demo` shows what Reverie does, `make test` tests it. Targets for developers set up .venv first.
VENV := .venv
DEMO := .venv-demo
PYTHON ?= python3.11
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
BENCH_STAMP := $(VENV)/.bench-ready
DOCS_STAMP := $(VENV)/.docs-ready
# Tests write thousands of small files with fsync; in memory they take half the time.
export TMPDIR := $(or $(TMPDIR),$(if $(wildcard /dev/shm),/dev/shm,/tmp))
# Without bytecode every worker and every process that a test starts compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE
PYTEST := $(BIN)/python -m pytest -q -n auto --dist worksteal

.PHONY: demo test test-slow lint docs reference coverage torture load nights bench scale versions dist sizes compare image sbom clean setup

setup: $(STAMP)

$(STAMP): pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $(VENV) $(PYTHON) dev
	@touch $@

$(BENCH_STAMP): $(STAMP)
	@sh scripts/setup.sh $(VENV) $(PYTHON) bench
	@touch $@

$(DOCS_STAMP): $(STAMP)
	@sh scripts/setup.sh $(VENV) $(PYTHON) docs
	@touch $@

$(DEMO)/.ready: pyproject.toml scripts/setup.sh
	@echo "Setting up $(DEMO) with what a user needs: 40 MB, once."
	@sh scripts/setup.sh $(DEMO) $(PYTHON)
	@touch $@

demo: $(DEMO)/.ready  ## Replay three days of conversation, kill the process, and ask the memory questions.
	@$(DEMO)/bin/reverie demo

test: $(STAMP)  ## The everyday tests; at most three minutes on two cores.
	@$(PYTEST) -m "not slow"

test-slow: $(STAMP)  ## Tests that are slow by nature: killed processes, simulated nights, attacks end to end.
	@HYPOTHESIS_EXAMPLES=all $(PYTEST) -m "slow or hypothesis"

lint: $(STAMP)  ## Formatting, style, types, layers, structure, language, generated reference.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy -p tests
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_async.py --check
	$(BIN)/python scripts/check_structure.py
	$(BIN)/python scripts/check_figures.py
	$(BIN)/python scripts/check_language.py
	$(BIN)/python -m benchmarks.publish --check
	$(BIN)/python scripts/generate_reference.py --check
	$(BIN)/python scripts/generate_cli_reference.py --check
	$(BIN)/python scripts/generate_typescript.py --check

docs: reference $(DOCS_STAMP)  ## Build the documentation as a site in build/site, without a network.
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --strict --quiet
	@echo "Open build/site/index.html"

reference: $(STAMP)  ## Write docs/reference, the page of benchmarks and the TypeScript client from the code.
	$(BIN)/python scripts/generate_reference.py
	$(BIN)/python scripts/generate_cli_reference.py
	$(BIN)/python -m benchmarks.publish
	$(BIN)/python scripts/generate_typescript.py

coverage: $(STAMP)  ## Line and branch coverage of the everyday tests.
	$(PYTEST) -m "not slow" --cov --cov-report=term:skip-covered

torture: $(STAMP)  ## Processes killed, disks full, files edited meanwhile: what is lost? SECONDS=300 for longer.
	REVERIE_TORTURE_SECONDS=$(or $(SECONDS),60) $(BIN)/python -m pytest -q -s tests/system/torture

bench: $(BENCH_STAMP)  ## Speed beside SQLite FTS5, tantivy, bm25s and rank_bm25. BENCH="--sizes 1000" to shorten.
	$(BIN)/python -m benchmarks $(BENCH)

scale: $(STAMP)  ## Growth of one PostgreSQL database. RECORDS=1000000 MEMORIES=1000 for a large one; CLUSTER=FOLDER keeps it, to go on later.
	$(BIN)/python -m benchmarks.scale --records $(or $(RECORDS),10000) --memories $(or $(MEMORIES),100) $(if $(CLUSTER),--cluster $(CLUSTER))

load: $(STAMP)  ## A server under mixed requests of 64 connections: errors, times, memory, what is lost. SECONDS=600 for longer, PAUSE=1 for connections that wait a second between requests.
	@REVERIE_LOAD_SECONDS=$(or $(SECONDS),60) REVERIE_LOAD_PAUSE=$(PAUSE) $(BIN)/python -m pytest -q -s tests/system/test_load.py

nights: $(STAMP)  ## Hostile models at night, and what a prompt cache keeps. NIGHTS=100 SEED=2 to vary.
	REVERIE_NIGHTS=$(or $(NIGHTS),1000) REVERIE_SEED=$(or $(SEED),1) $(BIN)/python -m pytest -q -s tests/system/nights
	$(BIN)/python -m benchmarks.cache

compare: $(STAMP)  ## Reverie and other memories, each in its own environment in build/compare; writes docs/compare.md.
	TMPDIR=/var/tmp $(BIN)/python -m benchmarks.compare $(COMPARE)

dist: $(STAMP)  ## Wheel and sdist in dist: built twice, compared, checked, and used alone.
	@sh scripts/build_dist.sh $(BIN)

sizes: $(STAMP)  ## What the base and each extra install: megabytes and packages. NAMES="mcp server" for some.
	@$(BIN)/python scripts/report_sizes.py $(NAMES)

image:  ## The container image `reverie`, where podman, buildah or docker runs.
	@sh scripts/build_image.sh

sbom: $(STAMP)  ## dist/reverie.cdx.json: what the wheel installs with its extras for servers, as CycloneDX.
	@$(BIN)/python -m build --wheel --outdir dist . >/dev/null
	@sh scripts/build_sbom.sh $(VENV) dist

versions: $(STAMP)  ## Integrations at the lowest and highest releases allowed. NAMES="openai-agents" for some.
	@scripts/check_versions.sh $(NAMES)

clean:
	rm -rf $(VENV) $(DEMO) build dist .mypy_cache .ruff_cache .pytest_cache .coverage
