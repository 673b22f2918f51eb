# Every target sets up what it needs; the environment lives in .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= $(shell expr $$(nproc 2> /dev/null || getconf _NPROCESSORS_ONLN) + 1)

# Tests and benchmarks start hundreds of processes, each of which would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

# The package as its users install it, and what development needs besides.
PACKAGE := $(VENV)/.package
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs

# The environment is that of the Python it was made with, until PYTHON names another one: then it is made anew.
MADE := $(wildcard $(VENV)/.python-*)
ifneq ($(if $(MADE),$(origin PYTHON)),file)
MADE := $(VENV)/.python-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif

.PHONY: setup demo test test-local test-spark audit promises lint docs figures quotes tutorials fuzz fuzz-native fuzz-arm sanitize bench report dist check-dist clean

setup: $(DEV)

$(MADE):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "sparsedp needs Python 3.10 or newer")'
	$(PYTHON) -m venv --clear $(VENV)
	touch $@

# Python sources are used in place; only a change of the core or of the metadata installs again. pip builds apart from
# the environment and leaves nothing behind, so that there is no old build to go wrong.
$(PACKAGE): $(MADE) pyproject.toml CMakeLists.txt src/sparsedp/__init__.py $(wildcard native/*)
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

# The package is there already, so that this installs its extra only.
$(DEV): $(PACKAGE)
	$(BIN)/python -m pip install --quiet 'sparsedp[dev]'
	touch $@

$(DOCS): $(PACKAGE)
	$(BIN)/python -m pip install --quiet 'sparsedp[docs]'
	touch $@

demo: $(PACKAGE)
	$(BIN)/python -m sparsedp.demo
	@echo "See it in the browser: $(BIN)/pip install '.[serve]', then $(BIN)/sparsedp demo --serve"

# Tests keep all cores busy: threads of BLAS besides would wait for each other, and spin while they do.
test-local promises audit: export OPENBLAS_NUM_THREADS := 1

# Both at once, and one worker more than there are cores: many tests wait for processes that they start.
test: setup
	$(MAKE) -j2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) test-local test-spark

test-local: setup
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m 'not spark and not audit' --ignore=tests/reach/spark --promises=build/promises.md

# On a real Spark: in this process, on a cluster with two executors, and through a Spark Connect server. On the
# machine's Java, or else on one from the package index.
test-spark: setup
	$(BIN)/python tests/reach/spark/javahome.py || $(BIN)/python -m pip install --quiet 'sparsedp[java]'
	$(BIN)/python -m pytest -m spark tests/reach

# The table of promises with the figures of this run; the audits at full size, and samplers at 10⁸ draws (some minutes).
promises: setup
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m promise --promises=docs/promises.md

audit: setup promises
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m audit
	$(BIN)/sparsedp audit --mechanism all --epsilon 1 --runs 2e5

# clang-tidy needs no Python and none of our builds: fuzz/kernels.cpp includes every kernel, and the standard library is
# that of the machine's g++. Bindings would need a minute and a half of it; the compiler's -Wall -Wextra is for them.
lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror native/*.hpp native/*.cpp fuzz/*.hpp fuzz/*.cpp
	$(BIN)/clang-tidy --quiet fuzz/kernels.cpp -- -std=c++17 -Inative -Wall -Wextra

# The site, in build/site: it opens as files, and needs no network. Links that lead nowhere are errors.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The figures that code draws; a test says when they are out of date.
figures: setup
	$(BIN)/python docs/making/figures.py

# What the pages quote of the newest runs of sparsedp reproduce --peers --out report, and of make bench.
quotes: setup
	$(BIN)/python docs/making/quoted.py

# The notebooks, with what their cells show.
tutorials: setup
	$(BIN)/python docs/making/tutorials.py

# Each target of fuzz/ for its share of the seconds; what breaks a promise becomes a file in fuzz/corpus/.
FUZZ_SECONDS ?= 60
fuzz: setup
	$(BIN)/python -c 'import atheris' 2> /dev/null || $(BIN)/python -m pip install --quiet 'atheris>=3.0'
	$(BIN)/python -m fuzz $(FUZZ_SECONDS)

# The kernels against plain versions of the same, with libFuzzer and both sanitizers; needs clang.
fuzz-native: build/fuzz/kernels
	mkdir -p build/fuzz/native
	build/fuzz/kernels -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -print_final_stats=1 build/fuzz/native

build/fuzz/kernels: fuzz/kernels.cpp $(wildcard native/*.hpp fuzz/*.hpp)
	@command -v clang++ > /dev/null || { echo "libFuzzer needs clang: install clang, or use make fuzz and make sanitize" >&2; exit 1; }
	mkdir -p build/fuzz
	clang++ -std=c++17 -g -O1 -pthread -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Inative $< -o $@

# The same on 64-bit ARM, emulated, without guidance; needs Debian's g++-aarch64-linux-gnu and qemu-user.
fuzz-arm: build/fuzz/kernels-arm
	$(or $(shell command -v qemu-aarch64),$(shell command -v qemu-aarch64-static),qemu-aarch64) $<

build/fuzz/kernels-arm: fuzz/kernels.cpp fuzz/without_libfuzzer.cpp $(wildcard native/*.hpp fuzz/*.hpp)
	mkdir -p build/fuzz
	aarch64-linux-gnu-g++ -std=c++17 -O3 -static -pthread -Inative $(filter %.cpp,$^) -o $@

# The core with AddressSanitizer and UndefinedBehaviorSanitizer, in an environment of its own that borrows the packages
# of .venv, under the tests that drive it. Python itself is not instrumented, so the runtime is loaded first.
SANITIZED := build/sanitize/venv
SANITIZED_TESTS := $(addprefix tests/,keys structures format/test_attacks.py format/test_attacks_forged.py format/test_files.py format/test_fuzz_corpus.py \
	mechanisms/test_retrieval.py mechanisms/test_tight_alp.py releasing)
sanitize: setup $(SANITIZED)/.installed
	LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	$(SANITIZED)/bin/python -m pytest -n auto -m 'not spark' $(SANITIZED_TESTS)

$(SANITIZED)/.installed: $(DEV) $(shell find src -name '*.py')
	$(BIN)/python -m venv --without-pip --clear $(SANITIZED)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$($(SANITIZED)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
	$(BIN)/python -m pip --python $(SANITIZED)/bin/python install --quiet --no-deps --force-reinstall \
		--config-settings=cmake.define.SPARSEDP_SANITIZE=ON --config-settings=install.strip=false .
	touch $@

# A target of speed that is missed does not keep the second part from running; its status is that of both.
bench: setup
	$(BIN)/python -m benchmarks; speed=$$?; $(BIN)/python -m benchmarks.accuracy && exit $$speed

report: setup
	$(BIN)/sparsedp reproduce --out report

# A source archive, and the wheel that is built from it.
dist: setup
	rm -rf dist
	$(BIN)/pyproject-build

# Both are installed into new environments and used from an empty folder.
check-dist: dist
	.ci/check-dist $(BIN)/python dist

clean:
	rm -rf $(VENV) build dist report
