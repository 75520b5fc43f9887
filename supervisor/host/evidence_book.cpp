#include "supervisor/host/evidence_book.h"

#include <utility>

namespace dlaunch::supervisor::host {

const EvidenceBook::Entry& EvidenceBook::add(Instant now, Generation generation,
                                             protocol::Evidence evidence) {
  evidence.set_number(++count_);
  bytes_ += evidence.ByteSizeLong();
  entries_.push_back({generation, now, std::move(evidence)});
  while (entries_.size() > protocol::kEvidenceKeptMax ||
         (bytes_ > protocol::kEvidenceBytesMax && entries_.size() > 1)) {
    forget_oldest();
  }
  return entries_.back();
}

void EvidenceBook::acknowledged(std::uint64_t number) {
  while (!entries_.empty() && entries_.front().evidence.number() <= number) forget_oldest();
}

void EvidenceBook::forget_oldest() {
  bytes_ -= entries_.front().evidence.ByteSizeLong();
  entries_.pop_front();
}

protocol::Evidence dated(const EvidenceBook::Entry& entry, Instant now) {
  auto evidence = entry.evidence;
  evidence.set_seconds_ago(to_seconds(now - entry.happened_at));
  return evidence;
}

}  // namespace dlaunch::supervisor::host
