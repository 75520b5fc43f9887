// Asks OpenSSH for settings, once for all hosts that have the same.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "launcher/io/ssh_settings.h"
#include "launcher/launch/ssh_sharing.h"

namespace dlaunch::launcher::io {

/// Thread-safe. An answer is used for some seconds: a change of the user's configuration holds for
/// the next dial.
class SshConfig {
 public:
  /// As read_settings.
  [[nodiscard]] Result<SshSettings> read(const SshWish& wish, const Deadline& deadline);

 private:
  struct Entry {
    bool under_way = true;
    Instant asked_at;
    std::shared_ptr<const launch::SshAnswer> answer;  ///< empty: it failed
  };
  /// The newest answer for wishes that differ in the address only; empty: ask yourself.
  std::shared_ptr<const launch::SshAnswer> wait_for(const std::string& key,
                                                    const Deadline& deadline);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Entry> entries_;  ///< at most one for each user, port and jump of the job
};

}  // namespace dlaunch::launcher::io
