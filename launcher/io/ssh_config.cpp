#include "launcher/io/ssh_config.h"

#include <fstream>
#include <sstream>

namespace dlaunch::launcher::io {
namespace {

constexpr nanoseconds kFresh = 5s;
constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

std::shared_ptr<const launch::SshAnswer> judge(const std::string& host, const SshText& said) {
  auto answer = std::make_shared<launch::SshAnswer>();
  answer->host = host;
  answer->settings = said.settings;
  const auto files = launch::files_read(said.log);
  answer->can_be_shared = files.has_value();
  for (const std::string& path : files.value_or(std::vector<std::string>())) {
    std::ifstream file(path);
    std::string text(kFileBytesMax + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(file.gcount()));
    if (text.size() > kFileBytesMax || !launch::add_host_lines(text, answer->host_lines)) {
      answer->can_be_shared = false;
    }
  }
  return answer;
}

}  // namespace

Result<SshSettings> SshConfig::read(const SshWish& wish, const Deadline& deadline) {
  const std::string key =
      std::to_string(wish.port.value_or(0)) + "\n" + wish.user + "\n" + wish.jump;
  const auto shared = wait_for(key, deadline);
  if (shared) {
    const auto settings = launch::settings_for(*shared, wish.address);
    return settings ? settings_from(*settings, wish) : read_settings(wish, deadline);
  }
  const auto said = ask_ssh(wish, true, deadline);
  {
    const std::lock_guard lock(mutex_);
    auto& entry = entries_[key];
    entry.under_way = false;
    if (said) entry.answer = judge(wish.address, *said);
  }
  changed_.notify_all();
  if (!said) return tl::unexpected(said.error());
  return settings_from(said->settings, wish);
}

std::shared_ptr<const launch::SshAnswer> SshConfig::wait_for(const std::string& key,
                                                             const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  const auto found = entries_.find(key);
  const auto now = std::chrono::steady_clock::now();
  const bool fresh =
      found != entries_.end() && (found->second.under_way || now - found->second.asked_at < kFresh);
  if (!fresh) {
    entries_[key] = Entry{true, now, nullptr};
    return nullptr;
  }
  changed_.wait_for(lock, deadline.left(), [&] { return !entries_[key].under_way; });
  return entries_[key].answer;
}

}  // namespace dlaunch::launcher::io
