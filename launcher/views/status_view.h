// What `dlaunch status`, `list` and the viewer print, made from the status JSON (schema 1).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dlaunch::launcher::views {

/// The whole page: job, checkpoint, hosts, ranks, incidents. Missing keys are left out: a status of
/// a newer or older dlaunch is shown as far as it is understood.
[[nodiscard]] std::string status_page(const nlohmann::json& status);

/// What a job that comes to run consists of: name, id, world size, and who has which ranks.
[[nodiscard]] std::string start_page(const nlohmann::json& summary);

/// One line of progress: "step 812/2000  loss 2.91  41.2 k tokens/s  ETA 3 min".
[[nodiscard]] std::string progress_line(const nlohmann::json& status);

/// One incident as sentences, with its phases once it is over.
[[nodiscard]] std::string incident_text(const nlohmann::json& incident);

/// One line of `dlaunch events`.
[[nodiscard]] std::string event_line(const nlohmann::json& event);

}  // namespace dlaunch::launcher::views
