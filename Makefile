# One word per chore. `make` alone lists them.
#
# PYTHON=python3.12 make test   uses (and makes .venv anew with) another interpreter, 3.11 or newer.
# VENV=.venv-3.12 make test     keeps that in an environment of its own.

PYTHON ?=
VENV   ?= .venv
RUN    := $(VENV)/bin/python

# Any Python can run the bootstrap, which says in one sentence what is missing; the shell says it if there is none.
ANY    := $(firstword $(shell command -v python3) $(PYTHON) python3)
BOOT   := $(ANY) scripts/bootstrap.py $(if $(PYTHON),--python $(PYTHON))

# `ruff`, `ninja` and others are found on PATH.
export PATH := $(abspath $(VENV))/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help build run test test-sanitized test-all fuzz bench bench-net bench-probes bench-http bench-overload check docs
.PHONY: format clean

help:  ## list the chores
	@sed -n 's/^\([a-z-]*\):.*##  *\(.*\)/  make \1\t\2/p' Makefile | expand -t 24

build:  ## make .venv and build what is missing (the other chores do this first)
	@$(BOOT) --venv $(VENV)

run: build  ## the main job: serve the example site at http://127.0.0.1:8000/ until Ctrl-C
	@$(RUN) -m penstock serve examples/site $(ARGS)

test: build  ## run the whole suite
	@$(RUN) -m pytest $(ARGS)

test-sanitized:  ## run the suite with the compiled modules under the address and undefined-behaviour sanitizers
	@$(BOOT) --venv .venv-sanitized --build sanitized
	@bash scripts/sanitized.sh .venv-sanitized $(ARGS)

test-all:  ## run the suite on every Python from 3.11 that is found here
	@bash scripts/every_python.sh $(ARGS)

fuzz: build  ## damage requests at random and compare what the parser makes of them, for ARGS="--seconds 20"
	@$(RUN) tests/http/fuzz_parser.py $(ARGS)

bench:  ## measure, and compare with the peers of requirements/bench.txt
	@$(BOOT) --venv .venv-bench --with requirements/bench.txt
	@PATH=$(CURDIR)/.venv-bench/bin:$$PATH .venv-bench/bin/python bench/run.py $(ARGS)

bench-net: build  ## prove what is promised of streams and listeners, on this machine (about three minutes)
	@$(RUN) bench/net/everything.py $(ARGS)

bench-probes:  ## measure what the probes, which are always on, cost
	@$(BOOT) --venv .venv-bench --with requirements/bench.txt
	@$(BOOT) --venv .venv-unprobed --build unprobed
	@PATH=$(CURDIR)/.venv-bench/bin:$$PATH .venv-bench/bin/python bench/probes.py .venv-unprobed/bin/python $(ARGS)

bench-http:  ## measure the HTTP server beside those of requirements/bench-http.txt, nginx and lighttpd
	@$(BOOT) --venv .venv-http --with requirements/bench-http.txt
	@.venv-http/bin/python bench/http/run.py $(ARGS)

bench-overload:  ## the same servers with more requests than they can answer, slow clients, floods and resets
	@$(BOOT) --venv .venv-http --with requirements/bench-http.txt
	@PYTHON=.venv-http/bin/python bash bench/overload/all.sh $(ARGS)

check: build  ## style, types, stubs, import contracts, generated pages
	@$(RUN) scripts/check.py

docs: build  ## generate the generated pages, check the links, run the examples
	@$(RUN) scripts/docs.py
	@$(RUN) -m pytest tests/docs

format: build  ## bring the sources into the agreed form
	@$(RUN) -m ruff check --fix --quiet .
	@$(RUN) -m ruff format --quiet .

clean:  ## remove everything that was made here
	rm -rf .venv .venv-* build dist .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
