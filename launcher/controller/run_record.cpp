#include "launcher/controller/run_record.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dlaunch::launcher::controller {
namespace {

std::optional<std::uint64_t> number(const nlohmann::json& content, const char* key) {
  const auto found = content.find(key);
  if (found == content.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

}  // namespace

supervisor::job::Recovered recover(const std::vector<JournalRow>& journal,
                                   std::uint64_t incidents) {
  supervisor::job::Recovered recovered;
  recovered.incidents = incidents;
  for (const auto& row : journal) {
    const auto content = nlohmann::json::parse(row.json, nullptr, false);
    if (!content.is_object()) continue;
    if (const auto best = number(content, "best_step"); best && *best > 0) {
      recovered.best_step = std::max(recovered.best_step.value_or(Step{}), Step{*best});
    }
    if (row.kind == "generation") {
      const Generation generation{number(content, "generation").value_or(0)};
      recovered.restarts_spent =
          static_cast<std::uint32_t>(number(content, "restarts_spent").value_or(0));
      recovered.last_generation = std::max(recovered.last_generation, generation);
    } else if (row.kind == "committed") {
      if (const auto step = number(content, "step")) recovered.disk_step = Step{*step};
    } else if (row.kind == "stopping") {
      recovered.was_stopping = true;
    } else if (row.kind == "ended") {
      // What follows is a resume, by a person's wish.
      recovered.was_stopping = false;
      recovered.restarts_spent = 0;
    }
  }
  return recovered;
}

}  // namespace dlaunch::launcher::controller
