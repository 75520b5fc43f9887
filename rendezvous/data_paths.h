// What agents say of each other's data paths, and what that comes to.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/dense_map.h"
#include "base/ids.h"
#include "base/time.h"
#include "rendezvous/event.h"

namespace dlaunch::rendezvous {

enum class DataPath { unknown, answers, silent };

/// Holds the last word of each agent on each host that it probes. A word counts only while the
/// agent that said it is itself heard: `Heard` says so.
class DataPaths {
 public:
  using Heard = std::function<bool(HostId)>;

  /// All that `prober` knows now, in place of what it said before. True: some word is another one.
  bool report(HostId prober, Instant now, const std::vector<PathWord>& words);
  /// Its agent is gone: neither its words nor those on it hold any more.
  void forget(HostId host);

  /// Hosts whose own data path is broken while they are heard, and since when: each fails towards
  /// two or more others. Where one word stands against another, the host with most failures has
  /// them. Empty when it would be more than half of all: then the network itself is broken.
  [[nodiscard]] std::map<HostId, Instant> broken(const Heard& heard) const;
  /// What heard hosts whose own path is not `broken` say: one answer is enough for `answers`;
  /// `silent` takes all of them.
  [[nodiscard]] DataPath judge(HostId host, const Heard& heard,
                               const std::map<HostId, Instant>& broken) const;
  /// Those who say it, for a sentence.
  [[nodiscard]] std::vector<HostId> witnesses(HostId host, const Heard& heard, bool answers) const;
  /// Some word says silent.
  [[nodiscard]] bool quiet() const { return silent_.empty(); }

 private:
  struct Word {
    bool answers = true;
    Instant since;  ///< silent: since the last answer
  };
  /// Each agent probes two hosts, so that each is probed by two: a few, in order of who said it.
  using Words = std::vector<std::pair<HostId, Word>>;
  [[nodiscard]] static Words::iterator place_of(Words& words, HostId prober);
  void take_back(HostId prober);

  std::map<HostId, Words> on_;                  ///< by host: what is said of it, whoever it is
  DenseMap<HostId, std::vector<HostId>> said_;  ///< by prober: of whom
  std::set<std::pair<HostId, HostId>> silent_;  ///< (prober, host)
};

}  // namespace dlaunch::rendezvous
