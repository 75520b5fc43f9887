#include "launcher/io/ssh_planter.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <thread>

#include "base/io/thread.h"
#include "launcher/io/plant_conversation.h"
#include "launcher/io/tunnel.h"
#include "launcher/launch/user_text.h"

namespace dlaunch::launcher::io {
namespace {

using launch::Cause;

struct Job {
  PlantRequest request;
  std::function<void(PlantOutcome)> post;
  Interrupt interrupt;
};

/// What an attempt leaves behind where the agent cannot dial back.
struct OpenTunnel {
  std::unique_ptr<StartShell> shell;
  std::string first_bytes;
};

/// One attempt, on one thread.
class Attempt {
 public:
  Attempt(Job& job, const std::vector<launch::AgentBinary>& agents, SshConfig& config)
      : job_(job),
        request_(job.request),
        agents_(agents),
        config_(config),
        connecting_(request_.connect_within),
        where_(where_of(request_)) {
    where_.scratch = request_.scratch;
    where_.waited = request_.connect_within;
  }

  /// nullopt also when it failed.
  std::optional<OpenTunnel> carry_out(bool tunnel_allowed) {
    tunnel_allowed_ = tunnel_allowed;
    bool started = false;
    auto done = plant(false, started);
    // An agent that was found there and never spoke may be what a crash of the host left of one.
    if (!done && done.error().cause == Cause::agent_failed && !started &&
        !job_.interrupt.interrupted()) {
      done = plant(true, started);
    }
    if (done) {
      job_.post(launch::Planted{request_.host, request_.attempt});
      return std::move(tunnel_);
    }
    const Cause cause = job_.interrupt.interrupted() ? Cause::cancelled : done.error().cause;
    where_.detail = done.error().detail;
    if (!done.error().scratch.empty()) where_.scratch = done.error().scratch;
    job_.post(launch::PlantFailed{request_.host, request_.attempt, cause,
                                  launch::sentence(cause, where_)});
    return std::nullopt;
  }

 private:
  Planting<void> plant(bool thorough, bool& started) {
    if (job_.interrupt.interrupted()) return plant_failure(Cause::cancelled, "");
    auto shell = open_shell(request_, config_, connecting_, job_.interrupt, where_,
                            [this](const std::string& sentence) { notice(sentence); });
    if (!shell) return tl::unexpected(shell.error());
    report(launch::Stage::connected);
    const launch::StartScript script{
        make_nonce(), request_.bootstrap.job, request_.bootstrap.host, request_.scratch, agents_,
        thorough};
    const auto on_started = [this, &started] {
      started = true;
      report(launch::Stage::started);
    };
    auto talked = converse(**shell, script, request_.bootstrap,
                           {request_.start_within, request_.hello_within},
                           {on_started, [this](const std::string& sentence) { notice(sentence); }});
    if (!talked) return tl::unexpected(talked.error());
    if (!*talked) return {};
    if (!tunnel_allowed_) {
      return plant_failure(Cause::cannot_dial_back,
                           "the SSH connections of " + std::to_string(Planter::kTunnelsMax) +
                               " other hosts carry their frames already, which is the most");
    }
    if (request_.bootstrap.control == protocol::Control::automatic) {
      notice("it cannot dial this machine, so its control runs over the SSH connection");
    }
    tunnel_.emplace(OpenTunnel{std::move(*shell), std::move((*talked)->first_bytes)});
    return {};
  }

  void report(launch::Stage stage) {
    job_.post(launch::PlantProgress{request_.host, request_.attempt, stage});
  }
  void notice(const std::string& sentence) { job_.post(PlantNotice{request_.host, sentence}); }

