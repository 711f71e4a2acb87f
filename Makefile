# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTED := $(VENV)/.tested
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: demo test lint bench soak clean

demo: $(READY)
	@$(BIN)/troth demo

test: lint
	$(BIN)/python -m pytest -n auto --dist loadgroup

lint: $(TESTED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(TESTED)
	$(BIN)/python -m benchmarks

# The same tests with more seeds and examples.
soak: $(TESTED)
	TROTH_SOAK=1 $(BIN)/python -m pytest -n auto --dist loadgroup

clean:
	rm -rf $(VENV) troth-demo .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install --editable .
	@touch $@

# What tests need beside that: packages of the dev extra, a browser and Java.
$(TESTED): $(READY) .ci/packages
	$(PIP) install --editable ".[dev]"
	.ci/packages
	@touch $@
