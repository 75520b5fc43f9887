#include "launcher/launch/start_script.h"

#include <string_view>

#include "launcher/launch/shell_quote.h"

namespace dlaunch::launcher::launch {
namespace {

// Names begin with dlaunch_ so that nothing of the host's environment is meant. Fields of an answer
// are separated by tabs. A shell may read ahead on stdin, so that everything is said in turns: the
// other side sends nothing before it is asked.

// A start that finds its agent there. It starts no process but the agent: each would cost more time
// than all the rest. The directory was made by the long way with mode 0700, so that only its owner
// can have opened it to others; and then still nobody else can put a file of ours there. The agent
// looks at the modes once more, and at the space.
constexpr std::string_view kQuickFunctions = R"sh(
dlaunch_look_around() {
  dlaunch_uid=
  while read -r dlaunch_key dlaunch_x dlaunch_y dlaunch_z; do
    case $dlaunch_key in Uid:) dlaunch_uid=$dlaunch_y; break ;; esac
  done < /proc/self/status
  read -r dlaunch_machine < /proc/sys/kernel/arch
}
dlaunch_logout_kills() {
  [ -n "$XDG_SESSION_ID" ] && [ "$dlaunch_uid" != 0 ] &&
    grep -qsi '^[[:space:]]*KillUserProcesses[[:space:]]*=[[:space:]]*\(yes\|true\|on\|1\)' \
      /etc/systemd/logind.conf /etc/systemd/logind.conf.d/*.conf
}
dlaunch_quick() {
  dlaunch_dir=$1/dlaunch-$dlaunch_uid
  dlaunch_agent=$dlaunch_dir/bin/dlaunch-agent-$dlaunch_hash
  if [ -n "$dlaunch_uid" ] && [ -n "$dlaunch_hash" ] && [ ! -h "$dlaunch_dir" ] &&
    [ -O "$dlaunch_dir" ] && [ ! -h "$dlaunch_agent" ] && [ -O "$dlaunch_agent" ] &&
    [ -x "$dlaunch_agent" ] && ! dlaunch_logout_kills && cd "$dlaunch_dir"; then
    printf 'ready\t%s\t%s\t%s\t1\n' "$dlaunch_machine" "$dlaunch_uid" "$dlaunch_dir"
    exec "$dlaunch_agent" plant --job "$dlaunch_job" --host "$dlaunch_host"
  fi
}
dlaunch_look_around 2>/dev/null || dlaunch_machine=$(uname -m)
)sh";

constexpr std::string_view kFunctions = R"sh(
dlaunch_mask=$(umask)
dlaunch_locale=${LC_ALL-}
dlaunch_path=$PATH
LC_ALL=C; export LC_ALL
PATH="$PATH:/usr/bin:/bin"
umask 077
dlaunch_uid=$(id -u)
dlaunch_one_line() { printf '%s' "$*" | tr '\n\t' '  ' | head -c 500; }
dlaunch_failed() {
  printf 'failed\t%s\t%s\t%s\n' "$1" "$2" "$(dlaunch_one_line "$3")"
  exit 1
}
dlaunch_blame() {
  dlaunch_detail=$1
  case $1 in
    *[Nn]o\ space*|*[Qq]uota*) dlaunch_cause=scratch_full ;;
    *) dlaunch_cause=scratch_read_only ;;
  esac
  return 1
}
dlaunch_is_whole() {
  [ -x "$dlaunch_agent" ] && [ "$(wc -c < "$dlaunch_agent")" -eq "$dlaunch_size" ]
}
dlaunch_try() {
  dlaunch_dir=$1/dlaunch-$dlaunch_uid
  dlaunch_cause=scratch_foreign
  dlaunch_detail="$dlaunch_dir is a symbolic link"
  [ -h "$dlaunch_dir" ] && return 1
  if [ ! -d "$dlaunch_dir" ]; then
    dlaunch_said=$(mkdir "$dlaunch_dir" 2>&1) || [ -d "$dlaunch_dir" ] ||
      { dlaunch_blame "$dlaunch_said"; return 1; }
  fi
  dlaunch_detail=$(ls -ld "$dlaunch_dir" 2>&1)
  [ -O "$dlaunch_dir" ] || return 1
  case $dlaunch_detail in drwx--[-S]---*) ;; *) return 1 ;; esac
  dlaunch_said=$(mkdir -p "$dlaunch_dir/bin" 2>&1) || { dlaunch_blame "$dlaunch_said"; return 1; }
  dlaunch_agent=$dlaunch_dir/bin/dlaunch-agent-$dlaunch_hash
  dlaunch_have=0
  dlaunch_is_whole && dlaunch_have=1
  dlaunch_probe=$dlaunch_dir/bin/.probe-$$
  dlaunch_said=$( { echo '#!/bin/sh' | cat > "$dlaunch_probe" && chmod 700 "$dlaunch_probe"; } 2>&1)
  if [ ! -s "$dlaunch_probe" ]; then
    rm -f "$dlaunch_probe"
    dlaunch_blame "$dlaunch_said"
    return 1
  fi
  dlaunch_said=$("$dlaunch_probe" 2>&1)
  dlaunch_code=$?
  rm -f "$dlaunch_probe"
  dlaunch_cause=scratch_noexec
  dlaunch_detail=$dlaunch_said
  [ "$dlaunch_code" -eq 0 ] || return 1
  dlaunch_free=$(df -Pk "$dlaunch_dir" 2>/dev/null |
    { read -r dlaunch_x; read -r dlaunch_x dlaunch_x dlaunch_x dlaunch_y dlaunch_x
      echo "$dlaunch_y"; })
  dlaunch_need=1024
  [ "$dlaunch_have" = 1 ] || dlaunch_need=$((dlaunch_need + dlaunch_size / 1024))
  case $dlaunch_free in
    ''|*[!0-9]*) ;;
    *) if [ "$dlaunch_free" -lt "$dlaunch_need" ]; then
         dlaunch_cause=scratch_full
         dlaunch_detail="$dlaunch_free KiB free, $dlaunch_need KiB needed"
         return 1
       fi ;;
  esac
  return 0
}
dlaunch_take() {
  dlaunch_part=$dlaunch_dir/bin/.part-$$
  dlaunch_said=$( { head -c "$dlaunch_size" > "$dlaunch_part"; } 2>&1)
  if [ "$(wc -c < "$dlaunch_part")" -ne "$dlaunch_size" ]; then
    rm -f "$dlaunch_part"
    dlaunch_blame "$dlaunch_said"
    [ "$dlaunch_cause" = scratch_full ] || dlaunch_cause=agent_failed
    dlaunch_failed "$dlaunch_cause" "$dlaunch_dir" "the copy is incomplete: $dlaunch_said"
  fi
  chmod 700 "$dlaunch_part"
  # The start of another host on this machine may have been quicker: what runs is not replaced.
  if ln "$dlaunch_part" "$dlaunch_agent" 2>/dev/null || dlaunch_is_whole; then
    rm -f "$dlaunch_part"
  else
    mv -f "$dlaunch_part" "$dlaunch_agent" ||
      dlaunch_failed agent_failed "$dlaunch_dir" "the copy cannot be put in its place"
  fi
  printf 'copied\n'
}
dlaunch_start() {
  dlaunch_first_cause=
  for dlaunch_base in "$@"; do
    case $dlaunch_base in */.cache) mkdir -p "$dlaunch_base" 2>/dev/null ;; esac
    dlaunch_try "$dlaunch_base" && break
    if [ -z "$dlaunch_first_cause" ]; then
      dlaunch_first_cause=$dlaunch_cause
      dlaunch_first_dir=$dlaunch_dir
      dlaunch_first_detail=$dlaunch_detail
    fi
    dlaunch_dir=
  done
  [ -n "$dlaunch_dir" ] ||
    dlaunch_failed "$dlaunch_first_cause" "$dlaunch_first_dir" "$dlaunch_first_detail"
  printf 'ready\t%s\t%s\t%s\t%s\n' \
    "$dlaunch_machine" "$dlaunch_uid" "$dlaunch_dir" "$dlaunch_have"
  [ "$dlaunch_have" = 1 ] || dlaunch_take
  dlaunch_scope=
  if dlaunch_logout_kills; then
    if systemd-run --user --scope --quiet -- true < /dev/null > /dev/null 2>&1; then
      dlaunch_scope="$(command -v systemd-run) --user --scope --quiet --"
      dlaunch_said='the agent runs in a systemd scope of its own, which needs lingering to last'
    else
      dlaunch_said='the agent may end with this login: systemd-run --user does not work there'
    fi
    printf 'notice\tlogind ends the processes of a login (KillUserProcesses); %s\n' "$dlaunch_said"
  fi
  # What workers inherit is the login's own again.
  umask "$dlaunch_mask"
  PATH=$dlaunch_path
  if [ -n "$dlaunch_locale" ]; then LC_ALL=$dlaunch_locale; else unset LC_ALL; fi
  cd "$dlaunch_dir" && exec $dlaunch_scope "$dlaunch_agent" plant \
    --job "$dlaunch_job" --host "$dlaunch_host"
}
)sh";

}  // namespace

