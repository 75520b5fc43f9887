// Conversation scripts as text: lines of words, and the job's answers as prose.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "supervisor/job/command.h"

namespace dlaunch::supervisor::job {

/// The words of a line; "quoted text" and 'quoted text' are one word, without quotes.
[[nodiscard]] std::vector<std::string> words_of(const std::string& line);

/// One line per command, as a person would say it.
[[nodiscard]] std::string say(const Command& command,
                              const std::map<HostId, std::string>& host_names);

}  // namespace dlaunch::supervisor::job
