# GPU Governor. `make help` lists what can be asked for. Everything installs into this folder.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv/bin
BROWSER := .tools/browser/bin
DOCS := .tools/docs/bin
RELEASE := .tools/release/bin
SAM := .tools/sam/bin/sam
STACKS := $(wildcard stacks/*.yaml)
SOURCES := layers/shared/governor layers/shared/prune_botocore.py functions agent cli local benchmarks evaluation simulation scripts tests
# Bytecode is kept, out of the sources, whatever the shell says: compiling the libraries anew takes seconds in
# every process.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.tools/bytecode
export SAM_CLI_TELEMETRY := 0
# The SAM CLI keeps an installation's id; else in the home.
export __SAM_CLI_APP_DIR := $(CURDIR)/.tools/sam-home
export PYTHONPATH := layers/shared:.

# What a recipe that set SECONDS to 0 has taken, for `make figures`.
took = mkdir -p build && echo $$SECONDS >build/$(1).seconds

# By starting it: a version manager's shim may stand for nothing.
missing_python := $(PYTHON) is missing: install Python 3.11 or newer (Debian, Ubuntu: sudo apt-get install python3 python3-venv)

.DEFAULT_GOAL := help
.PHONY: help demo up cloud site test test-unit test-integration soak soak-honest test-browser screenshots docs docs-serve check check-all mutants audit lint types imports template fix build deploy invoke bench bench-peer figures evaluate checkov publisher release workflows machines lock clean env-project env-cloud env-sam env-browser env-release env-docs env-custodian env-checkov env-audit env-uv

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

env-project env-cloud env-sam env-browser env-release env-docs env-custodian env-checkov env-audit env-uv: env-%:
	@"$(PYTHON)" -c '' 2>/dev/null || { echo "$(missing_python)"; exit 2; }
	@"$(PYTHON)" scripts/environment.py $*

# Before anything is installed, built or started.
.PHONY: arguments
arguments:
	@"$(PYTHON)" -c '' 2>/dev/null || { echo "$(missing_python)"; exit 2; }
	@"$(PYTHON)" -m scripts.make_arguments $(MAKECMDGOALS)

demo: arguments env-project env-cloud ## the whole loop on this machine; APPROVE=auto answers by itself
	@SECONDS=0; $(VENV)/python -m cli.demo $(if $(APPROVE),--approve $(APPROVE) && $(call took,demo))

up: arguments env-project env-cloud ## prints one URL: the console over a simulated fleet with history; goes on until Ctrl-C
	@$(VENV)/python -m cli.up

cloud: arguments env-project env-cloud ## an empty account on this machine, to walk docs/operate.md in; goes on until Ctrl-C
	@$(VENV)/python -m cli.cloud

site: arguments env-project env-cloud ## what make up shows, after a stop, as files that need no server; into build/site
	@$(VENV)/python -m cli.up --copy build/site

test: arguments env-project env-cloud ## the tests of make check, without its other checks and the browser; RECORD=1 renews tests/seconds.json
	@SECONDS=0; $(VENV)/python -m scripts.run_tests $(if $(RECORD),--record) && $(call took,test)

test-unit: arguments env-project ## unit and contract tests only
	@$(VENV)/python -m pytest -m "not integration and not browser and not fuzz"

test-integration: arguments env-project env-cloud ## the real state machines on the local cloud
	@$(VENV)/python -m pytest -m integration

soak: arguments env-project env-cloud ## properties with many examples, crash points (SAMPLE=1: all), storms of faults on simulated time and on the local cloud; last line JSON, fails on a violation
	@SECONDS=0; GOVERNOR_PROPERTIES=long $(VENV)/python -m pytest -m "(hypothesis or repeats) and not fuzz" && $(VENV)/python -m tests.soak $(if $(SAMPLE),--sample $(SAMPLE)) && $(call took,soak)

soak-honest: arguments env-project ## plant a bug for each guard, invariant and gate: the soak's own stories catch each; last line JSON
	@SECONDS=0; $(VENV)/python -m tests.soak.honest && $(call took,soak-honest)

test-browser: arguments env-cloud env-browser ## the pages in Chromium, the HTTP API tried by Schemathesis; needs Chromium
	@$(BROWSER)/python -m scripts.run_tests --in-a-browser

screenshots: arguments env-project env-browser ## pages, email and Slack message as pictures in docs/images, with their texts; needs Chromium
	@$(BROWSER)/python -m scripts.screenshots
	@$(BROWSER)/python -m scripts.gallery

check: arguments env-project env-cloud env-sam env-release env-docs $(if $(shell command -v chromium),env-browser) ## what each change must pass, checks and tests side by side; changes nothing
	@$(VENV)/python -m scripts.run_tests --checks $(if $(RECORD),--record)

check-all: arguments env-project env-cloud env-sam env-release env-docs $(if $(shell command -v chromium),env-browser) ## make check and the journeys: each command of the docs, deployments by SAM CLI, make up; RECORD=1 renews tests/seconds.json
	@$(VENV)/python -m scripts.run_tests --checks --journeys $(if $(RECORD),--record)

docs: arguments env-docs ## the documentation as a site in build/docs, offline; fails on a dead link or anchor
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/mkdocs build --strict

docs-serve: arguments env-docs ## the documentation on http://127.0.0.1:8000, renewed when a page changes; goes on until Ctrl-C
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/mkdocs serve --strict

mutants: arguments env-project ## change guards, plans, verdicts and decisions in small ways; a test must fail each time. FILES="guards plan" for some
	@$(VENV)/python -m scripts.mutants $(FILES)

audit: arguments env-audit ## look all pinned packages up among known vulnerabilities; needs PyPI; no part of check
	@scripts/audit.sh

lint: arguments env-project
	$(VENV)/ruff format --check $(SOURCES)
	$(VENV)/ruff check $(SOURCES)

types: arguments env-project
	$(VENV)/mypy

imports: arguments env-project
	$(VENV)/lint-imports --no-cache

# SAM CLI lints template.yaml with the same cfn-lint, of the same version.
template: arguments env-project env-sam
	$(VENV)/cfn-lint $(STACKS)
	AWS_DEFAULT_REGION=us-east-1 $(SAM) validate --lint --template template.yaml

fix: arguments env-project ## format and repair what can be repaired
	$(VENV)/ruff check --fix $(SOURCES)
	$(VENV)/ruff format $(SOURCES)
	$(VENV)/python -m scripts.state_machines
	$(VENV)/python -m scripts.forwarded_events
	$(VENV)/python -m scripts.policy_reference
	$(VENV)/python -m scripts.managers_reference
	$(VENV)/python -m scripts.api_reference
	$(VENV)/python -m scripts.alarms_reference
	$(VENV)/python -m scripts.events_reference
	$(VENV)/python -m scripts.command_reference
	$(VENV)/python -m scripts.modules_reference
	$(VENV)/python -m scripts.simulate_example
	$(VENV)/python -m scripts.scan_example

machines: arguments env-project ## write the state machines (JSON) from their sources in statemachines/*.yaml
	$(VENV)/python -m scripts.state_machines

# What is compiled here belongs beside its sources: it is deployed.
build: export PYTHONPYCACHEPREFIX :=

build: arguments env-sam ## sam build; needs python3.13 on PATH
	AWS_DEFAULT_REGION=us-east-1 $(SAM) build

deploy: arguments env-sam ## asks, or takes REGION= PROFILE= STACK= MODE= ALERT_EMAIL= YES=1 and more: docs/lifecycle.md
	@.tools/sam/bin/python -m scripts.deploy

invoke: arguments env-project env-cloud env-sam ## FUNCTION=name EVENT=events/name/case.json, in the Lambda runtime emulator
	@$(VENV)/python scripts/invoke.py "$(FUNCTION)" "$(EVENT)"

bench: arguments env-project env-cloud env-sam ## calls, time, memory, cold starts, hooks of 200 warnings
	@$(VENV)/python -m benchmarks

bench-peer: arguments env-project env-custodian ## the same fleet under Cloud Custodian, a plain Lambda and us: calls, time, memory, USD, verdicts
	@$(VENV)/python -m benchmarks.peer

figures: arguments env-project ## how plain the code is, words a page, and the seconds of the last runs, beside their targets
	@$(VENV)/python -m scripts.figures

evaluate: arguments env-project ## the rule for idle scored on real GPU traces; TRACES=dir (or file) for others than ../shared/data/gpu_traces
	@SECONDS=0; $(VENV)/python -m evaluation "$(or $(TRACES),../shared/data/gpu_traces)" && $(call took,evaluate)

checkov: arguments env-project env-checkov ## security linter for the templates; its environment is large and made on demand
	@mkdir -p build && $(VENV)/python -m local.engine.templates template.yaml >build/template.json
	.tools/checkov/bin/checkov $(addprefix -f ,build/template.json $(wildcard stacks/*.yaml))

publisher: arguments env-project ## pack agent/ for hosts that ask no index, into build/; prints the checksum
	@$(VENV)/python scripts/bundle_publisher.py build

release: arguments build env-project env-release ## what a release consists of, into build/release; TAG=v0.1.0 to publish it; needs python3.13
	@$(VENV)/python -m scripts.release --tag "$(TAG)"

workflows: arguments env-release
	@$(RELEASE)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(RELEASE)/zizmor --offline --quiet .github/workflows

lock: arguments env-uv ## pin all requirements anew
	scripts/lock.sh

clean: ## remove environments and build results
	rm -rf .venv .tools .aws-sam .mypy_cache .ruff_cache .pytest_cache .hypothesis
