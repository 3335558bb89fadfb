# Thin: installs what is missing, then calls CMake and the scripts of tools/.
.PHONY: build run test check environment goldens bench bench-blocks bench-clients tokens \
	kill-test kill-jobs-test hostile torture outages test-pgbouncer query-test test-locomo test-model client-restarts \
	test-upstream analyze lint-python growth image image-test format clean

python := build/venv/bin/python
with_postgres := tools/with_postgres.sh

build:
	@tools/install_packages.sh build
	@tools/build.sh release

# Serves on the embedded store; ARGS are passed on: make run ARGS='--listen=127.0.0.1:0'
run:
	@tools/run.sh $(ARGS)

test:
	@tools/test.sh

check:
	@tools/check.sh

environment: build
	@tools/install_packages.sh test
	@tools/python_env.sh

# Golden traces of the libraries, replayed: those in DIR, or made into build/traces, of seeds 1 to 3 and
# SEEDS fresh ones. Their models are a worker's on both stores, and behind HTTP once; then our classes
# take the place of the libraries'.
SEEDS ?= 2
goldens: environment
ifndef DIR
	@$(python) tests/goldens/traces.py build/traces --seeds $(SEEDS)
endif
	@for program in run_goldens llama_index_classes langchain_classes autogen_classes; do \
		$(with_postgres) $(python) tests/goldens/$$program.py $(or $(DIR),build/traces) $(ARGS) || \
			failed=1; \
	done; [ -z "$$failed" ]

bench: environment
	@$(python) tests/benchmark/run.py $(ARGS)

# Blocks: a model that hangs, and sessions that grow.
bench-blocks: environment
	@$(python) tests/benchmark/hanging_model.py $(ARGS)
	@$(python) tests/benchmark/growing_blocks.py $(ARGS)

# The Python adapters beside what they replace, on one PostgreSQL.
bench-clients: environment
	@$(python) tests/benchmark/clients.py $(ARGS)

# Token counts beside tiktoken's.
tokens: environment
	@$(python) tests/tokens/compare_tiktoken.py --tool build/bin/token_count \
		--vocabulary build/share/memoryd $(ARGS)

# kill -9 under concurrent Puts: make kill-test KILLS=50
KILLS ?= 50
kill-test: environment
	@$(with_postgres) $(python) tests/durability/kill.py --kills $(KILLS)

# kill -9 in the middle of jobs: make kill-jobs-test KILLS=50
kill-jobs-test: environment
	@$(with_postgres) $(python) tests/durability/kill_jobs.py --kills $(KILLS)

# The catalogue of hostile inputs, floods included, and what of it is not yet as it must be.
hostile: environment
	@$(with_postgres) $(python) tests/hostile/run.py $(ARGS)

# Random clients while servers and PostgreSQL are killed, stopped and cut off:
# make torture SECONDS=60 SEED=1 STORE=sqlite
# ARGS=--standby: PostgreSQL with a synchronous standby, and failovers; ARGS=--pgbouncer: behind
# PgBouncer; ARGS=--patroni: failovers by Patroni, each of which takes half a minute.
# Not from the environment, where a shell may count its own seconds.
SECONDS := 60
SEED ?= 1
STORE ?= postgresql
torture: environment
	@$(if $(filter --pgbouncer --patroni,$(ARGS)),tools/install_packages.sh torture)
	@tools/build.sh torture memoryd
	@MEMORYD_TEST_BINARY=$(CURDIR)/build/torture/bin/memoryd $(python) tests/torture/run.py \
		--failpoints --seconds $(SECONDS) --seed $(SEED) --store $(STORE) $(ARGS)

# How soon health tells of a PostgreSQL that does not answer, and whether calls end in time.
outages: environment
	@$(python) tests/torture/outages.py $(ARGS)

# The end-to-end tests with PgBouncer in transaction mode before PostgreSQL.
test-pgbouncer: environment
	@tools/install_packages.sh torture
	@$(with_postgres) $(python) tests/e2e/through_pgbouncer.py -q tests/e2e $(or $(ARGS),-n 3)

# Query right after Put, on the other server where there are two: make query-test TRIES=10000
TRIES ?= 10000
query-test: environment
	@$(with_postgres) $(python) tests/e2e/query_after_put.py --tries $(TRIES)

# Real conversations: make test-locomo LOCOMO=file.json
test-locomo: environment
	@$(with_postgres) $(python) tests/locomo/replay.py $(LOCOMO)

# Blocks behind real models on this machine, which are installed first; takes many minutes.
test-model:
	@tools/model_test.sh

# A client that goes on while its server is killed and started again, over and over:
# make client-restarts PUTS=10000 RESTARTS=20
PUTS ?= 10000
RESTARTS ?= 20
client-restarts: environment
	@$(with_postgres) $(python) tests/clients/restarts.py --puts $(PUTS) --restarts $(RESTARTS)

# The libraries' own tests of their memories, on our classes; downloads them into build/.
test-upstream: environment
	@$(python) tests/upstream/langchain.py $(ARGS)
	@$(python) tests/upstream/autogen.py

# clang's static analyzer, which make check leaves out.
analyze:
	@tools/install_packages.sh build check
	@tools/build.sh clang
	@tools/clang_tidy.sh --analyzer

# Types and lint of clients/python.
lint-python:
	@tools/python_env.sh
	@tools/lint_python.sh

# A session of a million messages beside one of a thousand.
growth: environment
	@$(with_postgres) $(python) tests/growth/growth.py $(ARGS)

# The image, by docker, podman or buildah: make image IMAGE=registry.example/memoryd:1
IMAGE ?= memoryd:latest
image:
	@tools/image.sh $(IMAGE)

# The image and the pod of deploy/kubernetes, run by podman.
image-test:
	@tools/image_test.sh

format:
	@tools/install_packages.sh check
	@tools/format.sh

clean:
	rm -rf build
