# make test      set up .venv, then lint, types and the test suite: what CI runs
# make test-all  the same with tests that repeat others (marked `full`) and all combinations of parameters: run it before a change
#                is finished
# make quick     lint, types and the tests of what was changed since this branch left main
# make test-oldest  the tests of what meets other libraries, with the oldest versions that are promised
# make environments  set up .venv-more and .bench/dgl with what skipped tests look for: DGL, Ray, scikit-learn, ...
# make test-gpu  what needs a GPU, and the tests of its kernels on it: in your environment, whose torch reaches one
# make demo      set up .venv, then train on a small graph
# make resolve   check that an index has wheels of everything in constraints.txt, on every Python that is promised
# make site      set up .venv-site, then build the documentation as a site: build/site/index.html
# make release   build the wheel and the source distribution into dist/ and check them, also in bare environments; audit constraints.txt
#                for known vulnerabilities, and write a list of components (SBOM); uploads nothing
# Another interpreter than python3: make PYTHON=python3.12 test. Another number of processes: make WORKERS=4 test
# torch's CPU build instead of the index's CUDA build: make TORCH_INDEX=https://download.pytorch.org/whl/cpu demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO ?= $(BIN)/halohop demo
WORKERS ?= auto
TORCH_INDEX ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PARALLEL := --numprocesses $(WORKERS) --dist loadgroup --durations 10 --durations-min 2

# Each process of a test would compile all modules again where this is set, as in many images.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test test-all test-oldest environments test-gpu quick demo site release lint resolve kernels collected ready venv clean

test: ready
	$(BIN)/pytest $(PARALLEL)

test-all: ready
	$(BIN)/pytest $(PARALLEL) -m "not soak and not gpu"

# The oldest versions that pyproject.toml promises, in an environment of its own; the tests are those of what meets other libraries.
# Kernels of a GPU are compiled by the oldest Triton, which brings no linker for AMD: /bin/true stands in, as the code is read before.
OLDEST_TESTS := tests/launch/test_cli.py tests/launch/terminal/test_progress.py tests/test_errors.py tests/datasets tests/ops/test_sample.py \
	tests/files tests/store tests/pyg/test_convert.py tests/recipes/test_config.py tests/recipes/test_models.py
test-oldest:
	$(PYTHON) -m venv --clear $(VENV)-oldest
	$(VENV)-oldest/bin/pip install --quiet --disable-pip-version-check -c constraints-oldest.txt -e '.[all,gpu]' triton==3.2.0 hypothesis networkx scipy pytest pytest-timeout pytest-xdist
	$(VENV)-oldest/bin/python -m pytest $(OLDEST_TESTS)
	TRITON_HIP_LLD_PATH=/bin/true $(VENV)-oldest/bin/python -m pytest -m "" tests/ops/test_gpu_compile.py::test_every_kernel_compiles_for_every_target

# What skipped tests look for: make environments, then make VENV=.venv-more test-all. DGL 2.1 has an environment of its own, .bench/dgl,
# with the torch of its time; its Python must be 3.11 or 3.12.
MORE := 'ray[default,train]>=2.60' kubernetes-validate scikit-learn pytorch-frame s3fs 'moto[server]'
ADD := $(BIN)/uv pip install --quiet --no-config --python .venv-more/bin/python
environments: venv
	@$(MAKE) --no-print-directory VENV=.venv-more .venv-more/.installed-dev
	$(ADD) -c constraints.txt $(MORE)
	$(ADD) --no-deps dgl==1.1.3
	$(BIN)/python -m benchmarks.peers

