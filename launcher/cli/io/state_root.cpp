#include "launcher/cli/io/state_root.h"

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>

#include "launcher/cli/job_id.h"

namespace dlaunch::launcher::cli {

namespace fs = std::filesystem;

Result<std::string> state_root() {
  if (const char* xdg = std::getenv("XDG_STATE_HOME"); xdg != nullptr && xdg[0] == '/') {
    return std::string(xdg) + "/dlaunch";
  }
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') {
    const auto* entry = ::getpwuid(::getuid());
    home = entry == nullptr ? nullptr : entry->pw_dir;
  }
  if (home == nullptr) {
    return failure(std::errc::no_such_file_or_directory,
                   "looking for a place for the job's state (set HOME or XDG_STATE_HOME)");
  }
  return std::string(home) + "/.local/state/dlaunch";
}

Result<std::vector<std::string>> job_ids(const std::string& root) {
  std::vector<std::string> ids;
  std::error_code code;
  fs::directory_iterator entries(root, code);
  if (code == std::errc::no_such_file_or_directory) return ids;
  if (code) return failure(code, "reading " + root);
  for (const auto& entry : entries) {
    const auto id = entry.path().filename().string();
    if (name_of(id) && entry.is_directory(code)) ids.push_back(id);
  }
  return ids;
}

Result<std::string> make_state_directory(const std::string& root, const std::string& id) {
  std::error_code code;
  fs::create_directories(root, code);
  if (code) return failure(code, "making " + root);
  const auto directory = root + "/" + id;
  if (::mkdir(directory.c_str(), 0700) != 0)
    return failure_from_errno(errno, "making " + directory);
  return directory;
}

std::string new_job_id(const std::string& name) {
  const auto seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::array<char, 32> stamp{};
  std::strftime(stamp.data(), stamp.size(), "%Y%m%d-%H%M%S", &utc);
  std::random_device dice;
  return make_job_id(name, stamp.data(), static_cast<std::uint16_t>(dice()));
}

}  // namespace dlaunch::launcher::cli
