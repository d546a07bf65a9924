# User data of the example fleet: installs what is missing of NVIDIA driver, Docker with NVIDIA's toolkit, and the
# CloudWatch agent. The default image has nearly all of it; another Amazon Linux 2023 image may have nothing.
#
# Usage: install_gpu_host.sh [PARAMETER]    (name of the SSM parameter with the agent's configuration, or nothing)
# What goes wrong stands in /var/log/cloud-init-output.log, and ends it at once; a parameter that is not there does not.
set -eu

parameter=${1:-}
release=/etc/os-release
ctl=/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl

say() { printf 'install-gpu-host: %s\n' "$*"; }

# shellcheck disable=SC1090 # a file of the system
. "$release"
if [ "${ID:-}:${VERSION_ID:-}" != amzn:2023 ]; then
  say "this is ${ID:-unknown} ${VERSION_ID:-}; the script knows Amazon Linux 2023 only" >&2
  exit 1
fi

if nvidia-smi -L >/dev/null 2>&1; then
  say "the driver works"
else
  kernel=$(uname -r)
  case $kernel in
    6.1.*) packages=kernel ;;
    *) packages=kernel$(printf '%s' "$kernel" | cut -d . -f 1-2) ;;
  esac
  dnf install -y nvidia-release dkms "$packages-devel-$kernel" "$packages-modules-extra-$kernel"
  dnf install -y nvidia-open nvidia-fabric-manager
  modprobe nvidia
  # NVSwitch machines only; on others the service ends by itself, which is no error of this script.
  systemctl enable --now nvidia-fabricmanager || say "Fabric Manager does not run here"
  nvidia-smi -L
fi

command -v docker >/dev/null || dnf install -y docker
systemctl enable --now docker
if ! command -v nvidia-ctk >/dev/null; then
  dnf install -y nvidia-release
  dnf install -y nvidia-container-toolkit
fi
if ! docker info | grep -q 'Runtimes:.*nvidia'; then
  nvidia-ctk runtime configure --runtime=docker
  systemctl restart docker
fi

[ -x "$ctl" ] || dnf install -y amazon-cloudwatch-agent
if [ -n "$parameter" ]; then
  # The stack with the parameter may come later; its association then configures the agent.
  "$ctl" -a fetch-config -m ec2 -c "ssm:$parameter" -s ||
    say "the agent is not configured: $parameter cannot be read; deploy stacks/telemetry.yaml here" >&2
fi
say "done"
