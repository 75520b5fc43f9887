#include "launcher/io/agent_binaries.h"

#include <sys/utsname.h>

#include <filesystem>

#include "base/io/files.h"

namespace dlaunch::launcher::io {
namespace {

constexpr std::string_view kName = "dlaunch-agent";

}  // namespace

Result<launch::AgentBinary> read_agent(const std::string& path, std::string machine,
                                       KnownHashes& known) {
  auto hashed = hash_file(path, known);
  if (!hashed) return failure(hashed.error().code, "reading the agent " + path);
  return launch::AgentBinary{path, std::move(machine), std::move(hashed->hash), hashed->bytes};
}

Result<std::vector<launch::AgentBinary>> find_agents(const std::string& folder,
                                                     const std::string& store) {
  KnownHashes known(store);
  utsname names{};
  ::uname(&names);
  std::vector<launch::AgentBinary> agents;
  auto own = read_agent(folder + "/" + std::string(kName), names.machine, known);
  if (!own) return tl::unexpected(own.error());
  agents.push_back(std::move(*own));
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(std::string(kName) + "-")) continue;
    auto other = read_agent(entry.path(), name.substr(kName.size() + 1), known);
    if (other) agents.push_back(std::move(*other));
  }
  known.save();
  return agents;
}

}  // namespace dlaunch::launcher::io