# In an environment of yours, as .venv may have a torch that is built for the CPU: pip install -e '.[dev]' beside a torch for CUDA,
# then: make GPU_PYTHON=/path/of/python test-gpu. Kernels are compiled and run there, not interpreted: a test may take minutes the
# first time. Warnings of a torch that was never seen here are no errors.
# Several processes share the GPU: make GPU_WORKERS=1 test-gpu for one. make test compiles kernels ahead of time, without a GPU.
GPU_PYTHON ?= $(PYTHON)
GPU_WORKERS ?= 4
GPU_TESTS := $(filter-out tests/ops/test_gpu_compile.py,$(wildcard tests/ops/test_gpu_*.py)) tests/sampling/test_on_device.py tests/system/test_gpu.py
test-gpu:
	@if $(GPU_PYTHON) -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then \
		TRITON_INTERPRET=0 $(GPU_PYTHON) -m pytest $(GPU_TESTS) -m "not soak" \
			--numprocesses $(GPU_WORKERS) --dist loadgroup -W default --timeout 1800; \
	else echo "no GPU: $(GPU_PYTHON) has no torch that reaches one; nothing was tested"; fi

quick: ready
	tests=$$($(BIN)/python tests/changed.py) && $(BIN)/pytest $(PARALLEL) $$tests

demo: $(VENV)/.installed-all
	$(DEMO)

# Strict: a warning, such as a link that leads nowhere, or a block of a tutorial that fails, is an error. CI has one environment for all.
SITE_VENV ?= .venv-site
site:
	@$(MAKE) --no-print-directory VENV=$(SITE_VENV) $(SITE_VENV)/.installed-docs
	$(SITE_VENV)/bin/python -m halohop compile
	$(SITE_VENV)/bin/python docs/site/build.py build/site
	@echo "The site: build/site/index.html"

# Its tools have an environment without halohop, which is built and installed apart.
# Where the index has no torch of the oldest version for this machine, name another: make TORCH=2.13.0 release
TORCH ?=
release:
	$(PYTHON) -m venv --clear .venv-release
	.venv-release/bin/pip install --quiet --disable-pip-version-check -c constraints.txt build check-wheel-contents cyclonedx-bom pip-audit twine
	rm -rf dist
	.venv-release/bin/python -m build --outdir dist
	.venv-release/bin/twine check --strict dist/*
	.venv-release/bin/check-wheel-contents dist/*.whl
	.venv-release/bin/python .ci/check_release.py dist $(if $(TORCH),--torch $(TORCH))

lint: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Local files of wheels hide what a stranger meets. uv reads the index only, and downloads no wheel.
PYTHONS := 3.11 3.12 3.13
RESOLVE := $(BIN)/uv pip compile --quiet --no-config --no-build --python-platform x86_64-manylinux_2_28 --output-file /dev/null pyproject.toml
resolve: venv
	@for version in $(PYTHONS); do echo "Resolving all extras on Python $$version" && \
		$(RESOLVE) --python-version $$version --all-extras -c constraints.txt || exit 1; done
	@echo "Resolving the oldest versions on Python 3.11" && $(RESOLVE) --python-version 3.11 --extra all --extra gpu -c constraints-oldest.txt

# Byte code and machine code, once, before several processes want them.
kernels: venv
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m halohop compile

# pytest's byte code of the tests, once, in a fresh clone: each process of the tests would write all of it.
collected: venv
	@ls tests/__pycache__/conftest.*-pytest-*.pyc > /dev/null 2>&1 || $(BIN)/pytest --collect-only -qq > /dev/null || true

# mypy takes one core, so the other one compiles meanwhile.
ready: venv
	@$(MAKE) --no-print-directory --jobs 2 lint kernels collected

venv: $(VENV)/.installed-dev

# One stamp per set of extras: nothing is installed again until the requirements change.
$(VENV)/.installed-%: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "halohop needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 $(MAKECMDGOALS)"; \
		exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing halohop[$*] into $(VENV): minutes the first time, seconds after"
	$(if $(TORCH_INDEX),$(PIP) --no-deps --index-url $(TORCH_INDEX) torch)
	$(PIP) -e '.[$*]'
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-site $(VENV)-release $(VENV)-more $(VENV)-oldest dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
