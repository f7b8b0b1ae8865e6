# Magnetar: everything a newcomer needs. `make help` lists it.
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
# Test processes side by side: as many as the machine has processors.
WORKERS ?= logical
BIN := $(VENV)/bin
PRODUCT := $(VENV)/.product-installed
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/pytest -n $(WORKERS)
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Tests start hundreds of processes: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup java run test test-fast test-workers test-all test-nightly coverage check style compiled test-compiled test-package test-portable package pure torture-disk bench record-conformance audit sbom lock fuzz fuzz-rest torture torture-admin torture-tiered torture-takeover test-tiered-many bank soak soak-java proto docs clean model mutants

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

setup: $(STAMP) ## Create .venv with everything for running and developing

define VIRTUAL_ENVIRONMENT
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || { echo "Magnetar needs Python 3.11 or later: install it, or name one with make PYTHON=python3.12"; exit 1; }
@$(PYTHON) -m venv $(VENV) \
  || { echo "Python's venv module is missing: on Debian, apt-get install python3-venv"; exit 1; }
endef

# What a broker needs, for `make run`: without tools and PySpark.
$(PRODUCT): pyproject.toml
	$(VIRTUAL_ENVIRONMENT)
	@echo "Installing Magnetar and the libraries it needs into $(VENV): 100 MB, some seconds"
	@MAGNETAR_BUILD=pure $(BIN)/pip install --quiet -e .
	@touch $@

$(STAMP): pyproject.toml
	$(VIRTUAL_ENVIRONMENT)
	@echo "Installing Magnetar and what its tests need, with PySpark, into $(VENV): 1 GB, a minute or two"
	@$(BIN)/pip install --quiet --upgrade pip  # that of Python 3.11 warns of how PySpark is built
	@MAGNETAR_BUILD=pure $(BIN)/pip install --quiet -e '.[dev]'
	@touch $(PRODUCT) $@

java: ## Install Java for Spark from the system's packages where it is missing
	@scripts/ensure-java

run: $(PRODUCT) ## Start a broker on pulsar://localhost:6650 and http://localhost:8080, data in ./data
	$(BIN)/magnetar standalone --conf conf/standalone.conf

SHIPPED := proto storage broker client spark_connector scripts

style: setup
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	@layers=$$($(BIN)/lint-imports --no-logo) || { echo "$$layers"; exit 1; }
	@$(BIN)/python scripts/wording.py

check: style ## Style, layers, types, and patterns that are unsafe
	$(BIN)/mypy
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml $(SHIPPED)

test-fast: setup pure ## The core: every test that starts no process, with few random cases
	$(PYTEST) --effort fast -m core

test: style pure ## Style, the core, and a part of every other kind of test: in five minutes
	$(PYTEST) --effort fast -m "core or smoke"

# Parts of all tests. CI runs as many as it has time for (.ci/run).
PARTS := core broker client conformance crash spark clients bench workers
PART_core := tests/proto tests/storage tests/fakes tests/fuzz tests/mutants tests/packaging tests/test_docs.py
PART_broker := tests/broker
PART_client := tests/client
PART_conformance := tests/conformance
PART_crash := tests/crash
PART_spark := tests/spark
PART_clients := tests/clients
PART_bench := tests/bench
PART_workers := --broker-workers 3 tests/client/test_client_broker.py \
  $(addprefix tests/broker/official/test_official_,names.py partitions.py publish.py subscriptions.py)
PART_TARGETS := $(addprefix test-part-,$(PARTS))
.PHONY: $(PART_TARGETS)

test-all: check $(PART_TARGETS) ## Style, types and every test, in less than half an hour: before a merge

$(PART_TARGETS): test-part-%: setup pure
	$(PYTEST) $(if $(EFFORT),--effort $(EFFORT)) $(PART_$*)

test-workers: setup pure ## The tests that drive a broker, with one of BROKER_WORKERS=3 workers
	$(PYTEST) -m broker --broker-workers $(or $(BROKER_WORKERS),3) \
	  tests/broker tests/client tests/clients tests/conformance tests/spark

test-nightly: setup ## All random cases, compiled modules, coverage, mutants, long kills, soak, fuzz: hours; goes on where it stopped
	@scripts/nightly

