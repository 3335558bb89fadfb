# Thin: installs what is missing, then calls CMake and the scripts of tools/.
.PHONY: build run test check environment goldens bench tokens kill-test test-locomo growth format clean

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

# Golden traces of the libraries, replayed: from DIR, or without it made on the spot.
goldens: environment
	@$(with_postgres) $(python) tests/goldens/run_goldens.py $(DIR)

bench: environment
	@$(python) tests/benchmark/run.py $(ARGS)

# Token counts beside tiktoken's.
tokens: environment
	@$(python) tests/tokens/compare_tiktoken.py --tool build/bin/token_count \
		--vocabulary build/share/memoryd $(ARGS)

# kill -9 under concurrent Puts: make kill-test KILLS=50
KILLS ?= 50
kill-test: environment
	@$(with_postgres) $(python) tests/durability/kill.py --kills $(KILLS)

# Real conversations: make test-locomo LOCOMO=file.json
test-locomo: environment
	@$(with_postgres) $(python) tests/locomo/replay.py $(LOCOMO)

# A session of a million messages beside one of a thousand.
growth: environment
	@$(with_postgres) $(python) tests/growth/growth.py $(ARGS)

format:
	@tools/install_packages.sh check
	@tools/format.sh

clean:
	rm -rf build
