# Two commands to know: `make demo` runs everything on real data, `make test` runs the tests. Both do all set-up.
BIN := .venv/bin
READY := .venv/.ready
PORT := $(or $(ACCORD_PORT),7401)
DEMO_PORTS := $(shell seq $(PORT) $$(($(PORT) + 3)))
.DEFAULT_GOAL := help
.PHONY: help setup demo airflow test check lint types imports attacks bench bench-large bench-peers quality results docs clean

help:           ## this list
	@sed -n 's/^\([a-z-]*\): *[^#]*## */  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(READY) ## make .venv (quick when nothing changed)

$(READY): setup.cfg constraints.txt pyproject.toml tools/preflight.sh tools/preflight.py
	@python=$$(sh tools/preflight.sh) && { [ -x $(BIN)/python ] || "$$python" -m venv .venv; }
	@# This pip resolves in a third of the time of Python 3.11's own. It would compile on one core, hence --no-compile.
	$(BIN)/python -m pip install -q --no-compile "$$(grep '^pip==' constraints.txt)"
	@# torch first and alone: later steps then pull no other build. ACCORD_TORCH_INDEX may name a CPU-only index.
	$(BIN)/pip install -q --no-compile $(if $(ACCORD_TORCH_INDEX),--index-url $(ACCORD_TORCH_INDEX)) "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install -q --no-compile -c constraints.txt -e '.[dev]'
	@# All cores, and no package's own tests; some packages ship files that are no Python 3, so this may end with 1.
	@$(BIN)/python -m compileall -qq -j 0 -x /tests/ .venv/lib || true
	@$(BIN)/pip check
	@$(BIN)/python -m features.spark_archive >.venv/spark_archive.log 2>&1 \
		|| { tail -n 5 .venv/spark_archive.log; echo "accord: Spark has no archive of its classes and will start later"; }
	@touch $@

demo:           ## run both pipelines to their end on real data, on four real nodes, under Airflow
	@sh tools/preflight.sh $(DEMO_PORTS) >/dev/null
	@$(MAKE) --no-print-directory setup
	@$(BIN)/accord demo $(ARGS)

airflow: setup  ## the same nodes with Airflow's own screens to look at
	@$(BIN)/python -m demo.airflow

test: setup     ## all tests, in two processes
	@$(BIN)/python -m pytest -n 2 --no-loadscope-reorder $(ARGS)

check: lint     ## what CI runs
	@$(MAKE) --no-print-directory -j 2 test types imports

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check -q .

types: setup
	@$(BIN)/mypy

imports: setup
	@$(BIN)/lint-imports

bench: setup bench-peers ## every benchmark; results go to docs/results
	@for name in crypto psi training gossip; do $(BIN)/accord bench $$name --json docs/results/$$name.json || exit 1; done

bench-large: setup bench-peers ## psi at 10 million ids, training on 20 million ratings, quality on ML-1M: hours
	@$(BIN)/accord bench quality --data ml-1m --json docs/results/quality_large.json
	@$(BIN)/accord bench training --large --json docs/results/training_large.json
	@$(BIN)/accord bench psi --curve 1000000 --curve 10000000 --rsa 100000 --rsa 1000000 \
		--json docs/results/psi_large.json

attacks: setup  ## attacks on sums and rounds, with their numbers; results go to docs/results
	@$(BIN)/accord bench attacks --json docs/results/attacks.json

quality: setup  ## quality on the public data below ACCORD_DATA: about an hour
	@$(BIN)/accord bench quality --ncf --json docs/results/quality.json

bench-peers: .venv-bench/.ready ## the libraries to measure against, in an environment of their own

.venv-bench/.ready: bench/peers.txt | $(READY)
	@[ -x .venv-bench/bin/python ] || $(BIN)/python -m venv .venv-bench
	@rm -f .venv-bench/failed.txt
	@# All at once; when that fails, one by one, and the benchmark lists those that are missing with pip's reason.
	@.venv-bench/bin/pip install -q -r bench/peers.txt || sed '/^#/d' bench/peers.txt | while read -r peer; do \
		.venv-bench/bin/pip install -q -c bench/peers.txt "$$peer" 2>.venv-bench/pip.log \
		|| echo "$$peer: $$(grep -m 1 ERROR .venv-bench/pip.log | cut -c1-200)" >>.venv-bench/failed.txt; done
	@touch $@

results: setup  ## the arms over three seeds; results go to docs/results
	@$(BIN)/accord demo --seeds 3 --results docs/results $(ARGS)

docs: setup     ## write the generated documents (catalogue, messages)
	@$(BIN)/accord catalogue

clean:          ## remove the demo's data and nodes (keeps .venv)
	rm -rf var conf/local
