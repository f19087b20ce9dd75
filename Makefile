# `make demo` shows a search on this machine; `make test` runs the tests. Both make .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
DEMO   := runs/demo

export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo unit test test-all test-sandbox faults test-gpu bench-sandbox bench-sandbox-gpu bench-real-gpu bench-log landscape history lint types docs check clean prerequisites

demo: $(VENV)/.installed
	@rm -f $(DEMO).db $(DEMO).db-wal $(DEMO).db-shm $(DEMO).db.lock $(DEMO).db.fts $(DEMO)_best.py
	@mkdir -p runs
	$(BIN)/engine run examples/elementwise_chain.py --device cpu \
	  --model playbook:examples/playbooks/elementwise_chain_cpp.toml --attempts 14 --seed 0 \
	  --log $(DEMO).db
	@$(BIN)/engine best $(DEMO).db -o $(DEMO)_best.py
	@echo "kernel: $(DEMO)_best.py"

# What is judged by its speed has the machine to itself (`alone`); the rest shares its cores. Builds
# are kept between runs, by the code that makes them.
PYTEST   := $(BIN)/python -m pytest
PARALLEL := -n auto --dist worksteal
test test-all test-sandbox unit: export STARK_TEST_CACHE := $(CURDIR)/build/test-cache

# Tests that start no process and no compiler: under three minutes on two cores.
unit: $(VENV)/.installed-dev
	$(PYTEST) $(PARALLEL) -m "not process and not slow and not alone and not gpu"

# What has to pass: under ten minutes on two cores.
test: $(VENV)/.installed-dev
	$(PYTEST) $(PARALLEL) -m "not slow and not alone"
	$(PYTEST) -m "alone and not slow"

# Everything: all attacks, both backends of anyio, more examples, long faults. More than an hour, of
# which the long faults are most (docs/log.md).
test-all: export STARK_TEST_THOROUGH := 1
test-all: $(VENV)/.installed-dev
	$(PYTEST) $(PARALLEL) -m "not alone and not gpu"
	$(PYTEST) -m "alone or gpu"

# The piece of test-all that .ci/run adds where the sandbox or an attack changed: CI has 90 minutes
# for all that it does, too little for test-all. It leaves out long faults, and what wants the
# machine for itself.
test-sandbox: $(VENV)/.installed-dev
	$(PYTEST) $(PARALLEL) -m "slow and not alone and not gpu" tests/attacks tests/gpu_sandbox tests/confine

# Kills, power cuts, damage: what `make test` does in seconds, in minutes.
faults: $(VENV)/.installed-dev
	STARK_TEST_THOROUGH=1 $(PYTEST) tests/faults

test-gpu: $(VENV)/.installed-dev
	$(PYTEST) tests/gpu tests/attacks tests/confine -m gpu

# Under three minutes on two idle cores; BENCH=--long takes ten.
bench-sandbox: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks.sandbox_verdicts --device cpu $(BENCH)
	$(BIN)/python -m benchmarks.sandbox_compile --kinds cpp,c --jobs 1

bench-sandbox-gpu: $(VENV)/.installed-dev
	PYTHON=$(BIN)/python PART=doctor,verdicts,throughput,compile benchmarks/gpu_sandbox.sh

# What was asked and what is reached, in an hour; KERNELBENCH is a checkout, PART runs some alone.
bench-real-gpu: $(VENV)/.installed-dev
	PYTHON=$(BIN)/python benchmarks/gpu_real.sh

# Under five minutes on two idle cores; BENCH="--only append" measures some rows.
bench-log: $(VENV)/.installed-dev .venv-peers/.installed
	$(BIN)/python -m benchmarks.log $(BENCH)

# A search simulator: every method and policy on a made-up kernel landscape. Some ten minutes on
# two idle cores, less with LANDSCAPE="--elsewhere 100"; --fit fits its agents to the paper anew.
landscape: $(VENV)/.installed-dev
	nice -n 10 $(BIN)/python -m benchmarks.landscape $(LANDSCAPE)

.venv-peers/.installed: benchmarks/log_peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# A recorded log for tests/histories, which is replayed for ever; its README says when.
history: $(VENV)/.installed-dev
	$(BIN)/python -m tests.histories.record $(NAME)

check: lint types test

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(VENV)/.installed-dev
	$(BIN)/mypy

# Pages of docs/ as HTML, in build/docs. A warning fails.
docs: $(VENV)/.installed-docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

prerequisites:
	@PYTHON="$(PYTHON)" sh scripts/prerequisites.sh

$(VENV)/bin/python: | prerequisites
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . -c constraints.txt
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -c constraints.txt
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]' -c constraints.txt
	@touch $@

clean:
	rm -rf $(VENV) .venv-peers build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
