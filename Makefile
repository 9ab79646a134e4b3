# `make demo` shows the argument, `make review` the review as pictures, `make test` the proof, `make
# conformance` the official suite's opinion (it needs npm). All make their own .venv first.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: conformance demo lint review test tests

demo: .venv/installed
	$(BIN)/python -m mrtr_options

review: .venv/installed
	$(BIN)/python -m mrtr_options.review.render

# Side by side: pyright has one core busy, and the tests wait often.
test: .venv/installed
	@$(MAKE) --no-print-directory --jobs=2 lint tests

tests: .venv/installed
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
