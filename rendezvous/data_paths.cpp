#include "rendezvous/data_paths.h"

#include <algorithm>
#include <utility>

namespace dlaunch::rendezvous {
namespace {

// One failing pair says nothing about which end it is.
constexpr std::size_t kOthersMin = 2;

}  // namespace

DataPaths::Words::iterator DataPaths::place_of(Words& words, HostId prober) {
  return std::find_if(words.begin(), words.end(),
                      [prober](const auto& entry) { return entry.first >= prober; });
}

bool DataPaths::report(HostId prober, Instant now, const std::vector<PathWord>& words) {
  std::vector<std::pair<HostId, Word>> before;
  for (const auto host : said_[prober]) {
    before.emplace_back(host, place_of(on_.at(host), prober)->second);
  }
  take_back(prober);
  bool changed = before.size() != words.size();
  for (const auto& word : words) {
    if (word.host == prober) continue;
    const auto known = std::find_if(before.begin(), before.end(),
                                    [&](const auto& entry) { return entry.first == word.host; });
    const bool same = known != before.end() && known->second.answers == word.answers;
    changed = changed || !same;
    Word kept{word.answers, now - word.silent};
    if (same) kept.since = std::min(kept.since, known->second.since);
    auto& on = on_[word.host];
    const auto place = place_of(on, prober);
    if (place != on.end() && place->first == prober) {
      place->second = kept;
    } else {
      on.insert(place, {prober, kept});
      said_.at(prober).push_back(word.host);
    }
    if (!word.answers) silent_.insert({prober, word.host});
  }
  return changed;
}

void DataPaths::take_back(HostId prober) {
  for (const auto host : std::exchange(said_[prober], {})) {
    if (!silent_.empty()) silent_.erase({prober, host});
    const auto on = on_.find(host);
    on->second.erase(place_of(on->second, prober));
    if (on->second.empty()) on_.erase(on);
  }
}

void DataPaths::forget(HostId host) {
  take_back(host);
  const auto found = on_.find(host);
  if (found == on_.end()) return;
  for (const auto& [prober, word] : found->second) {
    std::erase(said_.at(prober), host);
    silent_.erase({prober, host});
  }
  on_.erase(found);
}

std::map<HostId, Instant> DataPaths::broken(const Heard& heard) const {
  std::map<HostId, std::set<HostId>> failures;
  std::map<HostId, Instant> since;
  for (const auto& [prober, host] : silent_) {
    if (!heard(prober) || !heard(host)) continue;
    failures[prober].insert(host);
    failures[host].insert(prober);
    const auto& words = on_.at(host);
    const auto word =
        std::find_if(words.begin(), words.end(),
                     [&prober = prober](const auto& said) { return said.first == prober; });
    const auto began = word->second.since;
    for (const auto end : {prober, host}) {
      const auto [known, first] = since.try_emplace(end, began);
      if (!first) known->second = std::min(known->second, began);
    }
  }
  std::map<HostId, Instant> found;
  while (true) {
    std::size_t most = 0;
    for (const auto& [host, others] : failures) most = std::max(most, others.size());
    if (most < kOthersMin) break;
    std::set<HostId> worst;
    for (const auto& [host, others] : failures) {
      if (others.size() == most) worst.insert(host);
    }
    for (const auto host : worst) {
      found.emplace(host, since.at(host));
      failures.erase(host);
    }
    for (auto& [host, others] : failures) {
      std::erase_if(others, [&](HostId other) { return worst.contains(other); });
    }
  }
  if (found.empty()) return found;
  std::set<HostId> present;
  for (const auto& [host, words] : on_) {
    if (heard(host)) present.insert(host);
    for (const auto& [prober, word] : words) {
      if (heard(prober)) present.insert(prober);
    }
  }
  if (found.size() * 2 > present.size()) found.clear();
  return found;
}

DataPath DataPaths::judge(HostId host, const Heard& heard,
                          const std::map<HostId, Instant>& broken) const {
  const auto words = on_.find(host);
  if (words == on_.end()) return DataPath::unknown;
  auto seen = DataPath::unknown;
  for (const auto& [prober, word] : words->second) {
    if (!heard(prober) || broken.contains(prober)) continue;
    if (word.answers) return DataPath::answers;
    seen = DataPath::silent;
  }
  return seen;
}

std::vector<HostId> DataPaths::witnesses(HostId host, const Heard& heard, bool answers) const {
  std::vector<HostId> found;
  const auto words = on_.find(host);
  if (words == on_.end()) return found;
  for (const auto& [prober, word] : words->second) {
    if (heard(prober) && word.answers == answers) found.push_back(prober);
  }
  return found;
}

}  // namespace dlaunch::rendezvous
