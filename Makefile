# SPDX-License-Identifier: Apache-2.0
# The few things people do here. Each target installs what it lacks (scripts/setup) and shows its progress.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
BUILD := build
PREFIX ?= /usr/local
RUN_ARGS ?=
TESTS ?= release

.DEFAULT_GOAL := help
.PHONY: help run build python test verbs bars check tidy lint format clean install

help:
	@echo 'make run       build and start a node here (RUN_ARGS="..." goes to refractd)'
	@echo 'make build     the programs, in build/bin/'
	@echo 'make python    the Python package, in build/python/'
	@echo 'make test      release build and its tests, those that take long in short (TESTS=all: in full)'
	@echo 'make verbs     the tests that need RDMA devices, in a machine that has them'
	@echo 'make bars      measure what we promise, one line each'
	@echo 'make check     all that .ci/run checks: tests, sanitizers, fuzzers, style'
	@echo 'make tidy      style checks that take a second'
	@echo 'make lint      clang-tidy over what changed since the last commit (ALL=1: over everything)'
	@echo 'make format    clang-format over all sources'
	@echo 'make install   programs, librefract.so, headers, CMake package (PREFIX=/usr/local, DESTDIR=)'
	@echo 'make clean     remove the build folders'

# Only the programs: when the tests are configured too, they are not built for this.
build:
	@scripts/setup build
	@test -f $(BUILD)/build.ninja || cmake --preset programs
	@ninja -C $(BUILD) programs

# CMake leaves the package out where something is missing; what scripts/setup brings is looked for again.
python:
	@scripts/setup python
	@test -f $(BUILD)/build.ninja || cmake --preset programs
	@ninja -C $(BUILD) -t query python >/dev/null 2>&1 || cmake $(BUILD) >/dev/null
	@ninja -C $(BUILD) python
	@echo "PYTHONPATH=$(BUILD)/python python3 -c 'import refract; help(refract)'"

# A node and its command line; what measures them is built by `make build` and `make bars`.
run:
	@scripts/setup build
	@test -f $(BUILD)/build.ninja || cmake --preset programs
	@ninja -C $(BUILD) refractd refract
	@exec $(BUILD)/bin/refractd $(RUN_ARGS)

# Switching the tests on keeps every object that `make build` has made.
test:
	@scripts/setup test
	@grep -qs '^REFRACT_TESTS:.*=ON' $(BUILD)/CMakeCache.txt && test -f $(BUILD)/build.ninja || \
	  cmake --preset release
	@ninja -C $(BUILD)
	@ctest --preset $(TESTS)

verbs:
	@scripts/setup verbs
	@grep -qs '^REFRACT_TESTS:.*=ON' $(BUILD)/CMakeCache.txt && test -f $(BUILD)/build.ninja || \
	  cmake --preset release
	@ninja -C $(BUILD) verbs_tests
	@scripts/verbs-tests

bars:
	@scripts/setup bars
	@$(MAKE) build
	@# Debian's package of the tools holds the server too, under another name; so no service is installed.
	@mkdir -p $(BUILD)/peers
	@command -v redis-server >/dev/null || ln -sf "$$(command -v redis-check-rdb)" $(BUILD)/peers/redis-server
	@PATH="$$PATH:$(CURDIR)/$(BUILD)/peers" $(BUILD)/bin/refract-bench bars $(BARS_ARGS)

check:
	@.ci/run

tidy:
	@scripts/tidy.py

lint:
	@scripts/setup check
	@scripts/lint $(if $(ALL),--all,)

format:
	@scripts/setup check
	@scripts/format

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build build-address build-thread build-fuzz build-lint
