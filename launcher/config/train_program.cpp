// [program]: any other program than the trainer.
#include <algorithm>
#include <regex>
#include <utility>

#include "launcher/config/train_sections.h"
#include "protocol/placeholder.h"

namespace dlaunch::launcher::config {
namespace {

constexpr std::size_t kPatternBytesMax = 1024;

void check_placeholders(Section& section, const char* key, const std::vector<std::string>& words) {
  for (const auto& word : words) {
    for (auto at = word.find("${"); at != std::string::npos; at = word.find("${", at + 2)) {
      const auto end = word.find('}', at);
      if (end == std::string::npos) break;
      const auto name = word.substr(at + 2, end - at - 2);
      const auto& known = protocol::kPlaceholders;
      if (std::ranges::find(known, name, &protocol::PlaceholderName::name) != known.end()) continue;
      std::string expected = "expected one of";
      for (const auto& each : known) expected += " ${" + std::string(each.name) + "}";
      section.wrong(key, "`" + std::string(key) + "` holds the unknown ${" + name + "}",
                    expected + "; a shell's own variable is written $" + name);
    }
  }
}

void read_environment(Section& section, ProgramSection& program) {
  section.text_table("environment", program.environment);
  for (const auto& [name, value] : program.environment) {
    const bool good =
        !name.empty() && name.find_first_of(std::string_view("=\0", 2)) == std::string::npos;
    if (!good) {
      section.wrong("environment", "`environment` has the name \"" + name + "\"",
                    "expected names of variables, without '='");
    }
  }
}

void read_inherit(Section& section, ProgramSection& program) {
  section.texts("inherit", program.inherit);
  for (const auto& pattern : program.inherit) {
    const auto star = pattern.find('*');
    const bool good = !pattern.empty() && pattern.find('=') == std::string::npos &&
                      (star == std::string::npos || star + 1 == pattern.size());
    if (!good) {
      section.wrong("inherit", "`inherit` has \"" + pattern + "\"",
                    "expected names of variables, with * only at the end, like \"CONDA_*\"");
    }
  }
}

void read_step_pattern(Section& section, ProgramSection& program) {
  section.text("step_pattern", program.step_pattern);
  if (program.step_pattern.empty()) return;
  const std::string expected = R"(expected a pattern with one group, like 'step[ =:]+(\d+)')";
  if (program.step_pattern.size() > kPatternBytesMax) {
    return section.wrong("step_pattern", "`step_pattern` is too long", expected);
  }
  try {
    const std::regex pattern(program.step_pattern, std::regex::ECMAScript);
    if (pattern.mark_count() > 0) return;
    section.wrong("step_pattern", "`step_pattern` has no group for the step's number", expected);
  } catch (const std::regex_error&) {
    section.wrong("step_pattern", "`step_pattern` is no pattern: '" + program.step_pattern + "'",
                  expected);
  }
}

}  // namespace

void read_program(Section section, ProgramSection& program, const TrainContext& context) {
  const auto* command = section.find("command");
  if (command == nullptr) {
    section.wrong("command", "[program] has no `command`",
                  "expected command = [\"python3\", \"train.py\"]");
  } else if (command->is_string()) {
    section.wrong("command", "`command` is one string",
                  "expected one string for each argument, like [\"python3\", \"train.py\"]; no "
                  "shell reads it");
  } else {
    section.texts("command", program.command);
    const auto* array = command->as_array();
    const bool empty = array != nullptr &&
                       (array->empty() || (!program.command.empty() && program.command[0].empty()));
    if (empty) {
      section.wrong("command", "`command` names no program",
                    "expected command = [\"python3\", \"train.py\"]");
    }
  }
  check_placeholders(section, "command", program.command);
  program.directory = absolute_path(".", context);
  read_path(section, "directory", program.directory, context);
  read_environment(section, program);
  program.inherit = default_inherit();
  read_inherit(section, program);
  section.texts("wrap", program.wrap);
  check_placeholders(section, "wrap", program.wrap);
  read_step_pattern(section, program);
  read_path(section, "checkpoint_glob", program.checkpoint_glob, context);
  section.finish();
}

}  // namespace dlaunch::launcher::config
