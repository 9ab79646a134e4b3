# `make demo` shows the argument, `make test` the proof. Both make their own .venv first.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint

demo: .venv/installed
	$(BIN)/python -m mrtr_options

test: lint
	$(BIN)/pytest

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@
