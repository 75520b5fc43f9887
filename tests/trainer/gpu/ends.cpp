// Whatever is under way ends at the abort, at its limit and when a rank is lost; then a new session
// works.
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/trainer/gpu/one_rank.h"
#include "trainer/io/clock.h"

namespace dlaunch::comm {
namespace {

/// Far above what any ending takes, far below the limit that must not be what ends it.
constexpr milliseconds kEndsWithin = 15s;
constexpr milliseconds kShortLimit = 200ms;

/// Ending communicators frees memory, which may wait for all that runs on the device; what really
/// hangs there are NCCL's own kernels, and those end.
constexpr milliseconds kHold = 5s;

/// Holds a stream, so that what comes after it stays under way.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    auto state = std::make_unique<std::shared_ptr<State>>(state_);
    const auto hold = [](void* held) {
      const std::unique_ptr<std::shared_ptr<State>> owner(
          static_cast<std::shared_ptr<State>*>(held));
      State& gate = **owner;
      std::unique_lock lock(gate.mutex);
      gate.changed.wait(lock, [&gate] { return gate.opened; });
    };
    closed_ = cudaLaunchHostFunc(stream, hold, state.get()) == cudaSuccess;
    if (closed_) static_cast<void>(state.release());
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  [[nodiscard]] bool is_closed() const { return closed_; }
  void open() {
    const std::lock_guard lock(state_->mutex);
    state_->opened = true;
    state_->changed.notify_all();
  }
  /// Returns when it is open, which it is after that time.
  void open_after(milliseconds time) {
    {
      std::unique_lock lock(state_->mutex);
      state_->changed.wait_for(lock, time, [this] { return state_->opened; });
    }
    open();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool opened = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  bool closed_ = false;
};

/// `outcome` has failed, in this way and soon enough.
Problem ended_as(const CommResult<void>& outcome, FailureKind kind, const std::string& words,
                 Instant begun) {
  if (outcome) return "it did not fail";
  const std::string text = outcome.error().error.text();
  if (outcome.error().kind != kind) return "it failed otherwise: " + text;
  if (text.find(words) == std::string::npos) return "it does not say '" + words + "': " + text;
  if (trainer_now() - begun > kEndsWithin) return "it took too long: " + text;
  return {};
}

/// An all-reduce that is held back, ended by `end` or by itself.
Problem held_all_reduce(const DeviceSettings& settings, FailureKind kind, const std::string& words,
                        const std::function<void(AbortFlag&)>& end) {
  auto one = open_one_rank(settings);
  if (!one) return problem_of(one);
  const auto memory = DeviceMemory::allocate(1024, DeviceType::fp32);
  if (!memory) return problem_of(memory);
  Gate gate(one->session->stream());
  if (!gate.is_closed()) return "the stream could not be held";
  const Instant begun = trainer_now();
  const auto ticket = one->group->start_all_reduce(memory->span());
  if (!ticket) return problem_of(ticket);
  std::thread ender([&] {
    end(*one->abort);
    gate.open_after(kHold);
  });
  const auto outcome = one->group->wait(*ticket);
  gate.open();
  ender.join();
  Problem problem = ended_as(outcome, kind, words, begun);
  const auto again = one->group->start_all_reduce(memory->span());
  if (problem.empty() && (again || again.error().error.text() != outcome.error().error.text())) {
    problem = "the next call does not repeat the failure";
  }
  if (problem.empty() && one->session->is_stuck()) problem = "NCCL did not let go";
  return problem;
}

Problem pending_aborted() {
  return held_all_reduce({}, FailureKind::aborted, "was ended: the host is drained",
                         [](AbortFlag& abort) { abort.set("the host is drained"); });
}

Problem pending_late() {
  DeviceSettings settings;
  settings.operation_limit = kShortLimit;
  return held_all_reduce(settings, FailureKind::timed_out, "not done within its limit",
                         [](AbortFlag&) {});
}

/// Two ranks, of which the second does its part in the mesh, but never comes to NCCL.
Problem lonely_init(const DeviceSettings& settings, FailureKind kind, const std::string& words,
                    bool second_leaves, const std::function<void(AbortFlag&)>& end) {
  std::vector<MeshListener> listeners;
  for (int rank = 0; rank < 2; ++rank) {
    auto listener = MeshListener::open("127.0.0.1");
    if (!listener) return listener.error().text();
    listeners.push_back(std::move(*listener));
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::thread second([&] {
    auto mesh =
        connect_mesh(listeners[1], mesh_settings(1, listeners), std::make_shared<AbortFlag>());
    if (!mesh) return;
    Scalars well;
    well.sums = {0.0, 0.0};
    static_cast<void>((*mesh)->all_reduce_scalars(well));
    std::vector<std::byte> id(kIdMessageBytes);
    static_cast<void>((*mesh)->broadcast(Rank{0}, id));
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return over || second_leaves; });
  });
  Problem problem = [&]() -> Problem {
    auto abort = std::make_shared<AbortFlag>();
    const auto mesh = connect_mesh(listeners[0], mesh_settings(0, listeners), abort);
    if (!mesh) return problem_of(mesh);
    const auto session = DeviceSession::open(**mesh, settings, abort);
    if (!session) return problem_of(session);
    const Instant begun = trainer_now();
    std::thread ender([&] { end(*abort); });
    const auto group = NcclCommunicator::connect(*session, **mesh, "main");
    ender.join();
    const CommResult<void> outcome =
        group ? CommResult<void>() : CommResult<void>(tl::unexpected(group.error()));
    if ((*session)->is_stuck()) return "NCCL did not let go";
    return ended_as(outcome, kind, words, begun);
  }();
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  changed.notify_all();
  second.join();
  return problem;
}

Problem init_aborted() {
  return lonely_init({}, FailureKind::aborted, "was ended: the host is drained", false,
                     [](AbortFlag& abort) { abort.set("the host is drained"); });
}

Problem init_late() {
  DeviceSettings settings;
  settings.connect_limit = kShortLimit;
  return lonely_init(settings, FailureKind::timed_out, "not done within its limit", false,
                     [](AbortFlag&) {});
}

Problem init_without_rank() {
  return lonely_init({}, FailureKind::peer_lost, "rank 1", true, [](AbortFlag&) {});
}

Problem no_such_device() {
  DeviceSettings settings;
  settings.device = 1000;
  const auto one = open_one_rank(settings);
  if (one) return "it was opened";
  const std::string text = problem_of(one);
  return text.starts_with("taking device 1000: CUDA says: ") ? "" : text;
}

Problem after_an_abort() {
  if (auto problem = pending_aborted(); !problem.empty()) return problem;
  auto one = open_one_rank();
  if (!one) return problem_of(one);
  const auto memory = DeviceMemory::allocate(1024, DeviceType::fp32);
  if (!memory) return problem_of(memory);
  const auto ticket = one->group->start_all_reduce(memory->span());
  if (!ticket) return problem_of(ticket);
  return problem_of(one->group->wait(*ticket));
}

}  // namespace

std::vector<Check> ending_checks() {
  return {{"a device that is not there is named", no_such_device},
          {"an operation that is under way ends at the abort", pending_aborted},
          {"an operation that is under way ends at its limit", pending_late},
          {"connecting to a rank that does not come ends at the abort", init_aborted},
          {"connecting to a rank that does not come ends at its limit", init_late},
          {"connecting to a rank that is lost ends and names it", init_without_rank},
          {"a second session works after an abort", after_an_abort}};
}

}  // namespace dlaunch::comm
