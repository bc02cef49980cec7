# make test   set up .venv, then lint, types and the test suite: what CI runs
# make demo   set up .venv, then train on a small graph
# Another interpreter than python3: make PYTHON=python3.12 test

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO ?= $(BIN)/halohop demo

.PHONY: test demo lint venv clean

test: lint
	$(BIN)/pytest

demo: $(VENV)/.installed-all
	$(DEMO)

lint: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

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
