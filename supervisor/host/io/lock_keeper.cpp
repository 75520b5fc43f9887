#include "supervisor/host/io/lock_keeper.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "supervisor/host/io/checkpoint_hands.h"
#include "supervisor/host/io/checkpoint_lock.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;

namespace {

constexpr nanoseconds kReleaseLimit = 1s;
constexpr nanoseconds kRenewEveryMin = 1s;

}  // namespace

LockKeeper::LockKeeper(asio::io_context& context, asio::thread_pool& pool, std::string job,
                       Note note)
    : context_(context),
      pool_(pool),
      job_(std::move(job)),
      note_(std::move(note)),
      timer_(context) {}

void LockKeeper::hold(const std::string& directory, nanoseconds stale_after) {
  directory_ = directory;
  every_ = std::max(stale_after / 4, kRenewEveryMin);
  renew_later();
}

void LockKeeper::renew_later() {
  timer_.expires_after(every_);
  timer_.async_wait([this](const boost::system::error_code& code) {
    if (code) return;
    asio::post(pool_, [this, directory = directory_] {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (!lock || gone_) return;  // one that hangs is enough
      if (const auto renewed = renew_lock(directory, job_); !renewed) note_(renewed.error().text());
    });
    renew_later();
  });
}

void LockKeeper::let_go(std::function<void()> then) {
  timer_.cancel();
  if (directory_.empty()) return then();
  const auto limit = std::make_shared<asio::steady_timer>(context_, kReleaseLimit);
  limit->async_wait([limit, then = std::move(then)](const boost::system::error_code&) { then(); });
  asio::post(pool_, [this, limit, directory = directory_] {
    {
      const std::lock_guard guard(mutex_);
      gone_ = true;
      remove_marks(directory);
      release_lock(directory, job_);
    }
    asio::post(context_, [limit] { limit->cancel(); });
  });
}

}  // namespace dlaunch::supervisor::host