# The floors are a little below what is reached: lower one only with a reason in the commit.
coverage: setup pure ## Branch coverage of protocol, storage and dispatch, each with a floor
	$(PYTEST) -m "core or slow" --cov --cov-report= tests/proto tests/storage tests/broker
	@for floor in proto/magnetar_proto:97 storage/magnetar_storage:97 broker/magnetar_broker/dispatch:97; do \
	  echo "--- $${floor%:*}, at least $${floor#*:} %"; \
	  $(BIN)/coverage report --include="$${floor%:*}/*" --fail-under="$${floor#*:}" || exit 1; \
	done

compiled: setup ## Compile the hot modules with mypyc, beside their sources (needs a C compiler)
	$(BIN)/python scripts/compile.py

test-compiled: compiled ## The tests of protocol, storage and broker on the compiled modules
	$(PYTEST) $(if $(EFFORT),--effort $(EFFORT)) tests/proto tests/storage tests/broker

test-package: setup ## Build sdist and wheel, install the wheel elsewhere and use it (needs a C compiler)
	$(BIN)/pytest tests/packaging/test_build_hook.py tests/packaging/installed_wheel.py

test-portable: setup ## The tests of storage with the system calls that every platform has
	MAGNETAR_DISK_CALLS=portable $(PYTEST) tests/storage

package: setup ## Build dist/: the source distribution, and the wheel compiled for this platform
	MAGNETAR_BUILD=compiled $(BIN)/python -m build

pure: ## Remove what was compiled
	find proto storage broker -name '*.so' -delete

torture-disk: setup ## Power losses on a simulated disk: POINTS=100000 SEED=0 JOBS=1, of DIRECTORIES=1 workers at most
	cd tests && ../$(BIN)/python -m crash.disk_torture \
	  --points $(or $(POINTS),100000) --seed $(or $(SEED),0) --jobs $(or $(JOBS),1) \
	  --directories $(or $(DIRECTORIES),1)

mutants: MINUTES = inf
mutants: setup ## Break each promise of the sources in turn, and list those that no test notices (ONLY=text VERDICTS=file MINUTES=60)
	PYTHONPATH=tests $(BIN)/python -m mutants --only "$(ONLY)" $(if $(VERDICTS),--verdicts $(VERDICTS)) --minutes $(MINUTES)

model: setup ## Random histories of subscriptions against a model: EXAMPLES=5000 for each type
	DISPATCH_EXAMPLES=$(or $(EXAMPLES),5000) $(BIN)/pytest --timeout 0 tests/broker/dispatch/test_dispatch_model.py

bench: setup ## Benchmark against the floor (ROWS=publish,latency SERVERS=magnetar,floor,pulsar-fsync)
	$(BIN)/python -m bench $(if $(ROWS),--rows $(ROWS)) $(if $(SERVERS),--servers $(SERVERS)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(BEFORE),--before $(BEFORE)) $(BENCH)

SIDE ?= original
record-conformance: setup ## Record Apache Pulsar's answers to the dialogues of tests/conformance (needs Java and Maven)
	PYTHONPATH=tests $(BIN)/python -m conformance.record $(SIDE) $(GROUPS)

MINUTES ?= 10
fuzz: setup ## Feed malformed input to parsers, stores and a broker: MINUTES=10 TARGET=name
	@$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/pip install --quiet -e '.[fuzz]'
	@PYTHONPATH=tests $(BIN)/python -m fuzz run --minutes $(MINUTES) $(if $(TARGET),--target $(TARGET))

fuzz-rest: setup ## Random requests for every route of the admin API: EXAMPLES=30000
	REST_EXAMPLES=$(or $(EXAMPLES),30000) $(BIN)/pytest --timeout 0 tests/broker/server/admin/test_admin_fuzz.py

torture: setup ## Kill the broker CYCLES times under load and compare (SEED=s repeats a run), of BROKER_WORKERS=1 at most
	@cd tests && ../$(BIN)/python -m crash.torture --cycles $(or $(CYCLES),100) $(if $(SEED),--seed $(SEED)) --workers $(or $(BROKER_WORKERS),1)

