# Development commands. Each one sets up what it needs. Start with: make demo, make test
SHELL := /bin/bash
.DEFAULT_GOAL := help

RUN := dev/run
# make test-polaris POLARIS_URI=… passes these on as environment variables.
export POLARIS_URI POLARIS_CREDENTIAL POLARIS_WAREHOUSE POLARIS_SCOPE POLARIS_TOKEN_ENDPOINT POLARIS_DELEGATION
export POLARIS_S3_BUCKET POLARIS_S3_ENDPOINT POLARIS_S3_ENDPOINT_INTERNAL POLARIS_S3_REGION POLARIS_S3_ACCESS_KEY_ID POLARIS_S3_SECRET_ACCESS_KEY POLARIS_S3_ROLE_ARN
# Two workers, each with one Spark session, fit on a two-core laptop.
WORKERS ?= 2

.PHONY: help
help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup:  ## Install everything into .venv (uv, dependencies, Java if missing, Iceberg jars)
	@dev/setup

.PHONY: demo
demo: setup  ## Run the flights example and write its report
	@$(RUN) python dev/demo.py

.PHONY: test
test: setup  ## Run lint, all tests except the live suite, and the checks of wheel and requirements
	@$(RUN) python dev/check.py gates tests wheel requirements

.PHONY: coverage
coverage: setup  ## Run the tests with line coverage; fails below 85 %
	@$(RUN) python dev/check.py coverage

.PHONY: test-live
test-live: setup  ## Run the live suite, with more servers and engines
	@$(RUN) python dev/check.py live

.PHONY: torture
torture: setup  ## Run ten thousand commits under faults and verify the tables (SEED=…, COMMITS=…, STEPS=…, SOAK=minutes)
	@$(RUN) python -m tests.torture $(if $(SEED),--seed $(SEED)) $(if $(COMMITS),--commits $(COMMITS)) $(if $(SOAK),--soak $(SOAK))
	@FLOE_TORTURE_STEPS=$(or $(STEPS),5000) $(if $(SEED),FLOE_TORTURE_SEED=$(SEED)) $(RUN) python -m pytest -q tests/conformance/test_two_engines.py

.PHONY: services
services: setup  ## Start local servers: REST catalogs, S3 with STS, OIDC, PostgreSQL (select with ONLY="minio oidc")
	@$(RUN) python dev/services.py start $(ONLY)

.PHONY: services-stop
services-stop: setup  ## Stop the servers started by make services
	@$(RUN) python dev/services.py stop $(ONLY)

.PHONY: test-polaris
test-polaris: setup  ## Test against a Polaris server: POLARIS_URI=… POLARIS_CREDENTIAL=id:secret POLARIS_WAREHOUSE=…
	@$(RUN) python -m pytest -q tests/polaris

.PHONY: lint
lint: setup  ## Check style, types, import contracts, dependencies and security
	@$(RUN) python dev/check.py gates

.PHONY: audit
audit: setup  ## List known vulnerabilities of the locked dependencies; needs access to PyPI
	@$(RUN) python dev/vulnerabilities.py

.PHONY: format
format: setup  ## Format the code and apply ruff's fixes
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

.PHONY: docs
docs: setup  ## Generate docs/reference/ and docs/walk.md from the code
	@$(RUN) python dev/generate_docs.py
	@$(RUN) python dev/walk.py

.PHONY: site
site: setup  ## Build the documentation site in site/, with search; fails on broken links
	@$(RUN) python dev/site.py

.PHONY: requirements
requirements: setup  ## List each requirement with its evidence; fails if one has none
	@$(RUN) python dev/requirements.py

.PHONY: mutants
mutants: setup  ## Mutation-test the critical modules (select with ONLY="commits gate")
	@.floe-dev/uv/bin/uv sync --quiet --locked --compile-bytecode --all-extras --group mutants --no-python-downloads
	@nice -n 10 $(RUN) python dev/mutants.py $(ONLY)

.PHONY: bench
bench: setup  ## Benchmark floe against its peers (QUICK=1: five minutes; select with ONLY=p1,p9)
	@.floe-dev/uv/bin/uv sync --quiet --locked --compile-bytecode --all-extras --group bench --no-python-downloads
	@$(RUN) python -m benchmarks $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

.PHONY: wheel
wheel: setup  ## Build the wheel and test it in a new environment
	@$(RUN) python dev/check.py wheel

.PHONY: clean
clean:  ## Remove build results; downloads are kept
	@rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* htmlcov artifacts site
