PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.giantstep-installed
DOCS_STAMP := .venv/.giantstep-docs
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n 2 --durations=20

.PHONY: help setup demo test times quick lint tables docs verify figures bench clean

help:
	@echo "make setup   virtual environment .venv with everything pinned in constraints.txt"
	@echo "make demo    rebuild a published figure at a small size; results in out/"
	@echo "make test    lint, types and tests: what CI runs"
	@echo "make quick   lint of what changed and the tests of FAMILY=network (a folder of tests/families) without its networks: about a minute"
	@echo "make times   make test, and its wall time and slowest tests into CONTRIBUTING.md"
	@echo "make lint    lint and types only"
	@echo "make tables  the tables that the package writes into its pages: fields, questions, agreement, benchmarks"
	@echo "make docs    the documentation, strictly; open docs/_build/html/index.html"
	@echo "make verify  the long checks that are not stored yet, BUDGET=minutes of them; writes docs/verification.md"
	@echo "make figures the published figures that are not stored yet, BUDGET=minutes of them; writes docs/reproduction.md"
	@echo "make bench   the benchmarks; stores what they print in benchmarks/results"
	@echo "make clean   remove caches and out/, keep .venv"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: setup
	$(BIN)/giantstep reproduce learned-features --quick --out out

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint
	$(PYTEST) -m "not slow"

times: lint
	$(PYTEST) -m "not slow" --write-times

FAMILY ?= network
quick: setup
	$(BIN)/ruff check -q .
	$(PYTEST) -m "not slow" -k "not agree and not network and not experiment and not (test_protocol and not $(subst _,-,$(FAMILY)))" --maxfail=5 --durations=5 tests/spine/test_protocol.py tests/families/$(FAMILY)

tables: setup
	$(BIN)/python docs/tables.py

docs: $(DOCS_STAMP)
	rm -rf docs/_build/html
	$(ONE_THREAD) MPLBACKEND=Agg $(BIN)/python -m sphinx -W -E --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

$(DOCS_STAMP): $(STAMP)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

verify figures: setup
	$(ONE_THREAD) $(BIN)/python benchmarks/$@.py $(if $(BUDGET),--budget $(BUDGET))
	$(BIN)/python docs/tables.py

bench: setup
	set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; result=benchmarks/results/$$(basename $$file .py).txt; \
	  $(BIN)/python $$file > $$result.new; mv $$result.new $$result; cat $$result; done
	$(BIN)/python docs/tables.py

clean:
	rm -rf out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
