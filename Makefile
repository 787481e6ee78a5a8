export OMP_NUM_THREADS = 1

help:  ## list the commands
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

check:  ## format, lint, types, layers
	ruff format --check . && ruff check . && mypy && lint-imports

platforms:  ## types, as macOS and Windows see them
	mypy --platform darwin && mypy --platform win32

test:  ## the ordinary tests
	pytest -n 4

slow:  ## statistics and kills, about an hour
	pytest -m slow -n 2

docs:  ## the site, strictly and without a network: build/site/index.html
	sphinx-build --quiet --fresh-env --fail-on-warning --keep-going --conf-dir docs . build/site

lowest:  ## every command on the lowest versions that are allowed: downloads 3 GB
	python scripts/lowest_versions.py

bench:  ## list the benchmarks; each prints peers and ours and writes JSON
	@grep -m1 -H "\"\"\"" scripts/bench/*.py

.PHONY: help check platforms test slow docs lowest bench
