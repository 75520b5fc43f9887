#include "rendezvous/partition.h"

#include "base/mutant.h"
#include "base/probe.h"
#include "base/units.h"

namespace dlaunch::rendezvous {

std::optional<Instant> PartitionRule::until() const {
  if (const auto* cut_off = std::get_if<CutOff>(&state_)) return cut_off->until;
  if (const auto* readmitting = std::get_if<Readmitting>(&state_)) return readmitting->until;
  return std::nullopt;
}

PartitionRule::Verdict PartitionRule::judge(Instant now, std::size_t watched, std::size_t silent,
                                            bool confirmed) {
  Verdict verdict;
  const bool most =
      watched >= 3 && silent * 2 > watched && !confirmed && !DL_MUTANT("half_silent_rule_removed");
  if (most && !std::holds_alternative<CutOff>(state_)) {
    state_ = CutOff{now + grace_};
    DL_PROBE("the controller suspects its own network");
    verdict.sentence = std::to_string(silent) + " of " + std::to_string(watched) +
                       " hosts fell silent at once: the controller's own network is suspected and "
                       "nobody is given up for " +
                       format_duration(grace_);
  } else if (!most && std::holds_alternative<CutOff>(state_)) {
    state_ = Readmitting{now + readmit_};
    DL_PROBE("the controller reaches hosts again");
    verdict.sentence = "the controller reaches hosts again; those that are still silent have " +
                       format_duration(readmit_);
  }
  const auto due = until();
  verdict.convict = !due || now >= *due;
  if (verdict.convict) reset();
  return verdict;
}

}  // namespace dlaunch::rendezvous
