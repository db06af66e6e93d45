#!/usr/bin/env bash
# Run the suite with modules that were built with the address and undefined-behaviour sanitizers.
#
#   bash scripts/sanitized.sh VENV [pytest arguments]     (make test-sanitized prepares the VENV)
#
# The interpreter itself is not instrumented, so the runtimes are preloaded, and Python's own allocator, which hides
# overruns in its arenas, is switched off. Leaks are not looked for: an interpreter that exits leaves plenty.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1
shift

module=$("$venv/bin/python" -c 'import importlib.util as u; print(u.find_spec("penstock").submodule_search_locations[0])')/core
if ! grep -q __asan_init "$module"/ring*.so; then
  echo "penstock: the modules in $venv are built without sanitizers; use: make test-sanitized" >&2
  exit 2
fi

preload=""
for library in libasan.so libubsan.so libstdc++.so; do
  path=$(${CC:-gcc} -print-file-name="$library")
  # The compiler echoes the bare name of a library that it does not have; some are linker scripts, which name the real one.
  if [[ $path != /* ]]; then
    echo "penstock: the compiler has no $library; install the sanitizer libraries (with gcc they come along)." >&2
    exit 2
  fi
  if ! head -c 4 "$path" | grep -q ELF; then
    path=$(grep -o '/[^ )]*\.so[.0-9]*' "$path" | head -n 1)
  fi
  preload="$preload $path"
done

# What a sanitizer has to say ends the process in the middle of a test, whose output pytest holds: it goes into files.
reports=$(mktemp -d)
trap 'cat "$reports"/* >&2 2>/dev/null || true; rm -rf "$reports"' EXIT
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0:allocator_may_return_null=1:log_path=$reports/address
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=$reports/behaviour
export PYTHONMALLOC=malloc
export HYPOTHESIS_PROFILE=${HYPOTHESIS_PROFILE:-sanitized}
export PENSTOCK_SANITIZED=1
export PATH=$PWD/$venv/bin:$PATH
LD_PRELOAD=${preload# } "$venv/bin/python" -m pytest "$@"
