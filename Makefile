# `make demo` and `make test` set up what they need. `make help` lists the other targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# More than most machines have cores: many tests wait for a broker.
JOBS ?= 4
PYTEST_ARGS ?=
# Tests start the program thousands of times: without bytecode each start would compile all of it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test check lint peers soak man schemas transcripts fixtures bench sdist wheel bundle clean
.DEFAULT_GOAL := help

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

# --- what the targets need ------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kafkatool needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || \
		{ rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment (Debian: apt install python3-venv)" >&2; exit 1; }
	@$(INSTALL) --upgrade pip || echo "continuing with the existing pip, which may take longer" >&2

# The package is installed in place: a stamp is outdated only by other requirements, or another kernel.
NEEDS := pyproject.toml setup.py $(wildcard $(addprefix kafkatool/format/kernel/*.,pyx pxi h))
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(VENV)/installed: $(NEEDS) | $(BIN)/python
	@echo "Installing kafkatool into $(VENV)" >&2
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/installed-dev: $(NEEDS) | $(BIN)/python
	@echo "Installing kafkatool and the tools of its developers into $(VENV)" >&2
	@$(INSTALL) --no-compile --editable '.[dev]'
	@touch $@ $(VENV)/installed

# --- for everybody ------------------------------------------------------------------------------------

# Spark takes half a gigabyte: it is installed only if there is a Java to run it.
$(VENV)/installed-spark: $(NEEDS) | $(VENV)/installed
	@if java -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])'; then \
		echo "Installing Spark into $(VENV)" >&2; $(INSTALL) --editable '.[spark]'; fi
	@touch $@

demo: $(VENV)/installed $(VENV)/installed-spark ## show the commands on a sample log directory
	@rm -rf build/sample && mkdir -p build
	@$(BIN)/python examples/sample_log_dir.py build/sample
	@cd build && PATH="$(CURDIR)/$(BIN):$$PATH" sh ../examples/demo.sh sample
	@printf '\nTo try it yourself: . %s/activate && cd build && kafkatool --help\n' "$(BIN)"

# Tests of what uses the kernel, run a second time without it.
ON_THE_KERNEL := $(addprefix tests/format/test_,columns.py header_columns.py key_offsets.py legacy.py record.py) \
	$(addprefix tests/engine/,batches/test_scan.py batches/test_extreme_offsets.py verify/test_verification.py \
	rebuild/test_planning.py broker/test_index_accounting.py log/test_append_runs.py log/test_partition_log.py)

test: $(VENV)/installed-dev lint peers ## run all checks, and all tests except soak: a quarter of an hour
	@$(BIN)/pytest -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)
	@$(if $(PYTEST_ARGS),,KAFKATOOL_PURE=1 $(BIN)/pytest -n $(JOBS) $(ON_THE_KERNEL))

# --- for developers -----------------------------------------------------------------------------------

check: $(VENV)/installed-dev lint ## check style, types and layers, run the tests that need no other program: three minutes
	@$(BIN)/pytest -n $(JOBS) --dist loadgroup -m "not soak and not peer and not long" $(PYTEST_ARGS)

lint: $(VENV)/installed-dev ## check style, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

peers: $(VENV)/installed-dev ## download the programs that tests compare with, as far as they are available
	@$(BIN)/python -m tests.kafka.peers || echo "continuing without the missing peers" >&2

soak: $(VENV)/installed-dev peers ## run the long matrices, and every test without the kernel: more than an hour
	@$(BIN)/pytest -m soak -n $(JOBS) --dist loadgroup $(PYTEST_ARGS)
	@$(if $(PYTEST_ARGS),,KAFKATOOL_PURE=1 $(BIN)/pytest -n $(JOBS) --dist loadgroup)

man: $(VENV)/installed ## generate the man pages and completions from the commands
	@$(BIN)/python man/generate.py
	@$(BIN)/kafkatool completion bash > completions/kafkatool.bash
	@$(BIN)/kafkatool completion zsh > completions/_kafkatool
	@$(BIN)/kafkatool completion fish > completions/kafkatool.fish

schemas: $(VENV)/installed-dev peers ## generate the tables of messages, and the page of their changes, from Kafka's jars
	@$(BIN)/python -m tests.kafka.make_schemas

transcripts: $(VENV)/installed ## run the examples of README, tour and library.md, and update what they print
	@$(BIN)/python -m tests.transcripts

fixtures: $(VENV)/installed-dev peers ## write the fixtures again with real brokers (some minutes)
	@$(BIN)/python -m tests.kafka.make_fixtures

bench: $(VENV)/installed-dev peers ## measure the table of ratios, into benchmarks/RESULTS.md (BENCH_ARGS=--quick: a minute)
	@$(BIN)/python -m benchmarks --results benchmarks/RESULTS.md $(BENCH_ARGS)

sdist: $(VENV)/installed-dev ## build dist/*.tar.gz, the sources (reproducible)
	@$(BIN)/python -m release.build sdist dist

wheel: $(VENV)/installed-dev ## build dist/*.whl with the kernel, and the sources that it is built from
	@$(BIN)/python -m release.build wheel dist

bundle: $(VENV)/installed-dev ## build the directory and tarball for hosts without Python (EXTRAS=arrow: with Parquet)
	@$(BIN)/python -m release.bundle dist $(EXTRAS)

clean: ## remove everything that was made here, except the downloaded peers
	rm -rf $(VENV) build dist *.egg-info kafkatool/format/kernel/compiled.c kafkatool/format/kernel/compiled.*.so .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
