# Thin: installs what is missing, then calls CMake and the scripts of tools/.
#
# `make help` prints sections, `##@ title`, and targets, each with the line `## text` before it.
.PHONY: help run build test dist image chart clean check format lint-python tidy docs fuzz \
	fuzz-corpus environment goldens test-upstream test-frameworks client-restarts local-rounds tokens \
	test-locomo test-retrieval test-languages query-test test-model kill-test kill-jobs-test restore-drill upgrade-test \
	first-starts erase-test shared-test faults torture torture-proof outages test-pgbouncer hostile \
	under-attack bench bench-short bench-environment bench-blocks bench-overload bench-instructions \
	bench-retention bench-fork bench-langgraph bench-sessions bench-http bench-items-scale test-mcp test-typescript test-go test-http test-ui \
	deploy-test dist-test image-test debian13-test experimental-test

.DEFAULT_GOAL := build

python := build/venv/bin/python
with_postgres := tools/with_postgres.sh

##@ For users

## List the targets
help:
	@awk -f tools/make_help.awk $(MAKEFILE_LIST)

## Build, and serve on the embedded store. ARGS go to the server: ARGS='--listen=127.0.0.1:0'
run:
	@tools/run.sh $(ARGS)

## Build the server, the commands and the C++ client into build/
build:
	@tools/install_packages.sh build
	@tools/build.sh release

## Build, and run every functional test on both stores
test:
	@tools/test.sh

## Make what is released, wheels, tarball and Debian packages, into dist/
dist:
	@tools/dist/make.sh

## Build the image as memoryd:VERSION by docker, podman or buildah. IMAGE=name names it
image:
	@tools/image.sh $(IMAGE)

## Pack the Helm chart as build/memoryd-VERSION.tgz. Needs Go, which builds helm
chart:
	@"$$(tools/deploy_tools.sh helm)" package deploy/helm/memoryd --destination build

## Remove build/
clean:
	rm -rf build

##@ For maintainers: checks

## Formatters, linters, sanitizers, clang's thread-safety analysis, short tortures
check:
	@tools/check.sh

## Format the C++ sources in place
format:
	@tools/install_packages.sh check
	@tools/format.sh

## Check types and lint of clients/python
lint-python:
	@tools/python_env.sh
	@tools/lint_python.sh

## Run clang-tidy over all that is not known to be clean; 20 minutes for all. ARGS='core/base/error.cc'
# --analyzer runs clang's static analyzer too, which `make check` leaves out.
tidy:
	@tools/install_packages.sh build check
	@tools/python_env.sh
	@tools/clang_tidy.py $(ARGS)

## Build the pages' site into build/site and check its links. ARGS=--serve shows it on loopback
docs:
	@tools/docs.sh $(ARGS)

## Fuzz every parser of external input; resumes where it stopped. RUNS=10000000 TARGET=json_fuzz
# Uses libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer.
RUNS ?= 10000000
fuzz:
	@tools/fuzz.sh $(RUNS) $(TARGET)

## Add what the fuzzers found to the corpus that `make test` runs
fuzz-corpus:
	@tools/fuzz_corpus.sh $(TARGET)

## Build, and make the Python environment of the tests, build/venv
environment: build
	@tools/install_packages.sh test
	@tools/python_env.sh

##@ For maintainers: clients and frameworks

## Replay traces of the libraries. DIR=folder of traces, or SEEDS fresh ones beside 1 to 3
# Their models are a worker's on both stores, and behind HTTP once. Then our classes replace the libraries'.
SEEDS ?= 2
goldens: environment
ifndef DIR
	@$(python) tests/goldens/traces.py build/traces --seeds $(SEEDS)
endif
	@for program in run_goldens llama_index_classes langchain_classes autogen_classes; do \
		$(with_postgres) $(python) tests/goldens/$$program.py $(or $(DIR),build/traces) $(ARGS) || \
			failed=1; \
	done; [ -z "$$failed" ]

