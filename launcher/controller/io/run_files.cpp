#include "launcher/controller/io/run_files.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "base/io/files.h"
#include "launcher/controller/status_json.h"
#include "protocol/json_text.h"

namespace dlaunch::launcher::controller {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "generation-", kSuffix = ".jsonl";

std::string output_folder(const std::string& directory) { return directory + "/output"; }

void remove_old_output(const std::string& directory) {
  const auto generations = output_generations(directory);
  std::error_code ignored;
  std::size_t count = 0;
  std::uintmax_t bytes = 0;
  // The newest first; the oldest is not looked at.
  for (auto i = generations.size(); i-- > 1;) {
    const auto path = output_path(directory, generations[i]);
    const auto size = fs::file_size(path, ignored);
    bytes += ignored ? 0 : size;
    if (++count > 1 && (count > kOutputGenerationsMax || bytes > kOutputBytesMax)) {
      fs::remove(path, ignored);
    }
  }
}

}  // namespace

bool is_on_network(const std::string& directory) {
  if (const char* said = std::getenv("DLAUNCH_NETWORK_STATE"); said != nullptr && *said != '\0') {
    return std::string_view(said) != "0";
  }
  struct statfs system {};
  if (::statfs(directory.c_str(), &system) != 0) return false;
  constexpr std::array<unsigned long, 10> kNetwork = {
      NFS_SUPER_MAGIC,         SMB_SUPER_MAGIC, 0xFF534D42UL /* cifs */,   0xFE534D42UL /* smb2 */,
      AFS_SUPER_MAGIC,         V9FS_MAGIC,      0x0BD00BD0UL /* lustre */, 0x47504653UL /* gpfs */,
      0x00C36400UL /* ceph */, 0x19830326UL /* beegfs */};
  const auto magic = static_cast<unsigned long>(system.f_type);
  return std::find(kNetwork.begin(), kNetwork.end(), magic) != kNetwork.end();
}

Result<void> write_status_snapshot(const std::string& directory, const std::string& json) {
  return swap_file(directory + "/status.json", json);
}

std::optional<std::string> read_status_snapshot(const std::string& directory) {
  std::ifstream file(directory + "/status.json", std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Result<void> write_output(const std::string& directory, Generation generation,
                          const std::vector<OutputPiece>& pieces) {
  const auto folder = output_folder(directory);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return failure_from_errno(errno, "making " + folder);
  }
  std::string text;
  for (const auto& piece : pieces) {
    text += protocol::json_text(output_json(*piece)) + "\n";
  }
  auto written = swap_file(output_path(directory, generation), text);
  if (written) remove_old_output(directory);
  return written;
}

std::vector<Generation> output_generations(const std::string& directory) {
  std::vector<Generation> generations;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(output_folder(directory), code)) {
    const auto file = entry.path().filename().string();
    const std::string_view name(file);
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const auto digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    Generation generation;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), generation.value);
    if (error == std::errc() && end == digits.end()) generations.push_back(generation);
  }
  std::sort(generations.begin(), generations.end());
  return generations;
}

std::string output_path(const std::string& directory, Generation generation) {
  return output_folder(directory) + "/" + std::string(kPrefix) + std::to_string(generation.value) +
         std::string(kSuffix);
}

}  // namespace dlaunch::launcher::controller