torture-tiered: setup ## Kill the broker and its store of objects CYCLES times under load and compare (SEED=s; needs Go)
	@cd tests && ../$(BIN)/python -m crash.tiered_torture --cycles $(or $(CYCLES),100) $(if $(SEED),--seed $(SEED)) --workers $(or $(BROKER_WORKERS),1)

test-tiered-many: setup ## Read MESSAGES=10000000 of which nine tenths are only in a store of objects (needs Go)
	TIERED_MESSAGES=$(or $(MESSAGES),10000000) $(BIN)/pytest --timeout 0 -p no:xdist tests/broker/tiering/test_tiered_many.py

torture-takeover: setup ## Kill brokers on shared stores, and the stores, CYCLES times under load (SEED=s METADATA=etcd; needs Go)
	@cd tests && ../$(BIN)/python -m crash.takeover_torture --cycles $(or $(CYCLES),50) $(if $(SEED),--seed $(SEED)) --metadata $(or $(METADATA),etcd)

torture-admin: setup ## Kill it CYCLES times while topics, policies and schemas are created and deleted (SEED=s)
	@cd tests && ../$(BIN)/python -m crash.admin_torture --cycles $(or $(CYCLES),100) $(if $(SEED),--seed $(SEED)) --workers $(or $(BROKER_WORKERS),1)

bank: setup ## Move money between topics in TRANSFERS=2000 transactions under KILLS=200 (SEED=s), with BROKER_WORKERS=4
	@cd tests && ../$(BIN)/python -m crash.bank --transfers $(or $(TRANSFERS),2000) --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED)) --workers $(or $(BROKER_WORKERS),4)

soak: MINUTES = 30
soak: setup ## Half speed for MINUTES with clients that connect and leave; fails if memory or files grow
	@cd tests && ../$(BIN)/python -m crash.soak --minutes $(MINUTES)

soak-java: setup ## Move TRANSACTIONS=1000 messages with the Java client while the broker is killed at each step
	SCENARIO_SECONDS=36000 SOAK_TRANSACTIONS=$(or $(TRANSACTIONS),1000) $(BIN)/pytest --timeout 0 -n 0 tests/clients/test_java.py -k everyMessageIsMovedOnce

proto: setup ## Regenerate the protocol classes from PulsarApi.proto
	$(BIN)/python -m grpc_tools.protoc -I proto/magnetar_proto \
	  --python_out=proto/magnetar_proto --pyi_out=proto/magnetar_proto PulsarApi.proto

docs: setup ## Generate the pages of docs that are made from declarations and traces (docs/rest.md is not kept)
	PYTHONPATH=scripts $(BIN)/python -m pages configuration > docs/configuration.md
	PYTHONPATH=scripts $(BIN)/python -m pages policies > docs/policies.md
	PYTHONPATH=scripts $(BIN)/python -m pages rest > docs/rest.md
	PYTHONPATH=scripts $(BIN)/python -m pages command-line > docs/command-line.md
	PYTHONPATH=scripts $(BIN)/python -m pages spark-options > docs/spark-options.md
	PYTHONPATH=tests $(BIN)/python -m conformance.docs

# What is needed for these alone is installed with the first of them.
SUPPLY := $(VENV)/.supply-installed
$(SUPPLY): $(STAMP)
	$(BIN)/pip install --quiet -e '.[supply]'
	@touch $@

audit: $(SUPPLY) ## Compare the locked dependencies with published advisories (UNCHECKED=allowed: without the network, too)
	@$(BIN)/python scripts/audit.py $(if $(UNCHECKED),--allow-unchecked)

sbom: $(SUPPLY) ## Write dist/sbom.json: what the image contains, as CycloneDX
	@mkdir -p dist
	$(BIN)/cyclonedx-py requirements docker/requirements.txt --pyproject pyproject.toml \
	  --output-reproducible --output-format JSON --output-file dist/sbom.json

# For the Python of the image, on both processors that it is built for.
LOCK := $(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --upgrade \
  --python-version 3.12 --universal
lock: $(SUPPLY) ## Choose the newest versions of all that the image contains, and write their hashes
	$(LOCK) pyproject.toml --output-file docker/requirements.txt
	$(LOCK) docker/build.in --output-file docker/build-requirements.txt

clean: pure ## Remove everything that was built (not ./data)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage dist build
