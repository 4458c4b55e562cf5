# Two commands set everything up on a machine that has Python >= 3.11 and make:
#   make test      makes .venv, installs, lints, type-checks, runs the tests; make quick a part of
#                  them in two minutes
#   make reproduce every figure of the paper: out/reproduction/report.html
# and  make example   is a small real example: a table, and a picture in out/
#      make docs      builds the documentation, running all of its code: out/site/index.html
PYTHON ?= python3
BIN := .venv/bin

.PHONY: test quick reproduce example docs venv benchmarks random-programs wheel clean

test: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n auto --dist worksteal -m 'not long'

quick: venv
	JAX_COMPILATION_CACHE_DIR=$(CURDIR)/.venv/compiled $(BIN)/pytest -q -n auto --dist worksteal -m quick

reproduce: .venv/paper
	$(BIN)/limitlaw reproduce --force

example: venv
	$(BIN)/python examples/attention_tails.py

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo out/site/index.html

.venv/docs: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

venv: .venv/installed

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "limitlaw needs Python >= 3.11, this is " + sys.version.split()[0] + "; write: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv

.venv/installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.venv/paper: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[paper]'
	@touch $@

benchmarks: venv
	$(BIN)/python benchmarks/dense.py
	$(BIN)/python benchmarks/finite_width.py
	$(BIN)/python benchmarks/limit.py
	$(BIN)/python benchmarks/laws.py
	$(BIN)/python benchmarks/depth.py
	$(BIN)/python benchmarks/covariances.py
	$(BIN)/python benchmarks/fits.py
	$(BIN)/python benchmarks/backward.py
	for what in laws hundred uniform gpt2; do $(BIN)/python benchmarks/audit.py $$what || exit 1; done
	$(BIN)/python benchmarks/explore.py

random-programs: venv
	$(BIN)/pytest -q -n auto --dist worksteal -m long
	$(BIN)/python benchmarks/random_programs.py --programs 10000
	$(BIN)/python benchmarks/adversary.py --cases 5000

wheel: venv
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf .venv out dist build
