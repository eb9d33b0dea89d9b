# Two commands do everything: `make demo` and `make test`. Both set up `.venv` the first time.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Hundreds of tests start the command as a process of its own: it is compiled once, not each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test coverage test-long fuzz check-style lint types imports docs docs-site pictures build bench lock supply sbom clean chromium

help:
	@echo "make demo       run the example project, offline"
	@echo "make test       run every test, and require that the branches of make coverage are tested"
	@echo "make coverage   test every branch of extraction rules, templates and the store of calls"
	@echo "make lint types imports docs supply   the other checks, as .ci/run does them"
	@echo "make docs-site  the documentation as a site in build/site: links checked, search works from disk"
	@echo "make pictures   docs/img/*.png anew, from the demo in Chromium"
	@echo "make build      wheel and sdist in dist, checked"
	@echo "make sbom       the list of all parts, from requirements/run.lock, as CycloneDX on stdout"
	@echo "make test-long  the long property and fault series, then make fuzz"
	@echo "make fuzz       every law of tests/fuzz, coverage-guided, FUZZ_SECONDS (60) each"
	@echo "make bench      every measurement in one table; writes docs/performance.md"
	@echo "make lock       renew requirements/*.lock"

demo: $(VENV)/run-ready
	@$(BIN)/answerkey demo

# The tests write some ten thousand small files, which are gone when their test has passed: they lie in memory
# where there are 4 GB for them and programs can be started there, else where temporary files are.
MEMORY := /dev/shm
IN_MEMORY = $(shell [ "$$(df -kP $(MEMORY) | awk 'END {print $$4}')" -gt 4000000 ] && probe=$$(mktemp $(MEMORY)/XXXXXX) && \
  chmod +x $$probe && { $$probe && echo PYTEST_DEBUG_TEMPROOT=$(MEMORY); rm $$probe; })

# A process that dies ends the tests and is named: with another in its place they would wait for ever.
PYTEST := pytest -q -n 2 --max-worker-restart=0

# `make coverage` runs a quarter of the tests; no test runs twice.
test: coverage chromium
	$(IN_MEMORY) $(BIN)/python -m $(PYTEST) --dist loadfile -o tmp_path_retention_policy=failed \
	  tests $(COVERED:%=--ignore=%)

# The files that cover every branch. What counts steps is not among them: tracing makes it slow.
COVERED := $(filter-out %/test_linear_work.py,$(wildcard tests/unit/reader/test_*.py tests/unit/templates/test_*.py)) \
  $(addprefix tests/unit/scorers/test_,explain.py extraction.py fallback.py mcqa.py) \
  $(addprefix tests/,cases/test_cases.py cases/test_rule_cases.py unit/models/test_cache.py unit/models/test_store.py)
coverage: $(VENV)/dev-ready
	@rm -rf build/coverage
	$(BIN)/coverage run -m $(PYTEST) --dist loadfile $(COVERED)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test-long: $(VENV)/dev-ready chromium
	ANSWERKEY_LONG=1 $(BIN)/python -m $(PYTEST) tests
	$(MAKE) fuzz

FUZZ_SECONDS ?= 60
fuzz: $(VENV)/fuzz-ready
	@mkdir -p build/fuzz
	FUZZ_KEPT=build/fuzz $(BIN)/python tests/fuzz/fuzz.py all -max_total_time=$(FUZZ_SECONDS)

chromium:
	@sh scripts/get-chromium.sh

lint: $(VENV)/dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev-ready
	$(BIN)/mypy

imports: $(VENV)/dev-ready
	$(BIN)/lint-imports

docs: $(VENV)/dev-ready
	$(BIN)/python scripts/docs.py --check

docs-site: $(VENV)/docs-ready
	@$(BIN)/python scripts/docs_site.py

pictures: $(VENV)/dev-ready chromium
	$(BIN)/python scripts/pictures.py

build: $(VENV)/run-ready
	@$(BIN)/python scripts/supply.py build

supply: $(VENV)/dev-ready
	$(BIN)/python scripts/supply.py check
	$(BIN)/python scripts/supply.py audit

sbom: $(VENV)/dev-ready
	@$(BIN)/python scripts/supply.py sbom

bench: $(VENV)/dev-ready
	$(BIN)/python -m compileall -q src
	$(BIN)/python bench/run.py

$(VENV)/bin/python:
	@sh scripts/make-venv.sh "$(PYTHON)" "$(VENV)"

$(VENV)/run-ready: $(VENV)/bin/python requirements/run.lock pyproject.toml
	@echo "Setting up $(VENV) (only the first time) ..."
	@$(PIP) install --quiet --require-hashes -r requirements/run.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/dev-ready: $(VENV)/run-ready requirements/dev.lock
	@$(PIP) install --quiet --require-hashes -r requirements/dev.lock
	@touch $@

$(VENV)/docs-ready: $(VENV)/run-ready requirements/docs.lock
	@$(PIP) install --quiet --require-hashes -r requirements/docs.lock
	@touch $@

$(VENV)/fuzz-ready: $(VENV)/dev-ready requirements/fuzz.lock
	@$(PIP) install --quiet --require-hashes -r requirements/fuzz.lock
	@touch $@

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  pyproject.toml requirements/build.in -o requirements/run.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group dev -c requirements/run.lock -o requirements/dev.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group docs -c requirements/dev.lock -o requirements/docs.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group fuzz -c requirements/dev.lock -o requirements/fuzz.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
