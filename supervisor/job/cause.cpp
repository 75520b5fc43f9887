#include "supervisor/job/cause.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "supervisor/job/signature.h"

namespace dlaunch::supervisor::job {
namespace {

constexpr int kSigabrt = 6;
constexpr int kCommandNotFound = 127;  // what a shell returns for it

std::string who(std::uint32_t rank, const std::string& host) {
  return "rank " + std::to_string(rank) + " on " + host;
}

std::vector<std::string> lines_of(const protocol::WorkerExited& exited) {
  std::vector<std::string> lines(exited.last_lines().begin(), exited.last_lines().end());
  if (!exited.error_message().empty()) lines.push_back(exited.error_message());
  return lines;
}

/// A shell or container between the agent and the program returns 128 + the signal that ended it.
int signal_in(int code) {
  constexpr int kSignalBase = 128, kSignalMax = 64;
  return code > kSignalBase && code <= kSignalBase + kSignalMax ? code - kSignalBase : 0;
}

std::string end_of(const protocol::WorkerExited& exited) {
  if (exited.out_of_memory()) return "was ended by the kernel: out of memory";
  if (exited.signal() != 0) return "was killed by " + signal_name(exited.signal());
  if (exited.code() == 0) return "ended before the last step";
  auto text = "ended with exit code " + std::to_string(exited.code());
  if (const int signal = signal_in(exited.code()); signal != 0) {
    text += ", which is what a shell makes of " + signal_name(signal);
  }
  return text;
}

/// An exit may be a consequence, or its last lines name the cause.
void take_signature(Happening& happening) {
  const auto* const signature = find_signature(happening.last_lines);
  if (signature == nullptr) return;
  happening.weight = signature->weight;
  if (*signature->cause != '\0') happening.cause = signature->cause;
}

}  // namespace

std::string signal_name(int number) {
  constexpr std::array<std::pair<int, const char*>, 13> kNames = {{{1, "SIGHUP"},
                                                                   {2, "SIGINT"},
                                                                   {3, "SIGQUIT"},
                                                                   {4, "SIGILL"},
                                                                   {6, "SIGABRT"},
                                                                   {7, "SIGBUS"},
                                                                   {8, "SIGFPE"},
                                                                   {9, "SIGKILL"},
                                                                   {11, "SIGSEGV"},
                                                                   {13, "SIGPIPE"},
                                                                   {14, "SIGALRM"},
                                                                   {15, "SIGTERM"},
                                                                   {24, "SIGXCPU"}}};
  for (const auto& [known, name] : kNames) {
    if (known == number) return name;
  }
  return "signal " + std::to_string(number);
}

std::optional<Happening> judge_exit(const protocol::WorkerExited& exited, const std::string& host,
                                    bool trainer) {
  if (exited.ordered()) return std::nullopt;
  const bool clean = exited.code() == 0 && exited.signal() == 0;
  if (clean && (!trainer || exited.finished())) return std::nullopt;
  Happening happening;
  const bool by_signal = exited.signal() != 0 || signal_in(exited.code()) != 0;
  happening.cause = exited.out_of_memory() ? "out_of_memory"
                    : trainer || by_signal ? "worker_crashed"
                                           : "program_failed";
  // SIGABRT is how a runtime ends a process that has lost a peer, so it explains no more than an
  // exit code does.
  const bool struck = exited.signal() != 0 && exited.signal() != kSigabrt;
  happening.weight = exited.out_of_memory() || struck ? Weight::host_fact : Weight::ended;
  happening.rank = Rank{exited.rank()};
  happening.what =
      who(exited.rank(), host) + " (pid " + std::to_string(exited.pid()) + ") " + end_of(exited);
  if (exited.has_step()) happening.what += " after step " + std::to_string(exited.step());
  happening.last_lines = lines_of(exited);
  happening.code = exited.code();
  happening.signal = exited.signal();
  if (happening.weight == Weight::ended && !clean) take_signature(happening);
  return happening;
}

bool is_port_conflict(const protocol::WorkerExited& exited, std::uint32_t port) {
  if (port == 0 || exited.code() == 0) return false;
  const auto lines = lines_of(exited);
  const auto says = [&](const std::string& text) {
    return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  };
  const bool taken = says("EADDRINUSE") || says("ddress already in use") || says("[Errno 98]");
  return taken && says(std::to_string(port));
}

Happening judge_failing(const protocol::WorkerFailing& failing, const std::string& host) {
  Happening happening;
  const auto& category = failing.category();
  happening.weight = Weight::exception;
  happening.cause = "worker_crashed";
  if (category == "peer_lost") {
    happening.weight = Weight::cascade;
    happening.cause = "unknown";
  } else if (category == "user_error" || category == "storage" || category == "bad_numbers" ||
             category == "config_error" || category == "out_of_memory") {
    happening.cause = category;
  } else if (category == kCheckpointDamaged) {
    happening.cause = "storage";
  }
  happening.rank = Rank{failing.rank()};
  happening.what = who(failing.rank(), host) + ": " + failing.reason();
  return happening;
}

std::optional<Happening> judge_finding(const protocol::Finding& finding, const std::string& host) {
  Happening happening;
  happening.weight = Weight::host_fact;
  if (finding.kind() == "spawn_failed") {
    happening.cause = "user_error";
    happening.code = kCommandNotFound;
    happening.last_lines = {finding.sentence()};
  } else if (finding.kind() == "port_conflict" || finding.kind() == "storage") {
    happening.cause = finding.kind();
  } else if (finding.kind() == "undead") {
    happening.weight = Weight::cascade;  // seen when something else has ended its generation
    happening.cause = "unknown";
  } else {
    return std::nullopt;
  }
  if (finding.has_rank()) happening.rank = Rank{finding.rank()};
  happening.what = host + ": " + finding.sentence();
  return happening;
}

void explain(Happening& exit, std::span<const Happening> before) {
  if (exit.weight != Weight::ended) return;
  for (const auto& earlier : before) {
    if (earlier.host != exit.host || earlier.rank != exit.rank) continue;
    if (earlier.weight == Weight::cascade) {
      exit.weight = Weight::cascade;
    } else if (earlier.weight == Weight::exception) {
      exit.cause = earlier.cause;
      exit.what = earlier.what;
      exit.happened_at = earlier.happened_at;
    }
  }
}

std::size_t judge_cause(std::span<const Happening> happenings) {
  DL_CHECK(!happenings.empty(), "an incident has at least one happening");
  std::size_t best = 0;
  for (std::size_t i = 1; i < happenings.size(); ++i) {
    const auto& challenger = happenings[i];
    const auto& holder = happenings[best];
    if (challenger.weight != holder.weight ? challenger.weight > holder.weight
                                           : challenger.happened_at < holder.happened_at) {
      best = i;
    }
  }
  return best;
}

}  // namespace dlaunch::supervisor::job
