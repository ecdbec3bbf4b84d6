# `make run` serves the example, `make test` checks everything; both set up what they need.
PYTHON ?= python3.11
VENV   ?= .venv
PREFIX ?= $(HOME)/.local
BIN     = $(VENV)/bin
# An environment may forbid Python to keep compiled modules. Each start of a process would compile all of them again,
# which nearly doubles what it costs.
unexport PYTHONDONTWRITEBYTECODE
TOOLS   = chromium redis-server curl openssl
# A real Prometheus, unpacked beside the virtual environment: installing it would start it.
PROMETHEUS = tools/unpacked-package $(VENV)/apt prometheus prometheus promtool
# Groups of tests that run beside each other, so that none is the last for long: each waits more than it computes.
SERVED  = tests/tls tests/ledger tests/bench tests/auth tests/examples tests/sim
PARTS   = tests/adapters tests/advice tests/benchmarks tests/client
GROUPS  = unit-faults unit-roles unit-doors unit-rest unit-parts unit-served unit-contract unit-attacks unit-deploy unit-core

.PHONY: run install wheel test check style types unit $(GROUPS) test-clients bench bench-peers chaos dashboards lock format clean help

help:  ## say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 14

run: $(VENV)/.run  ## set up and serve examples/hello.py on http://127.0.0.1:8000
	@command -v penstock >/dev/null || echo "  penstock is in $(BIN): '. $(BIN)/activate' puts it on your PATH, 'make install' for good"
	@exec $(BIN)/penstock serve examples/hello.py:batchstring --workers 2 --max-batch 32

install: $(VENV)/.run  ## set up and put the penstock command into ~/.local/bin (or PREFIX/bin)
	@mkdir -p "$(PREFIX)/bin"
	@ln -sfn "$(abspath $(BIN)/penstock)" "$(PREFIX)/bin/penstock"
	@echo "  $(PREFIX)/bin/penstock -> $(abspath $(BIN)/penstock)"
	@case ":$$PATH:" in *":$(PREFIX)/bin:"*) ;; *) echo "  $(PREFIX)/bin is not on your PATH yet: export PATH=\"$(PREFIX)/bin:\$$PATH\"" ;; esac

wheel: $(VENV)/.run  ## build dist/penstock-*.whl, with the locked build tools and no network
	@$(BIN)/pip wheel --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

# The types are checked beside the tests, which leave a core idle for part of the time.
test: style  ## set up and check everything: format, lint, types, layers, tests
	tools/system-packages $(TOOLS)
	$(PROMETHEUS)
	$(MAKE) --no-print-directory -j4 -O $(GROUPS) types

check: style types  ## format, lint, types and import layers

style: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.dev  ## the tests alone, with real processes, sockets and a real browser
	tools/system-packages $(TOOLS)
	$(PROMETHEUS)
	$(MAKE) --no-print-directory -j4 -O $(GROUPS)

# Four at a time, the longest first: each waits for processes and clocks more than it computes.
unit-core: $(VENV)/.dev
	$(BIN)/pytest tests/core --cov --cov-report=term:skip-covered

unit-faults: $(VENV)/.dev
	$(BIN)/pytest tests/chaos

unit-attacks: $(VENV)/.dev
	$(BIN)/pytest tests/attack

unit-roles: $(VENV)/.dev
	$(BIN)/pytest tests/roles

unit-doors: $(VENV)/.dev
	$(BIN)/pytest tests/doors

unit-served: $(VENV)/.dev
	$(BIN)/pytest $(SERVED)

unit-parts: $(VENV)/.dev
	$(BIN)/pytest $(PARTS)

unit-deploy: $(VENV)/.dev
	$(BIN)/pytest tests/deploy

unit-contract: $(VENV)/.dev
	$(BIN)/pytest tests/contract

unit-rest: $(VENV)/.dev
	$(BIN)/pytest $(addprefix --ignore ,tests/roles tests/doors $(SERVED) $(PARTS) tests/deploy tests/core tests/contract tests/chaos tests/attack tests/clients)

test-clients: $(VENV)/.dev  ## heavy clients of other servers, each in an environment of its own under .clients/
	$(BIN)/pytest tests/clients

bench: $(VENV)/.dev  ## every figure of docs/benchmarks.md that needs no rival
	tools/system-packages wrk h2load=nghttp2-client
	$(BIN)/python -m benchmarks.all

bench-peers: $(VENV)/.dev  ## Penstock beside Mosec, LitServe, BentoML, Ray Serve, Triton and bare Granian, heads as behind a proxy
	tools/system-packages wrk
	$(BIN)/python -m benchmarks.peers

chaos: $(VENV)/.dev  ## the long forms of the fault tests and attacks, and examples that nobody tried before; all of them, whichever fails
	tools/system-packages $(TOOLS)
	$(PROMETHEUS)
	@failed=""; \
	$(BIN)/pytest tests/chaos --chaos-long || failed="$$failed chaos"; \
	$(BIN)/pytest tests/attack --chaos-long || failed="$$failed attack"; \
	$(BIN)/pytest tests/seeds --chaos-long || failed="$$failed seeds"; \
	$(BIN)/pytest --ignore tests/chaos --ignore tests/attack --ignore tests/seeds --ignore tests/clients --hypothesis-profile=explore || failed="$$failed others"; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

dashboards: $(VENV)/.dev  ## make deploy/grafana/*.json anew
	$(BIN)/python -m tools.dashboards

lock:  ## write the lock files anew from pyproject.toml
	$(BIN)/pip install --quiet uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --no-strip-extras pyproject.toml --extra redis --group build -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --no-strip-extras pyproject.toml --extra redis --group dev --group build -o requirements-dev.lock

format: $(VENV)/.dev  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: install it, or say which with 'make PYTHON=python3.12 …'"; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements.lock pyproject.toml
	@echo "setting up $(VENV) …"
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

clean:  ## remove what was set up
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
