#include "rendezvous/partition.h"

#include "base/units.h"

namespace dlaunch::rendezvous {

PartitionRule::Verdict PartitionRule::judge(Instant now, std::size_t watched, std::size_t silent) {
  Verdict verdict;
  if (watched < 3 || silent * 2 <= watched) {
    until_.reset();
    return verdict;
  }
  if (!until_) {
    until_ = now + grace_;
    verdict.sentence = std::to_string(silent) + " of " + std::to_string(watched) +
                       " hosts fell silent at once: the controller's own network is suspected and "
                       "nobody is given up for " +
                       format_duration(grace_);
  }
  verdict.convict = now >= *until_;
  if (verdict.convict) until_.reset();
  return verdict;
}

}  // namespace dlaunch::rendezvous
