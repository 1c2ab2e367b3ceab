# Every target builds the environment that it needs; both are kept between calls.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VLLM ?= 0.32.0
VLLM_PYTHON ?=
PROTO := protos/kappad/estimator/v1/estimator.proto
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test test-unit test-vllm check bench protos clean

help:  ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/pip install --quiet --editable '.[sidecar]' --group dev
	touch $@

demo: $(VENV)/.stamp  ## The whole loop: vLLM with Whisper, first FCFS, then kappad
	$(BIN)/kappad demo $(if $(VLLM_PYTHON),--vllm-python $(VLLM_PYTHON))

test: test-unit test-vllm  ## All tests

test-unit: $(VENV)/.stamp  ## The tests that need no vLLM
	$(BIN)/pytest tests --ignore=tests/vllm --ignore=tests/vllm_inprocess

test-vllm: $(VENV)/.stamp  ## The tests against real vLLM (VLLM=0.28.0 for another version)
	KAPPAD_TEST_VLLM=$(VLLM) $(BIN)/python -m tests.vllm_inprocess.run
	KAPPAD_TEST_VLLM=$(VLLM) $(BIN)/pytest tests/vllm

check: $(VENV)/.stamp .cache/codegen/.stamp  ## Formatting, lint, types, architecture, API, generated code
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/buf format --diff --exit-code
	$(BIN)/buf lint
	.cache/codegen/bin/python protos/generate.py --check

bench: $(VENV)/.stamp  ## Measure, and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks.run

.cache/codegen/.stamp: pyproject.toml
	$(PYTHON) -m venv .cache/codegen
	.cache/codegen/bin/pip install --quiet --upgrade 'pip>=25.1'
	.cache/codegen/bin/pip install --quiet --group codegen
	touch $@

protos: .cache/codegen/.stamp $(VENV)/.stamp  ## Generate the code for the API
	$(BIN)/buf format --write
	.cache/codegen/bin/python protos/generate.py

clean:  ## Remove what the targets built
	rm -rf .venv .venv-vllm* .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
