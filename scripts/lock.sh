#!/usr/bin/env bash
# Pins every requirements/*.in with hashes, for every platform and Python 3.11 or newer (publisher: 3.9). Writes no addresses.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.tools/uv/bin/uv}
pin() { # source, target, lowest Python
  "$uv" pip compile --quiet --universal --python-version "$3" --generate-hashes --no-header --no-annotate \
    --no-emit-index-url --no-emit-find-links --upgrade --output-file "$2" "$1"
}
pin layers/shared/requirements.in layers/shared/requirements.txt 3.11
pin requirements/publisher.in requirements/publisher.txt 3.9
for name in project cloud sam checkov audit custodian browser release docs uv; do
  pin "requirements/$name.in" "requirements/$name.txt" 3.11
done
