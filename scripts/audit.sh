#!/usr/bin/env bash
# Looks every pinned package up among the known vulnerabilities of PyPI, file by file; 1 where one is known, 2 where
# not every package could be looked up. Changes nothing. No part of `make check`: an advisory of today must not turn
# yesterday's commit red.
set -uo pipefail
cd "$(dirname "$0")/.."
audit=${AUDIT:-.tools/audit/bin/pip-audit}
status=0
for pins in layers/shared/requirements.txt requirements/*.txt; do
  # Pins are complete, so nothing is resolved or installed. Strict: a package that PyPI does not know is no clean one.
  if found=$("$audit" --strict --require-hashes --disable-pip --progress-spinner off \
    --cache-dir .tools/audit-cache -r "$pins" 2>&1); then
    echo "$pins: no known vulnerabilities"
  elif grep -q "^Found [0-9]* known vulnerabilit" <<<"$found"; then
    printf '%s: %s\n' "$pins" "$found"
    [ "$status" = 2 ] || status=1
  else
    printf '%s: not audited: %s\n' "$pins" "$(tail -n 1 <<<"$found")"
    status=2
  fi
done
case $status in
  1) echo "Raise the packages named above: make lock, then make check." ;;
  2) echo "Not everything was audited, so nothing is proved. Run this where https://pypi.org/pypi answers;" \
    "a mirror without PyPI's JSON API knows no advisories." ;;
esac
exit "$status"
