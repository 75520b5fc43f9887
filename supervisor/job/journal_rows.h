// The rows of the journal: written by the job machine, read by the next incarnation's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "rendezvous/command.h"
#include "supervisor/job/command.h"
#include "supervisor/job/incident_book.h"
#include "supervisor/job/recovered.h"

namespace dlaunch::supervisor::job {

/// Kinds, in the order of a generation's life:
///   generation   formed: members and what was spent so far
///   restoring    what it goes on from, and what the checkpoint directory holds
///   running      Go was ordered, and when
///   progressed   it did a step that none had done before
///   committing, committed   a checkpoint is to be renamed, was renamed
///   broken       it was ended (written after the abort was sent)
///   incident     what explains it, as far as known; `closed` at its end
///   blamed       that was a host's own fault
///   unsure       until when a program may still run on a host that is lost
///   waiting      too few hosts are left, and until when they are waited for
/// Whenever it happens:
///   link         a host is given up for its data link, or has it back
///   over_ssh     a host's frames come over the SSH connection, or do so no more
///   drained, added   the user takes a host out, lets one in
///   stopping     the user wants the job to stop
///   ended        the job is over; `resumed` is written by a start after that
struct JournalEntry {
  std::string kind;
  std::string json;
};

using NameOf = std::function<std::string(HostId)>;
[[nodiscard]] std::string generation_row(const rendezvous::Plan& plan, const Counted& counted,
                                         std::optional<Step> best_step, const NameOf& name);
[[nodiscard]] std::string restoring_row(Generation generation,
                                        const Recovered::Restoring& restoring,
                                        const std::vector<Step>& steps,
                                        const std::vector<Step>& damaged);
[[nodiscard]] std::string running_row(Generation generation, Instant now,
                                      std::uint32_t master_port);
[[nodiscard]] std::string committing_row(Generation generation, const protocol::Commit& commit);
[[nodiscard]] std::string committed_row(Step step, Step best_step, Instant now,
                                        nanoseconds save_cost);
[[nodiscard]] std::string incident_row(const OpenIncident& open);
[[nodiscard]] std::string closed_incident_row(std::uint64_t id);
/// `open`: nullptr for a planned end. `advanced`: it did a step.
[[nodiscard]] std::string broken_row(Generation generation, const std::string& reason,
                                     const OpenIncident* open, bool advanced);
[[nodiscard]] std::string blamed_row(const Blame& blame, const NameOf& name);
/// nullptr: the host has its links back.
[[nodiscard]] std::string link_row(HostId host, const BrokenLink* broken, const NameOf& name);
[[nodiscard]] std::string until_row(std::optional<HostId> host, Instant until);

/// Oldest first. Rows that cannot be read (of a newer dlaunch) are passed over.
[[nodiscard]] Recovered recover(std::span<const JournalEntry> journal, std::uint64_t incidents);

}  // namespace dlaunch::supervisor::job
