# Installs gpu-metrics-publisher from a pinned bundle and runs it; changes nothing where all is well. State Manager
# runs this again and again.
#
# Usage: install_publisher.sh BUNDLE SHA256
#   BUNDLE   bucket/key in S3 of what `make publisher` has made: all wheels that are needed, and the unit
#   SHA256   of the bundle; nothing else is ever unpacked
# Exit status: 0 it runs; 2 wrong arguments; 3 aws, python3 3.9 with venv, or systemd is missing; 4 the bundle could
# not be fetched or is another one; 5 the host publishes GPU metrics by other means, which are left alone; 6 it could
# not be installed; 7 it does not run.
set -u
umask 022 # the service runs as a user of its own

bundle=${1:-}
sha256=${2:-}
place=/opt/gpu-metrics-publisher
unit=/etc/systemd/system/gpu-metrics-publisher.service
options=/etc/gpu-metrics-publisher.env
lock=/var/lib/gpu-governor/publisher.lock
agent=/opt/aws/amazon-cloudwatch-agent/etc

say() { printf 'install-publisher: %s\n' "$*"; }
stop() {
  status=$1
  shift
  say "$*" >&2
  exit "$status"
}
runs() { [ "$(systemctl is-active gpu-metrics-publisher)" = active ]; }

[ -n "$bundle" ] && [ "${#sha256}" = 64 ] || stop 2 "usage: install_publisher.sh BUCKET/KEY SHA256"
for tool in aws python3 systemctl; do
  command -v "$tool" >/dev/null || stop 3 "$tool is missing"
done
python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 9))' ||
  stop 3 "python3 is older than 3.9 or has no venv"
# Each GPU would be counted twice.
if grep -qs nvidia_gpu "$agent"/amazon-cloudwatch-agent.d/* "$agent/amazon-cloudwatch-agent.json"; then
  stop 5 "left alone, as the CloudWatch agent publishes GPUs here: take nvidia_gpu out of $agent first"
fi
if [ -e "$place" ] && [ ! -L "$place" ]; then
  stop 5 "left alone, as $place was installed by hand: remove it first"
fi

mkdir -p "${lock%/*}" || stop 6 "${lock%/*} could not be made"
exec 9>"$lock" || stop 6 "$lock could not be written"
flock -w 240 9 || stop 6 "another run has taken four minutes"

wanted=$place-$sha256
changed=no
if [ ! -e "$wanted/complete" ]; then
  rm -rf "$wanted"
  mkdir "$wanted" || stop 6 "$wanted could not be made"
  aws s3 cp --only-show-errors "s3://$bundle" "$wanted/bundle.tar.gz" >&2 ||
    stop 4 "$bundle could not be fetched; see the policy of the instance's role"
  printf '%s  %s\n' "$sha256" "$wanted/bundle.tar.gz" | sha256sum -c - >/dev/null 2>&1 ||
    stop 4 "$bundle has another checksum than $sha256: it is not what was pinned"
  tar -xzf "$wanted/bundle.tar.gz" -C "$wanted" || stop 6 "$bundle could not be unpacked"
  # No index is asked: nothing comes in that the checksum does not cover.
  python3 -m venv "$wanted" || stop 6 "no virtual environment could be made"
  "$wanted/bin/python" -m pip install -q --no-index --no-cache-dir --find-links "$wanted/wheels" \
    gpu-metrics-publisher >&2 || stop 6 "pip could not install it"
  rm -rf "$wanted/wheels" "$wanted/bundle.tar.gz"
  : >"$wanted/complete" || stop 6 "$wanted could not be written"
fi
if [ "$(readlink "$place" 2>/dev/null)" != "$wanted" ]; then
  # What ran before runs on until here.
  ln -sfn "$wanted" "$place" || stop 6 "$place could not be made"
  changed=yes
fi
if ! cmp -s "$wanted/gpu-metrics-publisher.service" "$unit"; then
  cp "$wanted/gpu-metrics-publisher.service" "$unit" || stop 6 "$unit could not be written"
  changed=yes
fi
# The agent's figures, which cost the least; whoever wants more changes the file, and it stays.
[ -e "$options" ] || echo "OPTIONS=--metrics agent" >"$options" || stop 6 "$options could not be written"
if [ "$changed" = no ] && runs; then
  say "it runs from $bundle; nothing was changed"
  exit 0
fi
systemctl daemon-reload || stop 7 "systemd does not answer"
systemctl enable -q gpu-metrics-publisher || stop 7 "it could not be enabled"
systemctl restart gpu-metrics-publisher || stop 7 "it did not start"
runs || stop 7 "it does not run; see journalctl -u gpu-metrics-publisher"
for old in "$place"-*; do
  [ "$old" = "$wanted" ] || [ "${#old}" != "${#wanted}" ] || rm -rf "$old"
done
say "it was started from $bundle"
