# make test      set up .venv, then lint, types and the test suite: what CI runs
# make test-all  the same with the tests that repeat others at another size (marked `full`): run it before a change is finished
# make quick     lint, types and the tests of what was changed since this branch left main
# make demo      set up .venv, then train on a small graph
# Another interpreter than python3: make PYTHON=python3.12 test. Another number of processes: make WORKERS=4 test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO ?= $(BIN)/halohop demo
WORKERS ?= auto
PARALLEL := --numprocesses $(WORKERS) --dist loadgroup --durations 10 --durations-min 2

.PHONY: test test-all quick demo lint kernels venv clean

test: lint kernels
	$(BIN)/pytest $(PARALLEL)

test-all: lint kernels
	$(BIN)/pytest $(PARALLEL) -m "not soak"

quick: lint kernels
	tests=$$($(BIN)/python tests/changed.py) && $(BIN)/pytest $(PARALLEL) $$tests

demo: $(VENV)/.installed-all
	$(DEMO)

lint: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Byte code and machine code, once, before several processes want them.
kernels: venv
	$(BIN)/python -m compileall -q src
	$(BIN)/python -c "from halohop import ops; ops.warm_up()"

venv: $(VENV)/.installed-dev

# One stamp per set of extras: nothing is installed again until the requirements change.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "halohop needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
		exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing halohop[$*] into $(VENV): minutes the first time, seconds after"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
