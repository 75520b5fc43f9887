#include "launcher/controller/preflight.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dlaunch::launcher::controller {
namespace {

constexpr std::array<std::string_view, 5> kFileChecks = {"trainer", "data", "command", "directory",
                                                         "file"};

bool is_about_files(std::string_view check) {
  for (const auto known : kFileChecks) {
    if (check == known) return true;
  }
  return false;
}

}  // namespace

Preflight::Verdict Preflight::judge(const std::string& host, const protocol::Ready& ready,
                                    std::uint32_t gpus) {
  Verdict verdict;
  if (ready.facts().gpus() < gpus) {
    verdict.fit = false;
    verdict.sentence = "has " + std::to_string(ready.facts().gpus()) + " GPUs, the hosts file " +
                       "expects " + std::to_string(gpus) + "; look at its driver";
  }
  for (const auto& failure : ready.failures()) {
    verdict.fit = false;
    verdict.by_files = verdict.by_files || is_about_files(failure.check());
    verdict.sentence += (verdict.sentence.empty() ? "" : "; ") + failure.sentence();
  }
  if (!verdict.fit) return verdict;
  for (const auto& file : ready.files()) {
    if (file.hash().empty()) continue;
    const auto [found, first] = references_.try_emplace(file.path(), Reference{host, file});
    const auto& reference = found->second;
    if (first || (reference.fact.hash() == file.hash() && reference.fact.bytes() == file.bytes())) {
      continue;
    }
    verdict.fit = false;
    verdict.by_files = true;
    verdict.sentence +=
        (verdict.sentence.empty() ? "" : "; ") + file.path() + " is not the same as on " +
        reference.host + " (" + std::to_string(file.bytes()) + " bytes here, " +
        std::to_string(reference.fact.bytes()) + " there); copy the same file to all hosts";
  }
  return verdict;
}

std::optional<std::string> data_of(const protocol::JobSpec& job, const protocol::Ready& ready) {
  for (const auto& check : job.checks()) {
    for (const auto& file : ready.files()) {
      if (check.check() != "data" || file.path() != check.path() || file.hash().empty()) continue;
      return "{\"bytes\":" + std::to_string(file.bytes()) + ",\"hash\":\"" + file.hash() + "\"}";
    }
  }
  return std::nullopt;
}

Generation newest_running(const protocol::Hello& hello) {
  Generation running;
  for (const auto& worker : hello.workers()) {
    running = std::max(running, Generation{worker.generation()});
  }
  return running;
}

}  // namespace dlaunch::launcher::controller
