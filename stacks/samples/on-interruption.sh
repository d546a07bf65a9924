#!/bin/sh
# Example of a hook before an interruption: every container that says it can, saves a checkpoint. Install it with
#   install -D -o root -g root -m 0755 on-interruption.sh /etc/gpu-governor/on-interruption
# It runs as root, is told why and for how long in its environment, and gets SIGTERM when the time is over.
set -eu

echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) $GPU_GOVERNOR_REASON: $GPU_GOVERNOR_SECONDS_LEFT s left"
docker ps --quiet --filter label=checkpoint-on=USR1 | while read -r container; do
  docker kill --signal USR1 "$container"
done
