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
  if (turned) return judge_all(id);
  auto& known = hosts_.at(id);
  known.verdict = judge(known);
  return {{id, known.verdict}};
}

std::vector<std::pair<HostId, Preflight::Verdict>> Preflight::judge_all(
    std::optional<HostId> told) {
  std::vector<std::pair<HostId, Verdict>> verdicts;
  for (auto& [id, known] : hosts_) {
    auto verdict = judge(known);
    if (id == told || verdict != known.verdict) verdicts.emplace_back(id, verdict);
    known.verdict = std::move(verdict);
  }
  return verdicts;
}

void Preflight::settle(std::set<HostId> trusted) {
  settled_ = true;
  trusted_ = std::move(trusted);
}

std::vector<std::pair<HostId, Preflight::Verdict>> Preflight::lost(HostId id) {
  if (trusted_.erase(id) == 0 || !trusted_.empty()) return {};
  const bool heard = std::ranges::any_of(
      references_, [this](const auto& entry) { return !own_.contains(entry.first); });
  if (!heard) return start_over();
  // What only others need, like a host's own trainer.
  for (const auto& [path, copies] : copies_) (void)choose_reference(path);
  return judge_all(std::nullopt);
}

std::vector<std::pair<HostId, Preflight::Verdict>> Preflight::start_over() {
  settled_ = false;
  trusted_.clear();
  for (const auto& [path, copies] : copies_) (void)choose_reference(path);
  return judge_all(std::nullopt);
}

bool Preflight::may_choose(const Copy& copy) const {
  return trusted_.empty() || std::any_of(copy.hosts.begin(), copy.hosts.end(),
                                         [this](HostId id) { return trusted_.contains(id); });
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
    auto copies = copies_[path];
    std::erase_if(copies, [this](const Copy& copy) { return !may_choose(copy); });
    if (copies.empty()) return false;
    // Of two that as many hosts have, that of the host named first in the hosts file.
    const auto most =
        std::max_element(copies.begin(), copies.end(), [](const Copy& one, const Copy& other) {
          if (one.hosts.size() != other.hosts.size()) return one.hosts.size() < other.hosts.size();
          return *other.hosts.begin() < *one.hosts.begin();
        });
    chosen = {most->content, hosts_.at(*most->hosts.begin()).name};
  }
  const bool turned =
      known == references_.end() ? !trusted_.empty() : known->second.content != chosen.content;
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
    const auto found = references_.find(file.path());
    if (found == references_.end()) {
      verdict.fit = false;
      verdict.sentence = file.path() + " is compared once a host that trains has said what it has";
      return verdict;
    }
    const auto& reference = found->second;
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

}  // namespace dlaunch::launcher::controller
