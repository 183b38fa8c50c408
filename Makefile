# `make demo` and `make test` do all their own set-up, in a virtual environment of their own (.venv).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2

.PHONY: setup demo test check lint bench wheel clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "paddock needs Python 3.11 or newer with venv; $(PYTHON) is older: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# Without OPENAI_BASE_URL the rows' known-good actions are played; with it (and OPENAI_API_KEY, OPENAI_MODEL) that model.
demo: $(STAMP)
	rm -rf runs/demo
	$(BIN)/paddock eval configs/demo.yaml --isolate --out runs/demo $(if $(OPENAI_BASE_URL),,--oracle)

test: check

check: lint
	$(BIN)/pytest -n $(WORKERS)

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
