# `make demo` and `make test` do all their own set-up, in a virtual environment of their own (.venv).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# More than two cores: many tests wait.
WORKERS ?= 3
# More of them for pytest.
ARGUMENTS ?=
TESTS := WORKERS=$(WORKERS) scripts/run_tests.sh $(BIN)/pytest $(ARGUMENTS)
# Its parsers and rules alone; what it needs to run containers of its own weighs half a gigabyte. In requirements.lock, too.
SWEBENCH := 5.0.2

.PHONY: setup demo train-demo train-demo-math train-demo-trl test tests test-slow check lint types rules bench docs wheel clean

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "paddock needs Python 3.11 or newer with venv; $(PYTHON) is older: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	scripts/install.sh $(BIN)/python
	touch $@

# See the script: DEMO_PROGRAMS=0 leaves out what has to be installed from elsewhere.
demo: $(STAMP)
	scripts/demo.sh $(BIN)

# A model of its own, from random weights, on a CPU: see `scripts/train_demo.py`. VLLM_HOME: where its environment goes.
VLLM_HOME ?= $(HOME)/.cache/paddock/vllm
SEEDS ?= 1

train-demo:
	eval "$$(scripts/setup_vllm.sh "$(VLLM_HOME)")" && scripts/train_demo.sh $(SEEDS)

# The same model learns sums.
train-demo-math:
	eval "$$(scripts/setup_vllm.sh "$(VLLM_HOME)")" && scripts/train_demo.sh $(SEEDS) sums

# The same model and rows, trained by TRL: see `scripts/train_demo_trl.py`. TRAINERS_HOME: where its environment goes.
TRAINERS_HOME ?= $(HOME)/.cache/paddock/trainers

train-demo-trl:
	eval "$$(scripts/setup_vllm.sh "$(VLLM_HOME)")" && eval "$$(scripts/setup_trainer.sh trl "$(TRAINERS_HOME)")" && \
		scripts/train_demo_trl.sh

test: check

# mypy keeps one core busy for more than a minute: the tests go on beside it.
check: rules
	@$(MAKE) --no-print-directory -j 2 types tests

tests: $(STAMP)
	$(TESTS)

test-slow: $(STAMP)
	$(TESTS) -m 'slow or long'

# mypy takes as long as all else.
lint: $(STAMP)
	@$(MAKE) --no-print-directory -j 2 types rules

types: $(STAMP)
	$(BIN)/mypy

rules: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/sizes.py
	$(BIN)/python scripts/settings.py --check
	$(BIN)/python scripts/commands.py --check
	$(BIN)/python scripts/rooms.py --check

bench: $(STAMP)
	$(BIN)/python -m benchmarks

# The site of the pages in docs/ and beside the code, in build/site; links and anchors that lead nowhere are errors.
docs: $(STAMP)
	$(BIN)/python scripts/docs_site.py

wheel: $(STAMP)
	$(BIN)/python scripts/check_wheel.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info
