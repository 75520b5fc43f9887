// Evidence is kept and sent again on every connection until the controller has acknowledged it.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/limits.h"

namespace dlaunch::supervisor::host {

/// Numbers evidence from 1. Bounded: at kEvidenceKeptMax or kEvidenceBytesMax the oldest goes, for
/// a controller that has not answered for so long forms a new generation anyway.
class EvidenceBook {
 public:
  struct Entry {
    Generation generation;
    Instant happened_at;
    protocol::Evidence evidence;
  };
  /// The entry to be sent now.
  const Entry& add(Instant now, Generation generation, protocol::Evidence evidence);
  void acknowledged(std::uint64_t number);
  [[nodiscard]] const std::deque<Entry>& waiting() const { return entries_; }

 private:
  void forget_oldest();

  std::uint64_t count_ = 0;
  std::size_t bytes_ = 0;
  std::deque<Entry> entries_;
};

/// As it is sent now: with how long ago it happened.
[[nodiscard]] protocol::Evidence dated(const EvidenceBook::Entry& entry, Instant now);

}  // namespace dlaunch::supervisor::host
