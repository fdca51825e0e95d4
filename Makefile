# `make demo` and `make test` are all that is needed; each sets up what it uses. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
PYTEST_ARGS ?=

.PHONY: help demo test lint peers soak man transcripts fixtures bench wheel clean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# --- what the targets stand on ------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kafkatool needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment (Debian: apt install python3-venv)" >&2; exit 1; }

# The package is installed in place: a stamp is outdated only by other requirements.
$(VENV)/installed: pyproject.toml | $(BIN)/python
	@echo "Installing kafkatool into $(VENV)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing kafkatool and the tools of its developers into $(VENV)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ $(VENV)/installed

# --- for everybody ------------------------------------------------------------------------------------

demo: $(VENV)/installed ## write a sample log directory and show the main job on it
	@rm -rf build/sample && mkdir -p build
	@$(BIN)/python examples/sample_log_dir.py build/sample
	@cd build && PATH="$(CURDIR)/$(BIN):$$PATH" sh ../examples/demo.sh sample
	@printf '\nTo go on by yourself: . %s/activate && cd build && kafkatool --help\n' "$(BIN)"

test: $(VENV)/installed-dev lint peers ## every check and every test that fits in a quarter of an hour
	@$(BIN)/pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)

# --- for developers -----------------------------------------------------------------------------------

lint: $(VENV)/installed-dev ## style, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

peers: $(VENV)/installed-dev ## fetch the programs that tests compare with, as far as they can be had
	@$(BIN)/python -m tests.kafka.peers || echo "going on without the peers that are missing" >&2

soak: $(VENV)/installed-dev peers ## the long matrices
	@$(BIN)/pytest -m soak $(PYTEST_ARGS)

man: $(VENV)/installed ## write the man pages anew from the commands
	@$(BIN)/python man/generate.py

transcripts: $(VENV)/installed ## run the shell examples of the README and write down what they print
	@$(BIN)/python -m tests.transcripts

fixtures: $(VENV)/installed-dev peers ## make the fixtures anew with real brokers (some minutes)
	@$(BIN)/python -m tests.kafka.make_fixtures

bench: $(VENV)/installed-dev peers ## measure against Kafka's own tool
	@$(BIN)/python -m benchmarks

wheel: | $(BIN)/python ## build dist/*.whl
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

clean: ## remove everything that was made here; the peers stay in their cache
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