std::string magic_line(const std::string& nonce) { return "dlaunch-start 1 " + nonce; }

std::string to_text(const StartScript& script) {
  std::string text(kQuickFunctions);
  // A line of its own: what a login script printed last may lack its newline.
  text += "printf '\\n%s\\n' " + shell_quoted(magic_line(script.nonce)) + "\n";
  text += "dlaunch_job=" + shell_quoted(script.job) + " dlaunch_host=" + shell_quoted(script.host) +
          "\n";
  text += "dlaunch_hash= dlaunch_size=0\ncase $dlaunch_machine in\n";
  for (const AgentBinary& agent : script.agents) {
    text += "  " + shell_quoted(agent.machine) + ") dlaunch_hash=" + shell_quoted(agent.hash) +
            " dlaunch_size=" + std::to_string(agent.size_bytes) + " ;;\n";
  }
  text += "esac\n";
  if (!script.thorough) {
    text += "dlaunch_quick ";
    text += script.scratch.empty() ? "/var/tmp" : shell_quoted_path(script.scratch);
    text += "\n";
  }
  return text + "printf 'more\\n'\n";
}

std::string rest_of(const StartScript& script) {
  std::string text(kFunctions);
  text +=
      "[ -n \"$dlaunch_hash\" ] ||\n"
      "  dlaunch_failed wrong_architecture '' \"the host is $dlaunch_machine\"\n";
  text += "dlaunch_start ";
  text +=
      script.scratch.empty() ? "/var/tmp /tmp \"$HOME/.cache\"" : shell_quoted_path(script.scratch);
  return text + "\n";
}

}  // namespace dlaunch::launcher::launch
