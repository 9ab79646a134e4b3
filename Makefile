# `make demo` shows the argument, `make page` writes docs/page/index.html from what is kept (a minute),
# `make notebooks` executes the notebooks again (minutes), `make quick` runs the tests that take no seconds each,
# `make test` every claim once, `make evidence` all that documents rest on (it
# goes on where it was interrupted), `make lint` checks types, style, spelling and links,
# `make mutants` tries broken options on the review,
# `make chaos` runs fleets under disasters (an hour; CHAOS='--seconds 60' for less),
# `make docs` renews the documents' tables from runs (most of an hour, on an idle machine),
# `make conformance` runs the official suite (it needs npm), `make suite-score` runs it on broken servers
# and clients (it needs npm), `make clients` plays what can go wrong with
# clients that are shipped (most of them need npm), `make scoreboard` reviews servers of others (Rust, Go
# and Node where there are; a first build takes minutes)
# and plays frameworks of others (an hour and a half). Each makes .venv first,
# with python3, or with the interpreter that it is told: make demo PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin

# Otherwise each of the many processes that tests start compiles the package for itself.
unexport PYTHONDONTWRITEBYTECODE
# setuptools warns of every editable installation.
INSTALL := PYTHONWARNINGS='ignore:Editable installation'

.PHONY: chaos clients conformance demo docs evidence lint lowest model mutants notebooks page quick scoreboard suite-score test

demo: .venv/demo
	$(BIN)/python -m mrtr_options

page: .venv/installed
	$(BIN)/python -m documents.page

# Sockets in a folder: ports would be open to everyone on the machine.
notebooks: .venv/installed
	folder=$$(mktemp -d); trap "rm -r $$folder" EXIT; $(BIN)/jupyter nbconvert --execute --to notebook --inplace \
	    --KernelManager.transport=ipc --KernelManager.ip=$$folder/kernel \
	    --ExecutePreprocessor.record_timing=False --ClearMetadataPreprocessor.enabled=True \
	    notebooks/*.ipynb

quick: .venv/installed
	$(BIN)/pytest --numprocesses 4 -m 'not slow'

test: .venv/installed
	$(BIN)/pytest --numprocesses 4

evidence: .venv/installed
	$(BIN)/pytest --evidence --numprocesses 2

mutants: .venv/installed
	$(BIN)/python -m tests.mutants $(MUTANTS)

model:
	python3 -m model $(MODEL)

chaos: .venv/installed
	$(BIN)/python -m tests.chaos $(CHAOS)

clients: .venv/installed
	$(BIN)/python -m scoreboard.clients $(CLIENTS)
	$(BIN)/python -m documents --kept

docs: .venv/installed
	$(BIN)/python -m scoreboard.cost
	$(BIN)/python -m documents --kept
	$(BIN)/python -m documents --explore all
	$(MAKE) page notebooks

conformance: .venv/installed
	$(BIN)/python -m scoreboard.conformance
	$(BIN)/python -m documents --kept

scoreboard: .venv/installed
	$(BIN)/python -m scoreboard.servers $(SERVERS)
	$(BIN)/python -m scoreboard.frameworks $(FRAMEWORKS)
	$(BIN)/python -m scoreboard.proxies $(PROXIES)
	$(BIN)/python -m documents --kept

suite-score: .venv/installed
	$(BIN)/python -m scoreboard.conformance.score
	$(BIN)/python -m documents --kept

lint: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/codespell
	$(BIN)/md-dead-link-check

# The quick tests on the oldest dependencies that pyproject.toml allows.
lowest: .venv-lowest/installed
	.venv-lowest/bin/pytest --numprocesses 4 -m 'not slow'

.venv-lowest/installed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/pip install --quiet --upgrade 'pip>=25.1'
	$(INSTALL) .venv-lowest/bin/pip install --quiet --constraint constraints-lowest.txt --editable '.[review]' --group dev
	touch $@

OLD := Python 3.11 or later is needed; name one, as in: make demo PYTHON=python3.13

.venv/demo: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("$(OLD)" if sys.version_info < (3, 11) else 0)'
	@echo 'installing into .venv'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(INSTALL) $(BIN)/pip install --quiet --constraint constraints.txt --editable '.[review]'
	touch $@

.venv/installed: .venv/demo
	@echo 'installing what tests need into .venv, about a minute'
	$(BIN)/pip install --quiet --constraint constraints.txt --group dev
	touch $@
