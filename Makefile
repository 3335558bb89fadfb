# Thin: installs what is missing, then calls CMake and the scripts of tools/.
.PHONY: build run test check environment goldens bench bench-short bench-environment bench-instructions \
	bench-blocks bench-overload bench-retention bench-fork tokens kill-test kill-jobs-test restore-drill \
	upgrade-test first-starts erase-test shared-test faults hostile torture torture-proof outages \
	test-pgbouncer query-test test-locomo test-retrieval test-model client-restarts \
	local-rounds test-upstream analyze fuzz fuzz-corpus lint-python image chart deploy-test image-test \
	debian13-test experimental-test under-attack dist docs format clean

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

# Beside an echo, pgbench and the libraries that it replaces, against targets; writes
# docs/BENCHMARKS.md. Families of its legs alone: make bench ARGS='--only wire growth'
bench: bench-environment
	@build/bench-venv/bin/python tests/benchmark/run.py $(ARGS)

# The same in under five minutes; prints only.
bench-short: bench-environment
	@build/bench-venv/bin/python tests/benchmark/run.py --short $(ARGS)

bench-environment: build
	@tools/install_packages.sh test
	@tools/bench_env.sh

# Blocks: a model that hangs, and sessions that grow.
bench-blocks: environment
	@$(python) tests/benchmark/hanging_model.py $(ARGS)
	@$(python) tests/benchmark/growing_blocks.py $(ARGS)

# Five times as much as a slow store can take, and a tenant far over its quota beside another.
bench-overload: environment
	@$(python) tests/benchmark/overload.py $(ARGS)

# What metrics, logs and audit cost a Put, in instructions: make bench-instructions ARGS='--rounds 2'
bench-instructions: environment
	@tools/install_packages.sh bench
	@$(python) tests/benchmark/instructions.py $(ARGS)

# What retention costs, and that a store in which sessions come and go does not grow.
bench-retention: environment
	@$(python) tests/benchmark/retention.py $(ARGS)

# A fork of a session of 100,000 messages.
bench-fork: environment
	@$(python) tests/benchmark/forks.py $(ARGS)

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

# The store lost under load, restored, and held against what was acknowledged: RPO and RTO.
restore-drill: environment
	@$(python) tests/durability/restore_drill.py $(ARGS)

# Servers replaced by those of a newer schema while agents go on, and back; with OLD first those of an
# older one: make upgrade-test OLD=../older/build/bin/memoryd
upgrade-test: environment
	@$(with_postgres) $(python) tests/durability/rolling_upgrade.py $(OLD) $(ARGS)

# Eight servers at once on an empty database: make first-starts ROUNDS=50
ROUNDS ?= 50
first-starts: environment
	@$(with_postgres) $(python) tests/durability/first_starts.py --rounds $(ROUNDS)

# Subjects are erased under writes, reads and jobs, 500 on each store: make erase-test ROUNDS=500
erase-test: ROUNDS = 500
erase-test: environment
	@$(with_postgres) $(python) tests/durability/erase_rounds.py --rounds $(ROUNDS)

# A fact told in one conversation is known in the next of its subject and in nobody else's, with a
# kill -9 in between: make shared-test ROUNDS=50
shared-test: environment
	@$(with_postgres) $(python) tests/durability/shared_facts.py --rounds $(ROUNDS)

# Every system call on SQLite's file fails once, and then for ever; a loss of power after each of 200
# kills; 100 ends by SIGTERM under a client's load.
faults: environment
	@$(python) tests/durability/disk_faults.py $(ARGS)
	@$(python) tests/durability/kill.py --store sqlite --power-loss --kills 200 --messages 100
	@$(with_postgres) $(python) tests/clients/restarts.py --client sync --end term --restarts 100

# The catalogue of hostile inputs, floods included.
hostile: environment
	@$(with_postgres) $(python) tests/hostile/run.py $(ARGS)

# Attacks that last, on a server of 512 MiB, while a second tenant puts and gets. Some six hours:
# make under-attack ARGS='rapid_reset half_bodies --store sqlite --seconds 10', ARGS='--soak 30'
under-attack: environment
	@$(with_postgres) $(python) tests/hostile/under_attack.py $(ARGS)

