# `make run` and `make test` are all that a newcomer needs; each makes .venv when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= runs/smoke
STAMP := $(VENV)/.installed

.PHONY: run test lint format bench-schema bench-judge bench-loop bench-train bench-learn clean

run: $(STAMP)
	$(BIN)/rri run $(RUN) --config smoke

test: $(STAMP)
	$(BIN)/pytest -q -n 2 --dist loadfile --no-loadscope-reorder

bench-schema: $(STAMP)
	$(BIN)/python -m tests.perf.schema

bench-judge: $(STAMP)
	$(BIN)/python -m tests.perf.judge

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable '.[service,train,dev]'
	touch $(STAMP)

bench-loop: $(STAMP)
	$(BIN)/python -m tests.perf.loop

bench-train: $(STAMP)
	$(BIN)/python -m tests.perf.train

bench-learn: $(STAMP)
	$(BIN)/python -m tests.perf.learning

clean:
	rm -rf $(VENV) build *.egg-info
