# `make demo` shows the argument, `make review` the review as pictures, `make test` the proof, `make lint`
# what types and style say, `make conformance` the official suite's opinion (it needs npm). All make their
# own .venv first.

PYTHON ?= python3
BIN := .venv/bin

# Else each of the many processes that tests start compiles the package for itself.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: conformance demo lint review test

demo: .venv/installed
	$(BIN)/python -m mrtr_options

review: .venv/installed
	$(BIN)/python -m mrtr_options.show.render

test: .venv/installed
	$(BIN)/pytest --numprocesses 4 --dist loadscope

conformance: .venv/installed
	$(BIN)/python -m mrtr_options.conformance

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@
