#!/usr/bin/env bash
# Runs every script of this folder, one after the other, with the same options: bash bench/overload/all.sh [--quick ...]
# --json is for a single script; OUT=DIRECTORY keeps the figures of all. The exit status is that of the worst.
set -u
here=$(cd "$(dirname "$0")" && pwd)
worst=0
for script in capacity twice tenfold flooder slow_clients resets; do
    "${PYTHON:-python3}" "$here/$script.py" "$@" ${OUT:+--json "$OUT/$script.json"} || worst=$?
    echo
done
exit "$worst"
