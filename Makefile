# Magnetar: everything a newcomer needs. `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup java run test check compiled test-compiled pure torture-disk bench record-conformance fuzz torture torture-admin soak proto docs clean model mutants

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: $(STAMP) ## Create .venv with everything for running and developing

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Magnetar needs Python 3.11 or later: install it, or name one with make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "Python's venv module is missing: on Debian, apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -e '.[dev]'
	@touch $@

java: ## Install Java for Spark from the system's packages where it is missing
	@scripts/ensure-java

run: setup ## Start a broker on pulsar://localhost:6650 and http://localhost:8080, data in ./data
	$(BIN)/magnetar standalone --conf conf/standalone.conf

check: setup ## Style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check pure java ## Every check and every test
	$(BIN)/pytest

compiled: setup ## Compile the hot modules with mypyc, beside their sources (needs a C compiler)
	$(BIN)/python scripts/compile.py

test-compiled: compiled ## The tests of protocol, storage and broker on the compiled modules
	$(BIN)/pytest tests/proto tests/storage tests/broker

pure: ## Remove what was compiled
	find proto storage broker -name '*.so' -delete

torture-disk: setup ## Power losses on a simulated disk: POINTS=100000 SEED=0 JOBS=1
	cd tests && ../$(BIN)/python -m crash.disk_torture \
	  --points $(or $(POINTS),100000) --seed $(or $(SEED),0) --jobs $(or $(JOBS),1)

mutants: setup ## Take each sync, check and order out, one at a time: do the tests notice? (ONLY=text)
	PYTHONPATH=tests $(BIN)/python -m mutants --only "$(ONLY)"

model: setup ## Any history of a subscription against a model: EXAMPLES=5000 for each type
	DISPATCH_EXAMPLES=$(or $(EXAMPLES),5000) $(BIN)/pytest --timeout 0 tests/broker/test_dispatch_model.py

bench: setup ## Measure beside the floor (PEER=pulsar: and the original; ROWS=publish,latency ROUNDS=3)
	$(BIN)/python -m bench $(if $(PEER),--peer $(PEER)) $(if $(ROWS),--rows $(ROWS)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(BEFORE),--before $(BEFORE)) $(BENCH)

SIDE ?= original
record-conformance: setup ## Record what Apache Pulsar says to tests/conformance (needs Java and Maven)
	PYTHONPATH=tests $(BIN)/python -m conformance.record $(SIDE) $(GROUPS)

MINUTES ?= 10
fuzz: setup ## Feed parsers, stores and a broker what nobody sends: MINUTES=10 TARGET=name
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/pip install --quiet -e '.[fuzz]'
	@PYTHONPATH=tests $(BIN)/python -m fuzz run --minutes $(MINUTES) $(if $(TARGET),--target $(TARGET))

torture: setup ## Kill the broker CYCLES times under load and compare (SEED=s repeats a run)
	@cd tests && ../$(BIN)/python -m crash.torture --cycles $(or $(CYCLES),100) $(if $(SEED),--seed $(SEED))

torture-admin: setup ## Kill it CYCLES times while topics, policies and schemas come and go (SEED=s)
	@cd tests && ../$(BIN)/python -m crash.admin_torture --cycles $(or $(CYCLES),100) $(if $(SEED),--seed $(SEED))

soak: MINUTES = 30
soak: setup ## Half speed for MINUTES with clients that come and go: does anything grow?
	@cd tests && ../$(BIN)/python -m crash.soak --minutes $(MINUTES)

proto: setup ## Generate the protocol classes anew from PulsarApi.proto
	$(BIN)/python -m grpc_tools.protoc -I proto/magnetar_proto \
	  --python_out=proto/magnetar_proto --pyi_out=proto/magnetar_proto PulsarApi.proto

docs: setup ## Generate docs/configuration.md and docs/policies.md anew from what is declared, docs/differences.md from the traces
	$(BIN)/python -m magnetar_broker.config.docs > docs/configuration.md
	$(BIN)/python -m magnetar_broker.server.admin.policies.docs > docs/policies.md
	PYTHONPATH=tests $(BIN)/python -m conformance.docs

clean: pure ## Remove what the build made (not ./data)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
