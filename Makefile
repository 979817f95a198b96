# Two commands do everything, set-up included: `make demo` and `make test`.
# On a bare Debian or Ubuntu machine they install the packages they need (as root, or with sudo).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
LINTED := src tests benchmarks tools training examples
UNIT   := $(addprefix tests/,base ops/test_references.py passes/test_passes.py passes/test_golden.py plan/test_schedule.py plan/test_branches.py \
           artifact/test_page.py artifact/test_report.py repository)
# Three workers for two cores: one of them waits for a board or a program most of the time.
SPREAD := pytest -q -n 3 --dist loadgroup
PYTEST := $(BIN)/python -m $(SPREAD)
# Python keeps what it compiles, whatever the shell says: tests start many programs of it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo check unit test tests test-all fuzz fuzz-page same test-versions mutants lint golden docs misra release coverage clean python tools test-tools

setup: tools $(STAMP)

demo: setup
	@$(BIN)/cortado compile ds_cnn --target cortex-m55 -o build/ds_cnn
	@$(BIN)/cortado run build/ds_cnn --recording yes
	@$(BIN)/python examples/keyword/spot.py build/keyword yes no left

test: setup test-tools
	@$(MAKE) --no-print-directory -j 2 lint tests

tests:
	$(PYTEST) -m "not slow"

# Before every commit: linters, types and the unit tests that build no C and start no board.
check: setup
	@$(MAKE) --no-print-directory --output-sync -j 2 lint unit

unit: setup
	$(PYTEST) -m "not slow and not host and not qemu" $(UNIT)

# A part of the tests with another Python too, which has to be on PATH, and the long tests, family by family; what became of them
# is kept in tests/long.json for docs/testing.md, and for `make release` the commit that all of it passed on.
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)

test-all: test
	$(BIN)/python tools/versions.py --only python3.13-torch2.13.0 --keep
	PYTHONPATH=tests $(BIN)/python -m helpers.long_run
	$(BIN)/python tools/green.py $(COMMIT)

# Random networks by the thousand (docs/testing.md): make fuzz [SEED=0] [NETWORKS=3000]. Goes on where it stopped.
SEED     ?= 0
NETWORKS ?= 3000

fuzz: setup test-tools
	PYTHONPATH=tests $(BIN)/python -m fuzz --seed $(SEED) --networks $(NETWORKS)

# Adds the last campaign to docs/testing.md.
fuzz-page: setup
	PYTHONPATH=tests $(BIN)/python -m fuzz --page

# Whether every network of the zoo compiles to the same bytes as at another commit: make same BASE=commit
same: setup
	$(BIN)/python tools/same.py $(BASE)

# A part of the tests with other versions of Python and torch (tools/versions.toml); writes docs/versions.md.
test-versions: setup
	$(BIN)/python tools/versions.py

# Whether the tests find 40 small faults in the sources (tools/mutants.toml): each by the tests that should notice, which takes
# about ten CPU minutes. The outcome goes to tools/mutants.json, for docs/testing.md. Without --quick all other tests run too.
mutants: setup test-tools
	$(BIN)/python tools/mutants.py --quick --keep

lint: setup
	$(BIN)/ruff check $(LINTED)
	$(BIN)/ruff format --check $(LINTED)
	$(BIN)/mypy
	$(BIN)/lint-imports

# Writes the golden files and the generated documents again; look at the diff.
golden: setup
	$(BIN)/python -m pytest -q --update-golden

# The documentation as a site, in build/docs/site; a dead link is an error.
docs: setup
	$(BIN)/python tools/documentation.py

# The deviations of the C from MISRA C:2012, by cppcheck's addon, into docs/misra.md; a few minutes.
misra: setup test-tools
	$(BIN)/python tools/misra.py

# Builds wheel and source package into dist/ and tries them; with VERSION=0.2.0 checks the tree before and tags it
# behind: make release [VERSION=0.2.0] [PYTHONS="3.11 3.12"] (docs/releasing.md)
release: setup test-tools
	$(BIN)/python tools/release.py $(VERSION) --pythons $(PYTHONS)

# Which lines of src the tests of `make test` run: build/coverage.txt and, for docs/testing.md, build/coverage.json
coverage: setup test-tools
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m $(SPREAD) -m "not slow"
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage json --quiet -o build/coverage.json
	$(BIN)/python -m coverage report > build/coverage.txt
	@tail -1 build/coverage.txt

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

# ---- set-up ---------------------------------------------------------------------------------------------------------

# PROGRAM:PACKAGES; what is missing is installed at once.
PACKAGES := PYTHON=$(PYTHON) tools/packages.sh

python:
	@$(PACKAGES) python-venv:python3,python3-venv

tools:
	@$(PACKAGES) cc:build-essential cmake:cmake arm-none-eabi-gcc:gcc-arm-none-eabi,libnewlib-arm-none-eabi \
	  newlib:libnewlib-arm-none-eabi qemu-system-arm:qemu-system-arm

# The tests build with clang as well and in bubblewrap, run WebAssembly in Node, load firmware with GDB, the ExecuTorch adapter
# for a core, and look at pages in Chromium.
test-tools:
	@$(PACKAGES) clang-19:clang-19,lld-19 wasm-ld-19:lld-19 node:nodejs gdb-multiarch:gdb-multiarch cppcheck:cppcheck \
	  bwrap:bubblewrap chromium:chromium,chromium-driver chromedriver:chromium,chromium-driver \
	  arm-libstdc++:libstdc++-arm-none-eabi-newlib

$(STAMP): requirements.txt requirements-dev.txt pyproject.toml | python
	@tools/environment.sh $(PYTHON) $(VENV) $(STAMP)
