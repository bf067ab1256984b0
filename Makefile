# floe: every command sets up what it needs. Start with: make demo, make test
SHELL := /bin/bash
.DEFAULT_GOAL := help

RUN := dev/run
# make test-polaris POLARIS_URI=… reads these from its environment.
export POLARIS_URI POLARIS_CREDENTIAL POLARIS_WAREHOUSE POLARIS_SCOPE POLARIS_TOKEN_ENDPOINT POLARIS_DELEGATION
export POLARIS_S3_BUCKET POLARIS_S3_ENDPOINT POLARIS_S3_ENDPOINT_INTERNAL POLARIS_S3_REGION POLARIS_S3_ACCESS_KEY_ID POLARIS_S3_SECRET_ACCESS_KEY POLARIS_S3_ROLE_ARN
# Two workers, each with one Spark session: what a two-core laptop carries.
WORKERS ?= 2

.PHONY: help
help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup:  ## Install everything into .venv (uv, dependencies, Java when missing, Iceberg jars)
	@dev/setup

.PHONY: demo
demo: setup  ## Run the sample project and show its tables
	@$(RUN) python dev/demo.py

.PHONY: test
test: setup  ## Lint, types, import contracts, and all tests but the wider matrix
	@$(RUN) python dev/check.py gates tests wheel requirements

.PHONY: coverage
coverage: setup  ## The same tests with every line counted; fails below 85 %
	@$(RUN) python dev/check.py coverage

.PHONY: test-live
test-live: setup  ## The wider matrix of servers and engines
	@$(RUN) python dev/check.py live

.PHONY: torture
torture: setup  ## Ten thousand commits under faults, judged by what callers were told (SEED=…, COMMITS=…, SOAK=minutes)
	@$(RUN) python -m tests.torture $(if $(SEED),--seed $(SEED)) $(if $(COMMITS),--commits $(COMMITS)) $(if $(SOAK),--soak $(SOAK))
	@FLOE_TORTURE_STEPS=$(or $(STEPS),5000) $(if $(SEED),FLOE_TORTURE_SEED=$(SEED)) $(RUN) python -m pytest -q tests/conformance/test_two_engines.py

.PHONY: services
services: setup  ## Start real servers: REST catalogs, S3 with STS, OIDC, PostgreSQL (ONLY="minio oidc" for some)
	@$(RUN) python dev/services.py start $(ONLY)

.PHONY: services-stop
services-stop: setup  ## Stop the servers that make services started
	@$(RUN) python dev/services.py stop $(ONLY)

.PHONY: test-polaris
test-polaris: setup  ## Test against a real Polaris: POLARIS_URI=… POLARIS_CREDENTIAL=id:secret POLARIS_WAREHOUSE=…
	@$(RUN) python -m pytest -q tests/polaris

.PHONY: lint
lint: setup  ## Style, types, import contracts, dependencies
	@$(RUN) python dev/check.py gates

.PHONY: audit
audit: setup  ## Known vulnerabilities of the locked dependencies; needs a way to PyPI
	@$(RUN) python dev/vulnerabilities.py

.PHONY: format
format: setup  ## Format the code and mend what ruff can
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

.PHONY: docs
docs: setup  ## Generate the references in docs/ from the code
	@$(RUN) python dev/generate_docs.py
	@$(RUN) python dev/walk.py

.PHONY: site
site: setup  ## Build the documents as a site in site/, with search; a link that leads nowhere fails it
	@$(RUN) python dev/site.py

.PHONY: requirements
requirements: setup  ## Print each requirement with what shows it to hold; fails when nothing does
	@$(RUN) python dev/requirements.py

.PHONY: mutants
mutants: setup  ## Change the code that carries the promises, and see that tests notice (ONLY="commits gate": some)
	@.floe-dev/uv/bin/uv sync --quiet --locked --compile-bytecode --all-extras --group mutants --no-python-downloads
	@nice -n 10 $(RUN) python dev/mutants.py $(ONLY)

.PHONY: bench
bench: setup  ## Measure floe beside its peers (QUICK=1: five minutes; ONLY=p1,p9: some)
	@.floe-dev/uv/bin/uv sync --quiet --locked --compile-bytecode --all-extras --group bench --no-python-downloads
	@$(RUN) python -m benchmarks $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

.PHONY: wheel
wheel: setup  ## Build the wheel and try it in an empty environment
	@$(RUN) python dev/check.py wheel

.PHONY: clean
clean:  ## Remove what was built; downloads are kept
	@rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* htmlcov artifacts site
