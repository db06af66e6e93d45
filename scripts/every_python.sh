#!/usr/bin/env bash
# Run the suite on every Python from 3.11 on that is found here, each in an environment of its own (.venv-3.12 ...).
#
#   bash scripts/every_python.sh [pytest arguments]
#   SKIP=3.11 bash scripts/every_python.sh        leaves a version out
#   LIST=1 bash scripts/every_python.sh           only prints what was found
#
# A name on PATH may be an empty shim: only what starts counts. A version manager's own interpreters are looked at too.
set -euo pipefail
cd "$(dirname "$0")/.."

starts() { "$1" -c '' >/dev/null 2>&1; }
tell() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

declare -A found=()
consider() {
  local version
  starts "$1" || return 0
  version=$(tell "$1")
  case " 3.11 3.12 3.13 3.14 " in *" $version "*) ;; *) return 0 ;; esac
  [[ -n ${found[$version]:-} ]] || found[$version]=$1
}

for name in python3 python3.11 python3.12 python3.13 python3.14; do
  if path=$(command -v "$name"); then consider "$path"; fi
done
if command -v pyenv >/dev/null 2>&1; then
  for path in "$(pyenv root)"/versions/*/bin/python; do
    [[ -x $path ]] && consider "$path"
  done
fi

status=0
for version in $(printf '%s\n' "${!found[@]}" | sort -V); do
  case " ${SKIP:-} " in *" $version "*) continue ;; esac
  echo "== Python $version (${found[$version]})"
  [[ -z ${LIST:-} ]] || continue
  "${found[$version]}" scripts/bootstrap.py --python "${found[$version]}" --venv ".venv-$version"
  PATH=$PWD/.venv-$version/bin:$PATH ".venv-$version/bin/python" -m pytest "$@" || status=1
done
exit $status
