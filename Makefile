# Two commands on a fresh machine: `make demo` and `make test`. `make docs` builds the site.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTED := $(VENV)/.tested
DOCUMENTED := $(VENV)/.documented
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
unexport PYTHONDONTWRITEBYTECODE # otherwise every command that the tests start compiles everything again

.PHONY: demo test tests lint style types docs bench soak clean

demo: $(READY)
	@$(BIN)/troth demo

# The type check runs while the tests start.
test: style
	@$(MAKE) --no-print-directory --jobs 2 types tests

# Each worker has its own core, so one BLAS thread per worker is best.
tests: $(TESTED)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup

lint: style types

style: $(TESTED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TESTED)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The tests also build the site.
docs: $(DOCUMENTED)
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

bench: $(TESTED)
	$(BIN)/python -m benchmarks

# The same tests with more seeds and examples.
soak: $(TESTED)
	OPENBLAS_NUM_THREADS=1 TROTH_SOAK=1 $(BIN)/python -m pytest -n auto --dist loadgroup

clean:
	rm -rf $(VENV) troth-demo .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist docs/gallery

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip
	$(PIP) install --editable .
	@touch $@

$(DOCUMENTED): $(READY)
	$(PIP) install --editable ".[docs]"
	@touch $@

# What the tests need in addition: the dev extra, a browser, Java and PostgreSQL.
$(TESTED): $(READY) .ci/packages
	$(PIP) install --editable ".[dev]"
	.ci/packages
	@touch $@
