# Two commands to know: `make demo` runs everything on real data, `make test` runs the tests. Both do all set-up.
PY := .venv/bin/python
BIN := .venv/bin
.DEFAULT_GOAL := help
