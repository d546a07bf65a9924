# What GPU Governor asks of an instance that is about to be taken away: start the owner's hook, and be gone.
# The hook saves what can be saved (a checkpoint, a queue entry); this script never waits for it.
#
# Usage: on_interruption.sh REASON nothing|sigterm SECONDS_LEFT
#   REASON        why, for the hook's environment (GPU_GOVERNOR_REASON)
#   second        what to do where no hook can be run: nothing, or SIGTERM to the processes on the GPUs
#   SECONDS_LEFT  after so many seconds the hook gets SIGTERM itself (GPU_GOVERNOR_SECONDS_LEFT)
# Exit status: 0 done, or nothing to do; 2 wrong arguments; 3 the hook was refused, because somebody other
# than root could have written it; 4 the processes on the GPUs could not be listed; 5 the hook could not start.
set -uf

reason=${1:-}
when_no_hook=${2:-}
seconds_left=${3:-}
hook=/etc/gpu-governor/on-interruption
owner=0
log=/var/log/gpu-governor/on-interruption.log
lock=/run/gpu-governor/on-interruption.lock

say() { printf 'on-interruption: %s\n' "$*"; }

# Why the hook must not be run as root; prints nothing when it may.
refusal() {
  for path in "${hook%/*}" "$hook"; do
    if [ -L "$path" ]; then
      echo "$path is a symbolic link"
    elif [ "$(stat -c %u "$path")" != "$owner" ]; then
      echo "$path does not belong to root: chown root $path"
    else
      case $(stat -c %a "$path") in
        *[2367] | *[2367]?) echo "$path can be written by others than root: chmod go-w $path" ;;
      esac
    fi
  done
  [ -f "$hook" ] || echo "$hook is not a regular file"
  [ -x "$hook" ] || echo "$hook is not executable: chmod u+x $hook"
}

# In a session of its own, so that it outlives this command. The lock: two warnings are one run.
start_hook() {
  mkdir -p "${log%/*}" "${lock%/*}" || return 5
  taken=0
  flock -n -E 75 "$lock" true || taken=$?
  case $taken in
    0) ;;
    75) say "the hook is running already, since an earlier warning" && return 0 ;;
    *) say "the lock $lock cannot be taken; the hook was not started" >&2 && return 5 ;;
  esac
  GPU_GOVERNOR_REASON=$reason GPU_GOVERNOR_SECONDS_LEFT=$seconds_left \
    setsid flock -n -o "$lock" timeout -k 5 "$seconds_left" "$hook" </dev/null >>"$log" 2>&1 &
  say "the hook is started, for $seconds_left s at most; its output goes to $log"
}

# The driver's own helpers are left alone: without an MPS server its clients die before they save anything.
terminate_gpu_processes() {
  if ! listing=$(timeout -k 1 10 nvidia-smi --query-compute-apps=pid --format=csv,noheader,nounits); then
    say "nvidia-smi could not list the processes on the GPUs; nothing was sent"
    return 4
  fi
  sent=0
  for pid in $(printf '%s\n' "$listing" | sort -u); do
    case $pid in
      0 | 1 | *[!0-9]*) continue ;;
    esac
    name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue # it has ended meanwhile
    case $name in
      nvidia-* | nv-* | dcgm*) continue ;;
    esac
    if kill -TERM "$pid" 2>/dev/null; then
      sent=$((sent + 1))
      say "SIGTERM sent to $pid ($name)"
    fi
  done
  say "SIGTERM sent to $sent processes"
}

case $when_no_hook:$seconds_left in
  nothing: | sigterm: | *:0* | *:*[!0-9]*) wrong=yes ;;
  nothing:* | sigterm:*) wrong=no ;;
  *) wrong=yes ;;
esac
if [ -z "$reason" ] || [ "$wrong" = yes ]; then
  say "usage: on_interruption.sh REASON nothing|sigterm SECONDS_LEFT" >&2
  exit 2
fi

status=0
if [ -e "$hook" ] || [ -L "$hook" ]; then
  refused=$(refusal)
  if [ -z "$refused" ]; then
    start_hook
    exit $?
  fi
  say "the hook is refused: $refused" >&2
  status=3
fi
if [ "$when_no_hook" = sigterm ]; then
  terminate_gpu_processes || status=$?
elif [ "$status" = 0 ]; then
  say "there is no $hook; nothing to do"
fi
exit "$status"
