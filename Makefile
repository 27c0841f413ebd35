# Every target sets up .venv by itself when pyproject.toml or constraints.txt has changed.
# make test ARGS="-k name"    runs a part of the tests
# make demo SECONDS=20        ends by itself; otherwise Ctrl-C ends it
# make clean test PYTHON=python3.12    makes .venv anew with that Python

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-rest test-all test-orders test-versions chaos lint check format requirements services bench bench-quick bench-peers compare bench-telemetry bench-operators bench-console capture drain screenshots docs docs-reference docs-serve release-check clean

BIN := .venv/bin
BASE := .venv/.base-installed
DEV := .venv/.dev-installed
RELEASE := .venv/.release-installed
CODE := $(wildcard src tests examples demo benchmarks scripts conftest.py)
unexport PYTHONDONTWRITEBYTECODE # compiled once, not by each of some hundred processes
ARGS ?=
# One more than there are cores: tests wait for servers, too; with two more, each takes longer.
JOBS ?= $(shell expr $$($(BIN)/python -c 'import os; print(os.cpu_count())') + 1)

RECENT := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(RECENT)' 2>/dev/null && echo $$python && break; done)

# $(call install,GROUP): what pip says is shown only when it fails. pip knows groups since 25.1.
define install
	@test -n "$(PYTHON)" || { echo "postroom needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "Setting up .venv (once) ..."
	@said=$$({ $(PYTHON) -m venv .venv && \
		$(BIN)/python -m pip install --disable-pip-version-check 'pip>=25.1' && \
		$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[all]' --group $(1); } 2>&1) \
		|| { echo "$$said"; exit 1; }
endef

help:  ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(BASE)  ## Serve a page on which to send messages, break things and watch deliveries; until Ctrl-C
	@PYTHONPATH=examples/messaging $(BIN)/python -m demo $(if $(SECONDS),--seconds $(SECONDS))

PYTEST = $(BIN)/pytest -n $(JOBS) --no-loadscope-reorder

test: $(DEV) services  ## Run what has to pass to trust a change, and check that each requirement has a passing test
	@$(PYTEST) $(or $(ARGS),-m 'not extended' --requirements $(MEASURE))

test-rest: $(DEV) services  ## Run the tests that make test leaves out: variants, pages, copies of the examples, browsers, chaos
	@$(PYTEST) -m extended $(ARGS)

# Measuring takes half as long again, so make test alone does not.
test-all:  ## Run all tests, and measure which branches those of make test reach; less than 90 % fails
	@$(MAKE) test MEASURE=--cov
	@$(MAKE) test-rest

test-orders: $(DEV) services  ## Run make test's tests in 20 random orders, half of them on a busy machine; ARGS="--runs 5"
	@$(BIN)/python -m scripts.orders $(ARGS)

test-versions: $(DEV) services  ## Run the tests on Python 3.11, 3.12 and 3.13, and on the lowest versions of all libraries
	@$(BIN)/python -m scripts.versions $(ARGS)

# What has a short version in the tests: see FULL in tests/support/waiting.py.
LONG := tests/chaos tests/benchmarks/test_console.py $(addprefix tests/conformance/test_,inspection.py store_stories.py) \
	tests/examples/test_interfaces.py tests/integration/capture/test_save_order.py \
	$(patsubst %,tests/integration/operators/test_%.py,changing_commands command_connection reading_commands runbook_commands secrets)

chaos: $(DEV) services  ## Kill, freeze and cut off relays for some minutes; the tests have a short version
	@POSTROOM_CHAOS=full POSTROOM_TEST_PATIENCE=5 $(PYTEST) $(LONG) $(ARGS)

lint: $(DEV)  ## Check format, style, types, the direction of imports, and that the reference is up to date
	@$(BIN)/ruff format --check --quiet --diff $(CODE)
	@$(BIN)/ruff check --quiet $(CODE)
	@$(BIN)/mypy
	@for each in examples/*/; do (cd $$each && $(CURDIR)/$(BIN)/mypy) || exit 1; done
	@$(BIN)/lint-imports
	@$(BIN)/python -m scripts.reference --check

check: lint test  ## Do all that has to pass before a commit: lint, then test

format: $(DEV)  ## Rewrite the code in the project's format, imports sorted
	@$(BIN)/ruff check --quiet --fix --exit-zero $(CODE)
	@$(BIN)/ruff format $(CODE)

requirements: $(DEV) services  ## Print which tests prove which requirement
	@$(BIN)/pytest --requirements -m requirement -q --no-header $(ARGS)

services: $(DEV)  ## Find, start or install PostgreSQL, RabbitMQ, PgBouncer, Prometheus and Chromium for the tests
	@$(BIN)/python -m scripts.services

bench: $(DEV) services  ## Measure rates, latency and CPU time beside raw frames and peers; some 12 minutes
	@$(BIN)/python -m benchmarks $(ARGS)

bench-quick: $(DEV) services  ## Run every benchmark with tiny sizes, to see that it works
	@$(BIN)/python -m benchmarks --quick $(ARGS)

bench-peers:  ## Install what postroom is compared with into .venv-peers, for make bench and make compare
	@$(PYTHON) -m venv .venv-peers
	@.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt

compare: $(DEV) services  ## Play faults with postroom and its peers: what is lost, what is out of order; some 10 minutes
	@$(BIN)/python -m benchmarks.compare $(ARGS)

capture: $(DEV) services  ## Measure what capturing an event costs a transaction
	@$(BIN)/python -m benchmarks.capture $(ARGS)

bench-telemetry: $(DEV) services  ## Measure what metrics and traces cost the drain rate; some 3 minutes
	@$(BIN)/python -m benchmarks.telemetry $(ARGS)

drain: $(DEV) services  ## Deliver a million records: how fast, and in how much memory
	@$(BIN)/python -m benchmarks.drain $(ARGS)

bench-operators: $(DEV) services  ## Measure how long operators wait for answers about a million records
	@$(BIN)/python -m benchmarks.operators $(ARGS)

bench-console: $(DEV) services  ## Measure the console's pages, locks and cost on a million records; some 15 minutes
	@$(BIN)/python -m benchmarks.console $(ARGS)

screenshots: $(DEV) services  ## Take the pictures of the console that README and docs show; some 11 minutes
	@$(BIN)/python -m scripts.screenshots

release-check: $(RELEASE) services  ## Build the release, install each extra alone, follow README and tutorial, test the copied applications
	@$(BIN)/python -m scripts.release_check

# With --quiet, mkdocs would not count warnings.
docs: $(DEV)  ## Build the site into site/, strictly; make docs-serve shows it while you write
	@said=$$(NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build 2>&1) || { echo "$$said" | grep -v ^INFO; exit 1; }

docs-reference: $(DEV)  ## Write the parts of the docs that come from the code: tables of the reference, pictures
	@$(BIN)/python -m scripts.reference

docs-serve: $(DEV)  ## Serve the site on http://127.0.0.1:8000/, and build it anew at every change
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

clean:  ## Remove .venv, .venvs, .venv-peers, caches and build output (not .services/: a server may live there)
	@rm -rf .venv .venvs .venv-peers .coverage .coverage.* htmlcov build dist sbom site .hypothesis .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BASE): pyproject.toml constraints.txt
	$(call install,examples)
	@touch $@

$(DEV): pyproject.toml constraints.txt
	$(call install,dev)
	@touch $(BASE) $@

$(RELEASE): pyproject.toml constraints.txt
	$(call install,release)
	@touch $(BASE) $(DEV) $@
