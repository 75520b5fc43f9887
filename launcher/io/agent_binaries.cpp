#include "launcher/io/agent_binaries.h"

#include <sys/utsname.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

namespace dlaunch::launcher::io {
namespace {

constexpr std::string_view kName = "dlaunch-agent";

struct HashStateDeleter {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

Result<launch::AgentBinary> read_agent(const std::string& path, std::string machine) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return failure_from_errno(errno, "reading the agent " + path);
  const std::unique_ptr<XXH3_state_t, HashStateDeleter> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  launch::AgentBinary binary{path, std::move(machine), "", 0};
  std::vector<char> chunk(std::size_t{1} << 20);
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), file.gcount() > 0) {
    const auto count = static_cast<std::size_t>(file.gcount());
    XXH3_128bits_update(state.get(), chunk.data(), count);
    binary.size_bytes += count;
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  std::array<char, 33> text{};
  std::snprintf(text.data(), text.size(), "%016llx%016llx",
                static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  binary.hash = text.data();
  return binary;
}

Result<std::vector<launch::AgentBinary>> find_agents(const std::string& folder) {
  utsname names{};
  ::uname(&names);
  std::vector<launch::AgentBinary> agents;
  auto own = read_agent(folder + "/" + std::string(kName), names.machine);
  if (!own) return tl::unexpected(own.error());
  agents.push_back(std::move(*own));
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(std::string(kName) + "-")) continue;
    auto other = read_agent(entry.path(), name.substr(kName.size() + 1));
    if (other) agents.push_back(std::move(*other));
  }
  return agents;
}

}  // namespace dlaunch::launcher::io
