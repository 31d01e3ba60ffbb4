# `make demo` shows the tool at work; `make test` is what CI runs. Both build .venv from nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint compiled bench clean

# One approved and one rejected configuration, so the command's exit code is 1.
demo: $(STAMP)
	@$(BIN)/policy-eval tests/demo/approved.json tests/demo/rejected.json || test $$? -eq 1

test: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --cov --cov-report=term

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Run it after a change of a bundled policy, of the config schema, or of the parser: a test fails until then.
compiled: $(STAMP)
	$(BIN)/python -c 'from policy_eval import cache, pack; text = pack.shipped(); open(cache.SHIPPED, "w").write(text)'

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[sampler,bench]"
	$(BIN)/python tests/bench/bench_spine.py --process
	$(BIN)/python tests/bench/bench_cel.py
	$(BIN)/python tests/bench/bench_sampler.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable ".[sampler]"
	@touch $@

clean:
	rm -rf $(VENV)
