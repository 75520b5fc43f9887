#include "simulation/host.h"

#include <utility>

namespace dlaunch::simulation {

namespace agent = supervisor::host;

namespace {

constexpr nanoseconds kForkTime = 3ms;
constexpr std::uint32_t kFirstPort = 20'000, kPorts = 40'000;
constexpr nanoseconds kTunnelLook = 100ms;
constexpr nanoseconds kTakeOverTime = 60ms;  // an older holder and its agent are made to leave
constexpr nanoseconds kRedialMin = 100ms;
constexpr nanoseconds kRedialMax = 1s;
constexpr nanoseconds kConnectLimit = 1500ms;  // of a dial that nobody answers
constexpr nanoseconds kNever = 24h * 365;      // what is credited needs no timer
constexpr Instant kUptime = Instant{} + 5min;  // what a host's own clock shows at the start
constexpr nanoseconds kUptimeMore = 7min;      // and each further host's, so that none are equal

}  // namespace

Host::Host(Setting setting, EventQueue& queue, std::uint64_t seed, Surroundings& world)
    : setting_(std::move(setting)),
      queue_(queue),
      rng_(seed),
      world_(world),
      clock_(queue.now(), kUptime + kUptimeMore * setting_.id.value) {}

// ---- processes

void Host::plant() {
  if (!up_) return;
  const bool older = agent_ != nullptr || planted_;
  close_connection();
  end_agent();
  end_workers();
  planted_ = true;
  ++agents_;
  queue_.after(older ? kTakeOverTime : kForkTime, [this, life = agents_] {
    if (up_ && planted_ && life == agents_) start_agent();
  });
}

void Host::start_agent() {
  ++agents_;
  agent::Identity identity;
  identity.job = setting_.job;
  identity.host = setting_.id;
  identity.name = "h" + std::to_string(setting_.id.value);
  identity.build = "simulated";
  identity.boot_id = "boot-" + std::to_string(boots_);
  identity.agent = boots_ * 1'000'000 + agents_;
  identity.pid = ++pids_;
  inbox_.clear();
  agent_ = std::make_unique<agent::Agent>(std::move(identity), own_now(),
                                          [this](Generation generation, const protocol::Endpoints&,
                                                 const protocol::SharedEndpoints& held) {
                                            return world_.lists().read(generation, obeyed_, held);
                                          });
  if (setting_.data_paths) {
    probes_ = std::make_shared<ProbeHands>(
        queue_, clock_,
        ProbeHands::Hands{
            [this](HostId other, std::uint32_t port) {
              return world_.is_answered(setting_.id, other, port);
            },
            [this](protocol::PathReport report) { feed(agent::PathsSeen{std::move(report)}); },
            [this] { return agent_ && !frozen_since_; }});
  }
  armed_.reset();
  ways_ = {};
  received_ = newest_incarnation_ = 0;
  feed(agent::DeadlineDue{});
  dial(kRedialMin);
}

void Host::kill_agent() {
  if (!agent_) return;
  close_connection();
  end_agent();
  end_workers();
  queue_.after(kForkTime, [this, life = ++agents_] {
    if (up_ && planted_ && life == agents_) start_agent();
  });
}

void Host::freeze_agent() {
  if (!agent_ || frozen_since_) return;
  world_.data_path_changes(setting_.id);
  frozen_since_ = queue_.now();
}

void Host::thaw_agent() {
  if (!frozen_since_) return;
  const auto gap = queue_.now() - *frozen_since_;
  frozen_since_.reset();
  inbox_.push_front(agent::Stalled{gap});
  ways_.path.stalled(own_now());
  if (ways_.down_since) ways_.down_since = own_now();
  ways_.looks = false;
  run();
  if (probes_) probes_->stalled();
  world_.flush(setting_.id);
  watch();
}

void Host::uproot() {
  close_connection();
  end_agent();
  end_workers();
  planted_ = false;
  ++agents_;
}

void Host::end_agent() {
  if (agent_) world_.data_path_changes(setting_.id);
  end_relaying(true);
  agent_.reset();
  probes_.reset();
  frozen_since_.reset();
}

void Host::crash() {
  end_relaying(false);
  end_agent();
  up_ = planted_ = credited_ = false;
  muted_.reset();
  connection_.reset();
  offer_.reset();
  ++agents_;
  end_workers();
}

void Host::reboot() {
  if (up_) return;
  ++boots_;
  clock_ = HostClock(queue_.now(), kUptime);
  undead_until_ = {};
  up_ = true;
}

void Host::end_workers() {
  for (const auto& [rank, worker] : std::exchange(workers_, {})) {
    worker.gang->die(rank);
    world_.worker_ended(setting_.id, rank, worker.generation);
  }
}

// ---- its network

void Host::close_connection() {
  credited_ = false;
  muted_.reset();
  if (!connection_) return;
  const auto closed = std::exchange(connection_, nullptr);
  note_closed(*closed);
  watch();
  closed->closed_by_host([this, closed] {
    world_.connection_closed(setting_.id, closed, "the connection was closed");
  });
}

void Host::cut_data(bool cut) {
  world_.data_path_changes(setting_.id);
  data_cuts_ = cut ? data_cuts_ + 1 : data_cuts_ - 1;
  if (!cut) world_.flush(setting_.id);
}

std::uint32_t Host::relay_port() const {
  return probes_ && agent_ ? kFirstPort + static_cast<std::uint32_t>(agents_ % kPorts) : 0;
}

std::uint32_t Host::probe_port() const { return frozen_since_ ? 0 : relay_port(); }

void Host::reset_connection() {
  if (!connection_ || !agent_ || frozen_since_) return;
  close_connection();
  feed(agent::ConnectionDown{"reset"});
  dial(kRedialMin / 4);
}

void Host::dial(nanoseconds wait) { dial_after(rng_.between(wait / 2, wait), wait); }

void Host::dial_after(nanoseconds pause, nanoseconds wait) {
  queue_.after(pause, [this, wait, life = agents_] {
    if (life == agents_) connect(wait);
  });
}

void Host::connect(nanoseconds wait) {
  if (!agent_ || connection_) return;
  if (frozen_since_) return dial(wait);
  if (take_tunnel("")) return;
  if (own_now() < ways_.tunnel_first_until) return dial_after(kTunnelLook, wait);
  const auto next = std::min(wait * 2, kRedialMax);
  auto* controller = line_.passes() ? world_.controller_to_dial() : nullptr;
  if (controller == nullptr || dialling_blocked_ > 0) {
    const auto limit = line_.passes() ? 1ms : kConnectLimit;  // refused at once, or no answer
    queue_.after(limit, [this, next, life = agents_] {
      if (life == agents_ && agent_ && !connection_) dial(next);
    });
    return;
  }
  take(world_.connect(setting_.id, *controller, {}), "");
}

void Host::connection_lost(const std::shared_ptr<Connection>& connection,
                           const std::string& reason) {
  if (!connection || connection != connection_) return;
  close_connection();
  if (!agent_) return;
  feed(agent::ConnectionDown{reason});
  dial(kRedialMin);
}

void Host::frame_from_controller(const std::shared_ptr<Connection>& connection,
                                 std::uint64_t number, std::uint64_t acknowledged,
                                 const std::shared_ptr<const protocol::ControllerFrame>& frame) {
  if (!agent_ || connection != connection_) return;
  note_order(*frame);
  received_ = number;
  if (frame->has_welcome()) {
    ways_.lost_after = std::chrono::milliseconds(frame->welcome().lost_after_ms());
    ways_.path.set(setting_.heartbeat, ways_.lost_after);
    watch();
  }
  if (!credited_) ways_.path.heard(acknowledged, own_now());
  if (!ways_.waiting.empty()) answer_waiting(std::nullopt, true);
  feed(agent::FromController{frame});
}

void Host::note_order(const protocol::ControllerFrame& frame) {
  if (frame.has_prepare() || frame.has_abort() || frame.has_find_mark() ||
      frame.has_inspect_checkpoints()) {
    newest_seen_ = std::max(newest_seen_, Generation{frame.generation()});
  }
}

// ---- the machine

void Host::feed(agent::Event event) {
  if (!agent_) return;
  inbox_.push_back(std::move(event));
  run();
}

void Host::run() {
  if (running_ || frozen_since_) return;
  running_ = true;
  const auto life = agents_;
  while (!inbox_.empty() && agent_ && life == agents_) {
    const auto event = std::move(inbox_.front());
    inbox_.pop_front();
    const bool outdated = is_outdated(event);
    for (auto& command : agent_->step(own_now(), event)) {
      const bool harmless = std::holds_alternative<agent::Reconnect>(command) ||
                            std::holds_alternative<agent::Note>(command);
      if (outdated && !harmless) {
        world_.broken("S9: h" + std::to_string(setting_.id.value) +
                      " obeys an older controller than it has heard");
      }
      std::visit([this](auto& c) { perform(c); }, command);
      if (!agent_ || life != agents_) break;
    }
  }
  running_ = false;
  if (agent_ && life == agents_) arm();
}

bool Host::is_outdated(const agent::Event& event) {
  const auto* said = std::get_if<agent::FromController>(&event);
  if (said == nullptr) return false;
  obeyed_ = said->frame;
  const auto incarnation = said->frame->incarnation();
  const bool outdated = incarnation < newest_incarnation_;
  newest_incarnation_ = std::max(newest_incarnation_, incarnation);
  return outdated;
}

void Host::later(nanoseconds delay, agent::Event event) {
  queue_.after(delay, [this, life = agents_, event = std::move(event)] {
    if (agent_ && life == agents_) feed(event);
  });
}

void Host::arm() {
  const auto due = agent_->next_deadline();
  if (!due || *due > own_now() + kNever) return;
  const auto at = clock_.world(*due);
  if (armed_ && *armed_ <= at && *armed_ > queue_.now()) return;
  armed_ = at;
  queue_.at(at, [this, life = agents_, at] {
    if (!agent_ || life != agents_ || armed_ != at) return;
    armed_.reset();
    const auto present = agent_->next_deadline();
    if (present && *present <= own_now()) {
      feed(agent::DeadlineDue{});
    } else {
      arm();
    }
  });
}

}  // namespace dlaunch::simulation
