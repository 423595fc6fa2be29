SHELL := /bin/bash
# Two commands on a fresh machine: `make demo` and `make test`. Everything else is listed by `make help`.
# Every target sets itself up: a virtual environment in .venv, filled from requirements.lock by hash.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# Options, given as `make TARGET NAME=value`.
VECTORS ?= ../shared/spec/vectors
JOBS    ?= 6

# What is compiled is kept, also where the environment forbids it: every process that is started would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo up test check format vectors e2e bench chaos docs generate golden lock clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## */\1\t/' | expand -t 12

setup: $(READY)  ## the virtual environment alone

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Tidewright needs Python 3.11 or later, and $(PYTHON) is " + sys.version.split()[0] + ": name another with `make PYTHON=python3.12 ...`")'
	@echo 'setting up $(VENV) (once, and after a change of the dependencies)' >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q libs services
	@touch $@

demo: $(READY)  ## a cluster, the log and the services on a recorded load; METRICS=FILE.csv, SPEED=n
	@$(BIN)/tidewright demo $(if $(METRICS),--metrics $(METRICS)) $(if $(SPEED),--speed $(SPEED)) $(ARGS)

up: $(READY)  ## bring everything up and keep it running until Ctrl-C
	@$(BIN)/tidewright up $(ARGS)

# Six processes on two cores: all tests take 13 to 20 minutes of processor time, by the machine, and in much of their own time they
# wait for clocks and for processes. Two workers leave half of two cores idle.
test: $(READY)  ## all tests; JOBS=n processes, ARGS=... for pytest
	@env -u KUBECONFIG $(BIN)/pytest -n $(JOBS) --dist worksteal $(ARGS)

check: $(READY)  ## format, lint, strict types, import contracts, generated files, lock, dependencies
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tidewright.cli.contract --check
	@! grep -nE '(https?|file)://|^--?(index|extra-index|find-links|i |f )' requirements.lock deploy/requirements.lock deploy/embedded/requirements.lock deploy/sbom/requirements.lock \
	  || { echo 'a lock names an index or a file address; run `make lock`' >&2; exit 1; }
	@$(BIN)/deptry . 2>&1 | { grep -vE '^(Scanning|Assuming|$$)' || true; } | sed 's/^/deptry: /'; exit $${PIPESTATUS[0]}

format: $(READY)  ## put the code into its form
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

vectors: $(READY)  ## the specification's cases; VECTORS='PATH...' for others than ../shared/spec/vectors
	@$(BIN)/python -m tests.vectors $(VECTORS)

# Clouds that are objects of a cluster are held to their contract there, too.
CONTRACT := tests/unit/cloud/contract

e2e: $(READY)  ## end-to-end suite; on the embedded cluster, or on KUBECONFIG=FILE; SUITE=pipeline for one part of it
	@$(BIN)/pytest tests/e2e$(if $(SUITE),/$(SUITE)) $(if $(KUBECONFIG),--kubeconfig $(KUBECONFIG) $(if $(SUITE),,$(CONTRACT))) $(ARGS)

bench: $(READY)  ## benchmarks, a table and build/bench.json; BENCH=word for those with it in their name, SIZE=small
	@$(BIN)/python -m tests.bench $(BENCH) $(if $(SIZE),--size $(SIZE))

chaos: $(READY)  ## kill at random, then compare; KILLS=n, SEED=n, WORKLOADS=n, NATS=3
	@$(BIN)/python -m tests.chaos $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(NATS),--nats $(NATS))

docs: $(READY)  ## the site of all that is written for people, in build/site; fails on a link that leads nowhere
	@$(BIN)/python -m tidewright.cli.contract.site build/pages
	@$(BIN)/zensical build --strict

generate: $(READY)  ## proto/, docs/reference/ and parts of deploy/ anew, from the event types, the CRDs, the watched kinds and the service table
	@$(BIN)/python -m tidewright.cli.contract

golden: $(READY)  ## a golden file for every event type and state version that has none yet
	@$(BIN)/python -m tidewright.cli.contract --golden
	@$(BIN)/python -m tests.recorded

COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-emit-find-links --no-annotate --no-header
lock: $(READY)  ## resolve the dependencies anew and lock them by hash
	@$(COMPILE) --extra dev pyproject.toml -o requirements.lock
	@$(COMPILE) --constraints requirements.lock --extra aws --extra console --extra grpc --extra traces pyproject.toml -o deploy/requirements.lock
	@$(COMPILE) --constraints requirements.lock deploy/embedded/requirements.in -o deploy/embedded/requirements.lock
	@$(COMPILE) deploy/sbom/requirements.in -o deploy/sbom/requirements.lock

clean:  ## everything that a target made: the environment, caches, build/
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
