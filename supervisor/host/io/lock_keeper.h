// Renews the lock of the checkpoint directory on a pool, because its storage may hang.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <mutex>
#include <string>

#include "base/time.h"

namespace dlaunch::supervisor::host {

/// Used on the io_context's thread; outlives what it has given to the pool.
class LockKeeper {
 public:
  using Note = std::function<void(const std::string& sentence)>;
  /// `note` is called on the pool.
  LockKeeper(boost::asio::io_context& context, boost::asio::thread_pool& pool, std::string job,
             Note note);

  /// The lock of `directory` has been taken for the job: it must not get older than `stale_after`.
  void hold(const std::string& directory, nanoseconds stale_after);
  /// Removes it, then calls `then`; at most a second later, whatever the storage does: a lock that
  /// is left behind gets old by itself.
  void let_go(std::function<void()> then);

 private:
  void renew_later();

  boost::asio::io_context& context_;
  boost::asio::thread_pool& pool_;
  std::string job_;
  Note note_;
  boost::asio::steady_timer timer_;
  nanoseconds every_{};
  std::string directory_;
  std::mutex mutex_;   ///< held while the storage is asked, on the pool only
  bool gone_ = false;  ///< under the mutex: a renewal that waits its turn does nothing
};

}  // namespace dlaunch::supervisor::host