## Run the libraries' own tests of their memories on our classes; downloads them into build/
test-upstream: environment
	@$(python) tests/upstream/langchain.py $(ARGS)
	@$(python) tests/upstream/autogen.py
	@$(python) tests/upstream/openai_agents.py $(ARGS)

## Test the frameworks in full. ADK=checkout, AGENT_FRAMEWORK=checkout: their own tests too
# Those with environments of their own compare 2,000 random calls with the library's own store. Each
# example is killed 20 times on each store. The checkouts are of google/adk-python and
# microsoft/agent-framework. CrewAI's fresh install, of a gigabyte, is here and not in CI.
test-frameworks: environment
	@for file in tests/frameworks/test_*.py; do \
		name=$${file#tests/frameworks/test_}; \
		$(with_postgres) $(python) tests/frameworks/run.py $${name%.py} --full || failed=1; \
	done; [ -z "$$failed" ]
	@$(with_postgres) $(python) -m pytest -q tests/clients --full -k wherever_it_is_killed
	@$(python) tests/frameworks/matrix.py
	@$(python) tests/clients/fresh_install.py --extras crewai
ifdef ADK
	@$(python) tests/upstream/google_adk.py $(ADK)
endif
ifdef AGENT_FRAMEWORK
	@$(python) tests/upstream/microsoft_agents.py $(AGENT_FRAMEWORK)
endif

## Restart the server under a client again and again. PUTS=10000 RESTARTS=20
PUTS ?= 10000
RESTARTS ?= 20
client-restarts: environment
	@$(with_postgres) $(python) tests/clients/restarts.py --puts $(PUTS) --restarts $(RESTARTS)

## Start, share and end local servers from programs, with kill -9 between. ROUNDS=200
local-rounds: ROUNDS = 200
local-rounds: environment
	@$(python) tests/clients/local_rounds.py --rounds $(ROUNDS)

## Compare token counts with tiktoken's
tokens: environment
	@$(python) tests/tokens/compare_tiktoken.py --tool build/bin/token_count \
		--vocabulary build/share/memoryd $(ARGS)

## Build the TypeScript client, and run its linter, its tests and the suite of all clients; pack it
# Downloads Node and its packages into build/.
test-typescript: environment
	@tools/install_packages.sh ui
	@tools/typescript.sh lint test conform pack runtimes frameworks rates

## Test the Go client in full: the cases of every client, restarts on both stores, calls a second
test-go: environment
	@tools/go_test.sh --full

## Run the Model Context Protocol's suite on `memoryd mcp`; downloads it, and Node, into build/
test-mcp: environment
	@tests/conformance/mcp.sh

## Run the Connect protocol's suite on the HTTP port's layer, and its clients for Node and browsers
# Downloads them, Go and Node into build/.
test-http: environment
	@tests/conformance/connect.sh
	@tests/conformance/connect_clients.sh

## Look at each view of the inspector in a browser; its pictures are in build/ui
# Installs Debian's Chromium. The long ones too, of 100,000 sessions and messages: ARGS=--full
test-ui: environment
	@tools/install_packages.sh ui
	@tools/ui_env.sh
	@$(python) clients/python/tools/generate_stubs.py
	@build/ui-venv/bin/python -m pytest -q tests/ui $(ARGS)

## Replay real conversations. LOCOMO=file.json
test-locomo: environment
	@$(with_postgres) $(python) tests/locomo/replay.py $(LOCOMO)

## Compare Query's ranking with a plain one in Python. LOCOMO=locomo10.json BEAM=chats/100K
# The plain ranking has an environment of its own.
test-retrieval: environment
	@tools/build.sh release rank memoryd_word_vectors
	@tools/retrieval_test.sh compare.py $(if $(LOCOMO),--locomo $(LOCOMO)) $(if $(BEAM),--beam $(BEAM)) $(ARGS)

## Ask chats in ten languages their questions, and compare the ranking with the plain one
test-languages: environment
	@tools/build.sh release rank memoryd_word_vectors
	@tools/retrieval_test.sh language_sets.py $(ARGS)

## Query right after each Put, on the other server where there are two. TRIES=10000
TRIES ?= 10000
query-test: environment
	@$(with_postgres) $(python) tests/e2e/query_after_put.py --tries $(TRIES)

## Install real models on this machine and run blocks on them; takes many minutes
test-model:
	@tools/model_test.sh

##@ For maintainers: durability

## Kill the server with kill -9 under concurrent Puts. KILLS=50
KILLS ?= 50
kill-test: environment
	@$(with_postgres) $(python) tests/durability/kill.py --kills $(KILLS)

## Kill the server with kill -9 in the middle of jobs. KILLS=50
kill-jobs-test: environment
	@$(with_postgres) $(python) tests/durability/kill_jobs.py --kills $(KILLS)

## Lose the store under load, restore it, compare it with what was acknowledged: RPO and RTO
restore-drill: environment
	@$(python) tests/durability/restore_drill.py $(ARGS)

## Upgrade servers to a newer schema and back under load; with OLD=BINARY, from that older one first
upgrade-test: environment
	@$(with_postgres) $(python) tests/durability/rolling_upgrade.py $(OLD) $(ARGS)

## Start eight servers at once on an empty database. ROUNDS=50
ROUNDS ?= 50
first-starts: environment
	@$(with_postgres) $(python) tests/durability/first_starts.py --rounds $(ROUNDS)

## Erase subjects under writes, reads and jobs, on each store. ROUNDS=500
erase-test: ROUNDS = 500
erase-test: environment
	@$(with_postgres) $(python) tests/durability/erase_rounds.py --rounds $(ROUNDS)

## Tell a fact in one conversation, look for it in the next of its subject. ROUNDS=50
# Nobody else's conversation may know it; a kill -9 lies in between.
shared-test: environment
	@$(with_postgres) $(python) tests/durability/shared_facts.py --rounds $(ROUNDS)

## Fail every system call on SQLite's file, cut the power 200 times, end the server 100 times
# Each call fails once, and then for ever; power is lost after each of 200 kills; 100 ends are by
# SIGTERM under a client's load.
faults: environment
	@$(python) tests/durability/disk_faults.py $(ARGS)
	@$(python) tests/durability/kill.py --store sqlite --power-loss --kills 200 --messages 100
	@$(with_postgres) $(python) tests/clients/restarts.py --client sync --end term --restarts 100

## Kill, stop and cut off servers and PostgreSQL under random clients. SECONDS=60 SEED=1 STORE=sqlite
# More by ARGS: '--clock-skew 3600'; --standby, PostgreSQL with a synchronous standby, and failovers;
# --pgbouncer, behind PgBouncer, or behind its stand-in: '--pgbouncer keeps', or loses; --patroni,
# failovers by Patroni, each of which takes half a minute.
# SECONDS is not taken from the environment, where a shell may count its own seconds.
SECONDS := 60
SEED ?= 1
STORE ?= postgresql
torture: environment
	@$(if $(strip $(ARGS)),tools/install_packages.sh torture)
	@MEMORYD_TEST_BINARY=$(CURDIR)/build/bin/memoryd_failpoints $(python) tests/torture/run.py \
		--failpoints --seconds $(SECONDS) --seed $(SEED) --store $(STORE) $(ARGS)

## Show that the torture finds seeded bugs; half an hour. ARGS='--times 3 ack_before_commit'
# Each bug of tests/torture/seeded_bugs.py is built into a copy of the sources.
torture-proof: environment
	@$(python) tests/torture/proof.py $(ARGS)

## Measure how soon health reports a PostgreSQL that does not answer, and whether calls end in time
outages: environment
	@$(python) tests/torture/outages.py $(ARGS)

## Run the end-to-end tests with PgBouncer in transaction mode before PostgreSQL. ARGS='-n 3'
# ARGS='--pooler=keeps -n 3' has the stand-in for a PgBouncer that keeps prepared statements.
test-pgbouncer: environment
	@tools/install_packages.sh torture
	@$(with_postgres) $(python) tests/e2e/through_pgbouncer.py -q tests/e2e $(or $(ARGS),-n 3)

## Run the catalogue of hostile inputs, floods included
hostile: environment
	@$(with_postgres) $(python) tests/hostile/run.py $(ARGS)

## Attack a server of 512 MiB while a second tenant puts and gets; takes some six hours
# Some attacks only: ARGS='rapid_reset half_bodies --store sqlite --seconds 10'. Long: ARGS='--soak 30'.
under-attack: environment
	@$(with_postgres) $(python) tests/hostile/under_attack.py $(ARGS)

##@ For maintainers: benchmarks

## Measure beside an echo, pgbench and the libraries, against targets; writes docs/BENCHMARKS.md
# Some families of its legs: make bench ARGS='--only wire growth'
bench: bench-environment
	@build/bench-venv/bin/python tests/benchmark/run.py $(ARGS)

## The same in under five minutes; prints only
bench-short: bench-environment
	@build/bench-venv/bin/python tests/benchmark/run.py --short $(ARGS)

## Build, and make the Python environment of the benchmarks, build/bench-venv
bench-environment: build
	@tools/install_packages.sh test
	@tools/bench_env.sh

## Measure blocks: a model that hangs, and sessions that grow
bench-blocks: environment
	@$(python) tests/benchmark/hanging_model.py $(ARGS)
	@$(python) tests/benchmark/growing_blocks.py $(ARGS)

## Offer five times what a slow store can take, and a tenant far over its quota beside another
bench-overload: environment
	@$(python) tests/benchmark/overload.py $(ARGS)

## Count instructions that metrics, logs and audit add to a Put. ARGS='--beside BINARY' compares builds
bench-instructions: environment
	@tools/install_packages.sh bench
	@$(python) tests/benchmark/instructions.py $(ARGS)

## Measure what retention costs, and the size of a store whose sessions come and go
bench-retention: environment
	@$(python) tests/benchmark/retention.py $(ARGS)

## Measure a fork of a session of 100,000 messages
bench-fork: environment
	@$(python) tests/benchmark/forks.py $(ARGS)

## Measure LangGraph's store and checkpointer in memoryd beside those on PostgreSQL
bench-langgraph: bench-environment
	@build/bench-venv/bin/python tests/benchmark/graphs.py $(ARGS)

## Measure sessions of the Agents SDK and of ADK in memoryd beside the two's own on PostgreSQL
bench-sessions: bench-environment
	@build/bench-venv/bin/python tests/benchmark/sessions.py $(ARGS)

## Measure the server's CPU a Put over HTTP, in JSON and in protobuf, beside one over gRPC
bench-http: environment
	@$(python) tests/benchmark/http_puts.py $(ARGS)

## Measure calls on items in a namespace of 10⁶ of them, and among 10⁵ namespaces, beside 10³
bench-items-scale: environment
	@$(python) tests/benchmark/items_scale.py $(ARGS)

##@ For maintainers: packages and deployment

## Install and use each file of dist/; as root in minimal Debian 12 and 13 too
dist-test:
	@tools/dist/test.sh

## Check chart, alerts and dashboard by helm, Kubernetes' schemas, kube-score and Prometheus
deploy-test:
	@tools/deploy_test.sh

## Run the image, and each pod of deploy/kubernetes, by podman
image-test:
	@tools/image_test.sh

## Build on Debian 13, and test end to end, spans included
debian13-test:
	@tools/debian_test.sh 13

## Build the commands and the C++ client with gRPC of Debian experimental
# Started by hand, to keep the way to that gRPC open.
experimental-test:
	@tools/debian_test.sh experimental