  Job& job_;
  const PlantRequest& request_;
  const std::vector<launch::AgentBinary>& agents_;
  SshConfig& config_;
  Deadline connecting_;
  launch::Where where_;
  bool tunnel_allowed_ = false;
  std::optional<OpenTunnel> tunnel_;
};

}  // namespace

class Planter::Pool {
 public:
  Pool(std::vector<launch::AgentBinary> agents, std::shared_ptr<SshConfig> config)
      : agents_(std::move(agents)), config_(std::move(config)) {}

  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (auto& job : waiting_) job->interrupt.interrupt();
      for (auto& job : running_) job->interrupt.interrupt();
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    for (auto& carried : carried_) carried->job->interrupt.interrupt();
    for (auto& carried : carried_) carried->thread.join();
  }

  void add(std::unique_ptr<Job> job) {
    const std::lock_guard lock(mutex_);
    // A tunnel of before is of no use any more, or the host would not be planted.
    for (auto& carried : carried_) {
      if (carried->job->request.host == job->request.host) carried->job->interrupt.interrupt();
    }
    waiting_.push_back(std::move(job));
    if (idle_ < waiting_.size() && threads_.size() < kThreadsMax) start_thread();
    changed_.notify_one();
  }

  void cancel(HostId host) {
    const std::lock_guard lock(mutex_);
    for (auto& job : waiting_) {
      if (job->request.host == host) job->interrupt.interrupt();
    }
    for (auto& job : running_) {
      if (job->request.host == host) job->interrupt.interrupt();
    }
  }

 private:
  struct Carried {
    std::unique_ptr<Job> job;
    std::unique_ptr<StartShell> shell;  ///< uses the job's interrupt
    std::string first_bytes;
    std::atomic<bool> done = false;
    std::thread thread;
  };

  /// With the lock held.
  void carry(std::unique_ptr<Job> job, OpenTunnel tunnel) {
    for (auto one = carried_.begin(); one != carried_.end();) {
      const bool done = (*one)->done;
      if (done) (*one)->thread.join();
      one = done ? carried_.erase(one) : std::next(one);
    }
    auto& carried = *carried_.emplace_back(std::make_unique<Carried>());
    carried.job = std::move(job);
    carried.shell = std::move(tunnel.shell);
    carried.first_bytes = std::move(tunnel.first_bytes);
    carried.thread = thread_without_signals([this, &carried] {
      pass_bytes(*carried.shell, std::move(carried.first_bytes), carried.job->request.controller);
      carried.shell.reset();
      --tunnels_;
      carried.done = true;
    });
  }

  /// SIGPIPE of a broken connection is an error code.
  void start_thread() {
    threads_.push_back(thread_without_signals([this] { work(); }));
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
      --idle_;
      if (waiting_.empty()) return;
      running_.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      const auto job = std::prev(running_.end());
      lock.unlock();
      const bool allowed = ++tunnels_ <= kTunnelsMax + kThreadsMax;
      auto tunnel = Attempt(**job, agents_, *config_).carry_out(allowed);
      if (!tunnel) --tunnels_;
      lock.lock();
      auto finished = std::move(*job);
      running_.erase(job);
      if (tunnel) carry(std::move(finished), std::move(*tunnel));
    }
  }

  const std::vector<launch::AgentBinary> agents_;
  const std::shared_ptr<SshConfig> config_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Job>> waiting_;
  std::list<std::unique_ptr<Job>> running_;
  std::vector<std::thread> threads_;
  std::list<std::unique_ptr<Carried>> carried_;
  std::atomic<std::uint32_t> tunnels_ = 0;  ///< those that attempts may need included
  std::size_t idle_ = 0;
  bool ending_ = false;
};

Planter::Planter(std::vector<launch::AgentBinary> agents, std::shared_ptr<SshConfig> config)
    : pool_(std::make_unique<Pool>(std::move(agents), std::move(config))) {}

Planter::~Planter() = default;

void Planter::plant(PlantRequest request, std::function<void(PlantOutcome)> post) {
  auto job = std::make_unique<Job>();
  job->request = std::move(request);
  job->post = std::move(post);
  pool_->add(std::move(job));
}

void Planter::cancel(HostId host) { pool_->cancel(host); }

}  // namespace dlaunch::launcher::io
