#include "launcher/controller/preflight.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dlaunch::launcher::controller {
namespace {

constexpr std::array<std::string_view, 5> kFileChecks = {"trainer", "data", "command", "directory",
                                                         "program"};

bool is_about_files(std::string_view check) {
  for (const auto known : kFileChecks) {
    if (check == known) return true;
  }
  return false;
}

}  // namespace

std::vector<std::pair<HostId, Preflight::Verdict>> Preflight::take(HostId id,
                                                                   const std::string& host,
                                                                   const protocol::Ready& ready,
                                                                   std::uint32_t gpus) {
  forget(id);
  hosts_[id] = Host{host, ready, gpus, {}};
  bool turned = false;
  for (const auto& file : ready.files()) {
    if (file.hash().empty()) continue;
    count(id, file);
    turned = choose_reference(file.path()) || turned;
  }
  std::vector<std::pair<HostId, Verdict>> verdicts;
  const auto begin = turned ? hosts_.begin() : hosts_.find(id);
  const auto end = turned ? hosts_.end() : std::next(begin);
  for (auto entry = begin; entry != end; ++entry) {
    auto& [other, known] = *entry;
    auto verdict = judge(known);
    if (other == id || verdict != known.verdict) verdicts.emplace_back(other, verdict);
    known.verdict = std::move(verdict);
  }
  return verdicts;
}

void Preflight::forget(HostId id) {
  for (auto& [path, copies] : copies_) {
    for (auto& copy : copies) copy.hosts.erase(id);
    std::erase_if(copies, [](const Copy& copy) { return copy.hosts.empty(); });
  }
}

void Preflight::count(HostId id, const protocol::FileFact& file) {
  const Content content{file.bytes(), file.hash()};
  auto& copies = copies_[file.path()];
  auto found = std::find_if(copies.begin(), copies.end(),
                            [&](const Copy& copy) { return copy.content == content; });
  if (found == copies.end()) found = copies.insert(found, Copy{content, {}});
  found->hosts.insert(id);
}

bool Preflight::choose_reference(const std::string& path) {
  const auto known = references_.find(path);
  if (settled_ && known != references_.end()) return false;
  Reference chosen;
  if (const auto own = own_.find(path); own != own_.end()) {
    chosen = {own->second, "the machine of the controller"};
  } else {
    const auto& copies = copies_.at(path);
    // Of two that as many hosts have, that of the host named first in the hosts file.
    const auto most =
        std::max_element(copies.begin(), copies.end(), [](const Copy& one, const Copy& other) {
          if (one.hosts.size() != other.hosts.size()) return one.hosts.size() < other.hosts.size();
          return *other.hosts.begin() < *one.hosts.begin();
        });
    chosen = {most->content, hosts_.at(*most->hosts.begin()).name};
  }
  const bool turned = known != references_.end() && known->second.content != chosen.content;
  references_[path] = std::move(chosen);
  return turned;
}

Preflight::Verdict Preflight::judge(const Host& host) const {
  Verdict verdict;
  const auto& ready = host.ready;
  if (ready.facts().gpus() < host.gpus) {
    verdict.fit = false;
    verdict.sentence = "has " + std::to_string(ready.facts().gpus()) + " GPUs, the hosts file " +
                       "expects " + std::to_string(host.gpus) + "; look at its driver";
  }
  for (const auto& failure : ready.failures()) {
    verdict.fit = false;
    verdict.by_files = verdict.by_files || is_about_files(failure.check());
    verdict.sentence += (verdict.sentence.empty() ? "" : "; ") + failure.sentence();
  }
  if (!verdict.fit) return verdict;
  for (const auto& file : ready.files()) {
    if (file.hash().empty()) continue;
    const auto& reference = references_.at(file.path());
    if (reference.content == Content{file.bytes(), file.hash()}) continue;
    verdict.fit = false;
    verdict.by_files = true;
    verdict.sentence +=
        (verdict.sentence.empty() ? "" : "; ") + file.path() + " is not the same as on " +
        reference.where + " (" + std::to_string(file.bytes()) + " bytes here, " +
        std::to_string(reference.content.bytes) + " there); copy the same file to all hosts";
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
    if (worker.alive()) running = std::max(running, Generation{worker.generation()});
  }
  return running;
}

}  // namespace dlaunch::launcher::controller
