# Gives the CloudWatch agent its GPU configuration and starts it; restarts nothing where all is well.
# State Manager runs it again and again, so what could not be done today is done once its cause is gone.
#
# Usage: configure_agent.sh PARAMETER    (name of the SSM parameter that holds the configuration)
# Exit status: 0 the agent runs with it; 2 wrong arguments; 3 no driver; 4 no agent; 5 the host has an agent
# configuration or a publisher of its own, which is left alone; 6 the agent refused the configuration or did not start.
set -u

parameter=${1:-}
agent=/opt/aws/amazon-cloudwatch-agent
driver=/usr/bin/nvidia-smi # the agent looks for it nowhere else, and does not start without it
applied=/var/lib/gpu-governor/agent-configuration.cksum

ctl=$agent/bin/amazon-cloudwatch-agent-ctl
configurations=$agent/etc/amazon-cloudwatch-agent.d

say() { printf 'configure-agent: %s\n' "$*"; }
stop() {
  status=$1
  shift
  say "$*" >&2
  exit "$status"
}

# Configurations that are neither ours nor the agent's own default.
foreign() {
  for path in "$configurations"/* "$agent/etc/amazon-cloudwatch-agent.json"; do
    case ${path##*/} in
      "ssm_$parameter" | default | '*' | *.tmp) ;;
      *) [ ! -e "$path" ] || echo "$path" ;;
    esac
  done
}
runs() { [ "$(systemctl is-active amazon-cloudwatch-agent)" = active ]; }
fingerprint() { cat "$configurations"/* | cksum; }

case $parameter in
  AmazonCloudWatch-*) ;;
  *) stop 2 "usage: configure_agent.sh PARAMETER, whose name begins with AmazonCloudWatch-" ;;
esac
[ -x "$driver" ] ||
  stop 3 "there is no $driver: install the NVIDIA driver, or take the tag away from the instance"
timeout -k 5 60 "$driver" -L >/dev/null ||
  stop 3 "$driver fails: the driver does not work; see the kernel log"
[ -x "$ctl" ] ||
  stop 4 "the agent is not installed yet; the install association of this stack does that"
# Each GPU would be counted twice.
[ "$(systemctl is-enabled gpu-metrics-publisher 2>/dev/null)" != enabled ] ||
  stop 5 "left alone, as gpu-metrics-publisher runs here: disable it, or take the tag away from the instance"
others=$(foreign)
[ -z "$others" ] ||
  stop 5 "left alone, as the host has a configuration of its own ($others): add nvidia_gpu to it as in" \
    "parameter $parameter, or remove it"

"$ctl" -a fetch-config -m ec2 -c "ssm:$parameter" >&2 ||
  stop 6 "the configuration in $parameter cannot be used"
if runs && [ "$(cat "$applied" 2>/dev/null)" = "$(fingerprint)" ]; then
  say "the agent runs with $parameter; nothing was changed"
  exit 0
fi
"$ctl" -a stop >&2 || stop 6 "the agent did not stop"
"$ctl" -a start >&2 || stop 6 "the agent did not start"
runs || stop 6 "the agent does not run; see $agent/logs/amazon-cloudwatch-agent.log"
mkdir -p "${applied%/*}" || stop 6 "${applied%/*} could not be made"
fingerprint >"$applied" || stop 6 "$applied could not be written"
say "the agent was started with $parameter"