# Random clients while servers and PostgreSQL are killed, stopped and cut off:
# make torture SECONDS=60 SEED=1 STORE=sqlite ARGS='--clock-skew 3600'
# ARGS=--standby: PostgreSQL with a synchronous standby, and failovers; ARGS=--pgbouncer: behind
# PgBouncer; ARGS=--patroni: failovers by Patroni, each of which takes half a minute.
# Not from the environment, where a shell may count its own seconds.
SECONDS := 60
SEED ?= 1
STORE ?= postgresql
torture: environment
	@$(if $(strip $(ARGS)),tools/install_packages.sh torture)
	@MEMORYD_TEST_BINARY=$(CURDIR)/build/bin/memoryd_failpoints $(python) tests/torture/run.py \
		--failpoints --seconds $(SECONDS) --seed $(SEED) --store $(STORE) $(ARGS)

# What the torture is worth: bugs of tests/torture/seeded_bugs.py, each built into a copy of the sources,
# have to be caught. About half an hour: make torture-proof ARGS='--times 3 ack_before_commit'
torture-proof: environment
	@$(python) tests/torture/proof.py $(ARGS)

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

# Query's ranking beside a plain one in Python, which has an environment of its own:
# make test-retrieval LOCOMO=locomo10.json BEAM=chats/100K
test-retrieval: environment
	@tools/build.sh release rank memoryd_word_vectors
	@tools/retrieval_test.sh $(if $(LOCOMO),--locomo $(LOCOMO)) $(if $(BEAM),--beam $(BEAM)) $(ARGS)

# Blocks behind real models on this machine, which are installed first; takes many minutes.
test-model:
	@tools/model_test.sh

# A client that goes on while its server is killed and started again, over and over:
# make client-restarts PUTS=10000 RESTARTS=20
PUTS ?= 10000
RESTARTS ?= 20
client-restarts: environment
	@$(with_postgres) $(python) tests/clients/restarts.py --puts $(PUTS) --restarts $(RESTARTS)

# Programs that start, share and end a server of their own, with kill -9 among them:
# make local-rounds ROUNDS=200
local-rounds: ROUNDS = 200
local-rounds: environment
	@$(python) tests/clients/local_rounds.py --rounds $(ROUNDS)

# The libraries' own tests of their memories, on our classes; downloads them into build/.
test-upstream: environment
	@$(python) tests/upstream/langchain.py $(ARGS)
	@$(python) tests/upstream/autogen.py

# clang's static analyzer, which make check leaves out.
analyze:
	@tools/install_packages.sh build check
	@tools/build.sh asan memoryd memoryd_client memoryd_client_fake
	@tools/clang_tidy.sh --analyzer

# libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer; goes on where it was broken off:
# make fuzz RUNS=10000000 TARGET=json_fuzz
RUNS ?= 10000000
fuzz:
	@tools/fuzz.sh $(RUNS) $(TARGET)

# Takes what the fuzzers found into the corpus that make test runs.
fuzz-corpus:
	@tools/fuzz_corpus.sh $(TARGET)

# Types and lint of clients/python.
lint-python:
	@tools/python_env.sh
	@tools/lint_python.sh

# The image, by docker, podman or buildah, as memoryd:VERSION: make image IMAGE=registry.example/memoryd:0.1.0
image:
	@tools/image.sh $(IMAGE)

# The chart as one file, build/memoryd-VERSION.tgz, for `helm push`. Needs Go, of which helm is built.
chart:
	@"$$(tools/deploy_tools.sh helm)" package deploy/helm/memoryd --destination build

# What is released: wheels, tarball and Debian package, into dist/, each installed and used.
dist:
	@tools/dist/make.sh
	@tools/dist/test.sh

# The pages as a site, build/site, with its links checked; ARGS=--serve shows it on loopback.
docs:
	@tools/docs.sh $(ARGS)

# The chart, the alerts and the dashboard, held against helm, Kubernetes' schemas, kube-score and Prometheus.
deploy-test:
	@tools/deploy_test.sh

# The image, and each pod of deploy/kubernetes, run by podman.
image-test:
	@tools/image_test.sh

# A build on Debian 13, and tests end to end, those of spans among them.
debian13-test:
	@tools/debian_test.sh 13

# By hand: with gRPC of Debian experimental, to keep the way to it open for the commands and the C++ client.
experimental-test:
	@tools/debian_test.sh experimental

format:
	@tools/install_packages.sh check
	@tools/format.sh

clean:
	rm -rf build
