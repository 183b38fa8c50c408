# `make demo` and `make test` do all their own set-up, in a virtual environment of their own (.venv).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# More than two cores: many tests wait.
WORKERS ?= 3
TESTS := WORKERS=$(WORKERS) scripts/run_tests.sh $(BIN)/pytest
SWEBENCH := 5.0.2

.PHONY: setup demo train-demo test test-slow check lint bench wheel clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "paddock needs Python 3.11 or newer with venv; $(PYTHON) is older: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	# Its parsers and rules alone; what it needs to run containers of its own weighs half a gigabyte.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps swebench==$(SWEBENCH)
	touch $@

# Two parts. Pivot rows, over HTTP. Then three bugs in released packages, in real sandboxes, through every harness; one
# table of that, in runs/demo. Without OPENAI_BASE_URL what is known to be right is played, and has to be paid; with it (and
# OPENAI_API_KEY, OPENAI_MODEL) that model is evaluated.
ORACLE := $(if $(OPENAI_BASE_URL),,--oracle)
DEMO_REWARDS := gold=1 null=0 $(if $(OPENAI_BASE_URL),,codeact=1 codex=1 opencode=1)

demo: $(STAMP)
	rm -rf runs/demo-pivot runs/demo runs/artifacts
	$(BIN)/paddock eval configs/demo.yaml --isolate --out runs/demo-pivot $(ORACLE)
	scripts/ensure_sandbox.sh $(BIN)/paddock
	$(BIN)/paddock images build --rows resources_servers/swe/data/example.jsonl
	$(BIN)/paddock eval configs/swe_demo.yaml --out runs/demo $(ORACLE) >runs/demo.txt || { cat runs/demo.txt; exit 1; }
	$(BIN)/python scripts/demo_table.py runs/demo
	$(BIN)/python scripts/check_rewards.py runs/demo $(DEMO_REWARDS)

# A model of its own, from random weights, on a CPU: see `scripts/train_demo.py`. VLLM_HOME: where its environment goes.
VLLM_HOME ?= $(HOME)/.cache/paddock/vllm
SEEDS ?= 1

train-demo:
	eval "$$(scripts/setup_vllm.sh "$(VLLM_HOME)")" && scripts/train_demo.sh $(SEEDS)

test: check

check: lint
	$(TESTS)

test-slow: $(STAMP)
	$(TESTS) -m 'slow or long'

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/sizes.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks

wheel: $(STAMP)
	$(BIN)/python scripts/check_wheel.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info
