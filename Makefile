# Two commands do everything, set-up included: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
DEBIAN := build-essential cmake gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
TOOLS  := cc cmake arm-none-eabi-gcc qemu-system-arm
SUDO   := $(if $(filter 0,$(shell id -u)),,sudo)

.PHONY: setup system demo test test-all lint clean

setup: system $(STAMP)

# Debian packages, only when a tool they bring is missing.
system:
	@missing=""; for tool in $(TOOLS); do command -v $$tool >/dev/null 2>&1 || missing="$$missing $$tool"; done; \
	if [ -n "$$missing" ]; then \
	  echo "installing the Debian packages that bring:$$missing"; \
	  $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(DEBIAN) >/dev/null; \
	fi

$(STAMP): requirements.txt requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] >= (3, 11) else "Cortado needs Python 3.11 or newer, found %d.%d" % sys.version_info[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $(STAMP)

demo: setup
	@$(BIN)/cortado compile ds_cnn --target cortex-m55 -o build/ds_cnn
	@$(BIN)/cortado run build/ds_cnn

lint: setup
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup lint
	$(BIN)/pytest -q -n 2 -m "not slow"

test-all: setup lint
	$(BIN)/pytest -q -n 2

clean:
	rm -rf build .pytest_cache .mypy_cache .ruff_cache .hypothesis
