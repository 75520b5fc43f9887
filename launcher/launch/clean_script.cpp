#include "launcher/launch/clean_script.h"

#include <algorithm>
#include <charconv>

#include "launcher/launch/shell_quote.h"
#include "launcher/launch/start_script.h"

namespace dlaunch::launcher::launch {
namespace {

// Names begin with dlaunch_ so that nothing of the host's environment is meant. Fields of an answer
// are separated by tabs. A process belongs to a job and host when its environment says so (workers)
// or its command line does (holder and agent).
constexpr std::string_view kFunctions = R"sh(
LC_ALL=C; export LC_ALL
PATH="$PATH:/usr/bin:/bin"
dlaunch_uid=$(id -u)
dlaunch_is_of() {
  [ -O "/proc/$1" ] || return 1
  tr '\0' '\n' < "/proc/$1/environ" 2>/dev/null | grep -qxF "DLAUNCH_JOB=$2" &&
    tr '\0' '\n' < "/proc/$1/environ" 2>/dev/null | grep -qxF "DLAUNCH_HOST=$3" && return 0
  case "$(tr '\0' ' ' < "/proc/$1/cmdline" 2>/dev/null)" in
    dlaunch-agent*" --job $2 --host $3 "*) return 0 ;;
  esac
  return 1
}
dlaunch_find() {
  for dlaunch_entry in /proc/[0-9]*; do
    dlaunch_pid=${dlaunch_entry#/proc/}
    [ "$dlaunch_pid" = $$ ] || ! dlaunch_is_of "$dlaunch_pid" "$1" "$2" || echo "$dlaunch_pid"
  done
}
dlaunch_clean() {
  dlaunch_job=$1 dlaunch_host=$2
  shift 2
  dlaunch_pids=$(dlaunch_find "$dlaunch_job" "$dlaunch_host")
  for dlaunch_pid in $dlaunch_pids; do
    printf 'process\t%s\t%s\t%s\n' "$dlaunch_pid" "$dlaunch_job" \
      "$(tr '\0\t\n' '   ' < "/proc/$dlaunch_pid/cmdline" 2>/dev/null | head -c 200)"
  done
  if [ "$dlaunch_look_only" = 0 ] && [ -n "$dlaunch_pids" ]; then
    kill -TERM $dlaunch_pids 2>/dev/null
    dlaunch_left=50
    while [ "$dlaunch_left" -gt 0 ] && [ -n "$(dlaunch_find "$dlaunch_job" "$dlaunch_host")" ]; do
      dlaunch_left=$((dlaunch_left - 1))
      sleep 0.1
    done
    dlaunch_left=20
    while dlaunch_pids=$(dlaunch_find "$dlaunch_job" "$dlaunch_host") && [ -n "$dlaunch_pids" ]; do
      [ "$dlaunch_left" -gt 0 ] || break
      kill -KILL $dlaunch_pids 2>/dev/null
      dlaunch_left=$((dlaunch_left - 1))
      sleep 0.1
    done
    for dlaunch_pid in $dlaunch_pids; do printf 'stays\t%s\n' "$dlaunch_pid"; done
  fi
  for dlaunch_base in "$@"; do
    dlaunch_root=$dlaunch_base/dlaunch-$dlaunch_uid
    dlaunch_dir=$dlaunch_root/$dlaunch_job/$dlaunch_host
    [ -d "$dlaunch_dir" ] && [ ! -h "$dlaunch_dir" ] && [ ! -h "$dlaunch_root/$dlaunch_job" ] &&
      [ ! -h "$dlaunch_root" ] && [ -O "$dlaunch_root" ] || continue
    printf 'directory\t%s\t%s\n' "$dlaunch_dir" "$(du -sk "$dlaunch_dir" 2>/dev/null | cut -f1)"
    [ "$dlaunch_look_only" = 0 ] || continue
    rm -rf "$dlaunch_dir" 2>/dev/null
    [ ! -e "$dlaunch_dir" ] || printf 'kept\t%s\n' "$dlaunch_dir"
    rmdir "$dlaunch_root/$dlaunch_job" 2>/dev/null
  done
}
)sh";

std::vector<std::string_view> fields_of(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const auto tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

template <class Number>
Number number(std::string_view text) {
  Number value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void take(Leftovers& found, const std::vector<std::string_view>& fields) {
  const auto& kind = fields[0];
  if (kind == "process" && fields.size() == 4) {
    found.processes.push_back(
        {number<std::uint32_t>(fields[1]), std::string(fields[2]), std::string(fields[3])});
  } else if (kind == "directory" && fields.size() == 3) {
    found.directories.push_back({std::string(fields[1]), number<std::uint64_t>(fields[2])});
  } else if (kind == "stays" && fields.size() == 2) {
    for (auto& process : found.processes) {
      process.stays = process.stays || process.pid == number<std::uint32_t>(fields[1]);
    }
  } else if (kind == "kept" && fields.size() == 2) {
    for (auto& directory : found.directories) {
      directory.stays = directory.stays || directory.path == fields[1];
    }
  } else if (kind == "done") {
    found.complete = true;
  }
}

}  // namespace

std::string to_text(const CleanScript& script) {
  std::string text(kFunctions);
  text += "printf '\\n%s\\n' " + shell_quoted(magic_line(script.nonce)) + "\n";
  text += std::string("dlaunch_look_only=") + (script.dry_run ? "1" : "0") + "\n";
  for (const auto& target : script.targets) {
    text += "dlaunch_clean " + shell_quoted(target.job) + " " + shell_quoted(target.host) + " ";
    text += target.scratch.empty() ? "/var/tmp /tmp \"$HOME/.cache\""
                                   : shell_quoted_path(target.scratch);
    text += "\n";
  }
  return text + "printf 'done\\n'\nexit 0\n";
}

Leftovers parse_leftovers(std::string_view output, const std::string& nonce) {
  Leftovers found;
  const auto begin = output.find("\n" + magic_line(nonce) + "\n");
  if (begin == std::string_view::npos) return found;
  output.remove_prefix(output.find('\n', begin + 1) + 1);
  while (!output.empty()) {
    const auto end = std::min(output.find('\n'), output.size());
    take(found, fields_of(output.substr(0, end)));
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  return found;
}

std::string say_leftovers(const Leftovers& leftovers, bool dry_run) {
  constexpr std::size_t kNamedMax = 5;
  if (leftovers.empty()) return "nothing is left";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (const auto count = leftovers.processes.size(); count > 0) {
    std::string names;
    for (std::size_t i = 0; i < std::min(count, kNamedMax); ++i) {
      const auto& process = leftovers.processes[i];
      names += (names.empty() ? "" : ", ") + std::to_string(process.pid) + " " + process.command;
      if (process.stays) names += " (does not end: it sleeps in the kernel)";
    }
    if (count > kNamedMax) names += ", …";
    add(std::string(dry_run ? "would end " : "ended ") + std::to_string(count) +
        (count == 1 ? " process: " : " processes: ") + names);
  }
  for (const auto& directory : leftovers.directories) {
    add(std::string(directory.stays ? "could not remove "
                    : dry_run       ? "would remove "
                                    : "removed ") +
        directory.path + " (" + std::to_string(directory.kibibytes) + " KiB)");
  }
  return text;
}

}  // namespace dlaunch::launcher::launch
