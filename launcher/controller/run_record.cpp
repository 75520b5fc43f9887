#include "launcher/controller/run_record.h"

#include "supervisor/job/journal_rows.h"

namespace dlaunch::launcher::controller {

supervisor::job::Recovered recover(const std::vector<JournalRow>& journal,
                                   std::uint64_t incidents) {
  std::vector<supervisor::job::JournalEntry> entries;
  entries.reserve(journal.size());
  for (const auto& row : journal) entries.push_back({row.kind, row.json});
  return supervisor::job::recover(entries, incidents);
}

}  // namespace dlaunch::launcher::controller
