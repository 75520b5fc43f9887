#include "launcher/controller/controller.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/overloaded.h"
#include "launcher/controller/preflight.h"
#include "launcher/controller/standing_orders.h"
#include "protocol/limits.h"

namespace dlaunch::launcher::controller {
namespace {

namespace job = supervisor::job;
using protocol::AgentFrame;
using protocol::ControllerFrame;

// Leave = SIGKILL + two scans of /proc on each host, in parallel; a host that is slower is named.
constexpr nanoseconds kLeaveLimit = 15s;

}  // namespace

class Controller::Impl {
 public:
  Impl(Setting setting, Rng& rng, Instant now)
      : setting_(std::move(setting)),
        launch_(setting_.launch, rng),
        coordinator_(setting_.rendezvous, setting_.recovered.last_generation, now),
        job_(setting_.job, setting_.recovered, now),
        beat_due_(now + setting_.heartbeat) {
    for (const auto& entry : setting_.rendezvous.hosts) hosts_[entry.id].name = entry.name;
  }

  std::vector<Command> step(Instant now, const Event& event) {
    out_.clear();
    std::visit([&](const auto& e) { on(now, e); }, event);
    drain(now);
    return std::exchange(out_, {});
  }

  [[nodiscard]] std::optional<Instant> next_deadline() const {
    if (ended_) return std::nullopt;
    auto deadline = earlier(launch_.next_deadline(), coordinator_.next_deadline());
    if (!leave_due_) deadline = earlier(deadline, job_.next_deadline());
    deadline = earlier(deadline, leave_due_);
    deadline = earlier(deadline, plant_due_);
    if (connected_ > 0) deadline = earlier(deadline, beat_due_);
    return deadline;
  }

  [[nodiscard]] std::vector<HostView> hosts() const {
    std::vector<HostView> views;
    for (const auto& [id, host] : hosts_) {
      const auto seen = coordinator_.view(id);
      const auto& blind = host.facts.blind_sensors();
      views.push_back({id,
                       host.name,
                       seen.state,
                       seen.reason,
                       seen.last_heard,
                       host.agent_pid,
                       {blind.begin(), blind.end()},
                       host.facts.scratch(),
                       host.connection != 0});
    }
    return views;
  }
  [[nodiscard]] job::View job() const { return job_.view(); }

 private:
  struct Host {
    std::string name;
    std::uint64_t connection = 0;  ///< 0: none
    std::uint64_t agent = 0;
    std::uint32_t agent_pid = 0;
    protocol::Facts facts;
  };
  using Inner = std::variant<launch::Event, rendezvous::Event, job::Event>;

  // ---- events from outside

  void on(Instant now, const Begin&) {
    // Agents of an earlier incarnation find their way back by themselves; the others are planted.
    if (setting_.incarnation.value > 1) {
      plant_due_ = now + setting_.rendezvous.readmit;
    } else {
      inner_.push_back(launch::Event{launch::StartAll{}});
    }
  }
  void on(Instant, const LaunchReported& e) { inner_.push_back(e.event); }
  void on(Instant, const ForJob& e) { inner_.push_back(e.event); }
  void on(Instant, const DrainAsked& e) {
    regroup(rendezvous::DrainAsked{e.host}, e.host, "drain");
  }
  void on(Instant, const AddAsked& e) { regroup(rendezvous::AddAsked{e.host}, e.host, "add"); }
  void on(Instant, const Stalled& e) { tell(rendezvous::Stalled{e.gap}); }

  void on(Instant now, const DeadlineDue&) {
    const auto due = [now](std::optional<Instant> deadline) {
      return deadline && *deadline <= now;
    };
    if (now >= beat_due_) beat(now);
    if (due(plant_due_)) {
      plant_due_.reset();
      inner_.push_back(launch::Event{launch::StartAll{}});
    }
    if (due(launch_.next_deadline())) inner_.push_back(launch::Event{launch::DeadlineDue{}});
    if (due(coordinator_.next_deadline())) tell(rendezvous::DeadlineDue{});
    if (due(job_.next_deadline())) inner_.push_back(job::Event{job::DeadlineDue{}});
    if (due(leave_due_)) end();
  }

  void on(Instant, const AgentConnectionClosed& e) {
    auto& host = hosts_.at(e.host);
    if (host.connection == 0 || host.connection != e.connection) return;
    host.connection = 0;
    --connected_;
    tell(rendezvous::Closed{e.host, e.reason});
    left(e.host);
  }

  void on(Instant, const AgentFrameCame& e) {
    const auto found = hosts_.find(e.host);
    if (found == hosts_.end() || e.frame.job() != setting_.job.job_id) return;
    auto& host = found->second;
    if (e.frame.has_hello()) return on_hello(e, host);
    if (e.connection != host.connection) return;  // a late frame of a connection that was replaced
    tell(rendezvous::Heard{e.host, e.acknowledged_sent_at});
    switch (e.frame.body_case()) {
      case AgentFrame::kReady:
        return on_ready(e, host);
      case AgentFrame::kLogLines:
        out_.push_back(WorkerOutput{e.host, {e.frame.generation()}, e.frame.log_lines()});
        return;
      case AgentFrame::kLeft:
        return left(e.host);
      case AgentFrame::kWorkersGone:
        if (e.frame.generation() >= newest_.value) {
          tell(rendezvous::HostCleaned{e.host});
        }
        break;
      default:
        break;
    }
    inner_.push_back(job::Event{job::FromAgent{e.host, e.frame}});
  }

  // ---- agents

  void on_hello(const AgentFrameCame& e, Host& host) {
    const auto& hello = e.frame.hello();
    if (hello.protocol() != protocol::kProtocolVersion) {
      out_.push_back(CloseConnection{e.host, "it speaks protocol " +
                                                 std::to_string(hello.protocol()) + ", this is " +
                                                 std::to_string(protocol::kProtocolVersion)});
      return;
    }
    if (host.connection == 0) ++connected_;
    const bool same = host.agent == hello.agent();
    host.connection = e.connection;
    host.agent = hello.agent();
    host.agent_pid = hello.agent_pid();
    ControllerFrame welcome;
    *welcome.mutable_welcome() = welcome_for(setting_, e.host);
    send({e.host}, newest_, std::move(welcome));
    if (leave_due_) return order_to_leave({e.host});
    inner_.push_back(launch::Event{launch::HelloSeen{e.host}});
    const auto running = newest_running(hello);
    tell(rendezvous::Arrived{e.host, hello.boot_id(), hello.agent(), running});
    const bool member = same && members_.contains(e.host);
    if (member) {
      for (auto& frame : orders_.for_host(e.host)) send({e.host}, newest_, std::move(frame));
    } else if (running.value > 0) {
      ControllerFrame abort;
      abort.mutable_abort()->set_reason("this host is not part of generation " +
                                        std::to_string(newest_.value));
      send({e.host}, newest_, std::move(abort));
    }
  }

  void on_ready(const AgentFrameCame& e, Host& host) {
    host.facts = e.frame.ready().facts();
    const auto gpus = gpus_wanted(setting_, e.host);
    const auto judged = preflight_.take(e.host, host.name, e.frame.ready(), gpus);
    for (const auto& [id, verdict] : judged) on_judged(id, verdict);
  }

  void on_judged(HostId id, const Preflight::Verdict& verdict) {
    auto& host = hosts_.at(id);
    if (host.connection == 0) return;
    if (!verdict.fit) {
      out_.push_back(Say{host.name + ": " + verdict.sentence});
      return tell(rendezvous::UnfitReported{id, verdict.by_files, verdict.sentence});
    }
    if (auto data = data_of(setting_.welcome.job(), preflight_.report_of(id))) {
      inner_.push_back(job::Event{job::DataKnown{std::move(*data)}});
    }
    inner_.push_back(job::Event{job::FingerprintKnown{id, host.facts.fingerprint()}});
    out_.push_back(FromJob{record("host_ready", id, host.facts.data_address())});
    tell(rendezvous::ReadyReported{id, host.facts.workers(), host.facts.data_address()});
  }

  void send(std::vector<HostId> hosts, Generation generation, ControllerFrame frame) {
    frame.set_job(setting_.job.job_id);
    frame.set_group(protocol::kGroupMain);
    frame.set_generation(generation.value);
    frame.set_incarnation(setting_.incarnation.value);
    out_.push_back(SendToHosts{std::move(hosts), std::move(frame)});
  }

  [[nodiscard]] std::vector<HostId> connected() const {
    std::vector<HostId> ids;
    for (const auto& [id, host] : hosts_) {
      if (host.connection != 0) ids.push_back(id);
    }
    return ids;
  }

  void beat(Instant now) {
    beat_due_ = now + setting_.heartbeat;
    auto ids = connected();
    if (ids.empty()) return;
    ControllerFrame frame;
    frame.mutable_beat();
    send(std::move(ids), newest_, std::move(frame));
  }

  [[nodiscard]] job::Record record(std::string event, HostId host, std::string detail) const {
    return {std::move(event), newest_, host, {}, {}, std::move(detail)};
  }

  void tell(rendezvous::Event event) { inner_.push_back(std::move(event)); }

  void regroup(rendezvous::Event event, HostId host, const char* wish) {
    inner_.push_back(std::move(event));
    inner_.push_back(job::Event{job::RegroupAsked{std::string(wish) + " " + hosts_.at(host).name}});
  }

  // ---- between the machines: a queue, so that none is entered while it runs

  void drain(Instant now) {
    constexpr int kInnerMax = 100'000;  // a start of 65,536 hosts stays below; more is a loop
    for (int count = 0; !inner_.empty(); ++count) {
      DL_CHECK(count < kInnerMax, "the machines of the controller come to rest after an event");
      const auto event = std::move(inner_.front());
      inner_.pop_front();
      std::visit(
          Overloaded{[&](const launch::Event& e) { pass(launch_.step(now, e), now); },
                     [&](const rendezvous::Event& e) { pass(coordinator_.step(now, e), now); },
                     [&](const job::Event& e) {
                       if (!leave_due_) pass(job_.step(now, e), now);
                     }},
          event);
    }
  }
  template <class Commands>
  void pass(Commands commands, Instant now) {
    for (auto& command : commands) {
      std::visit([&](auto& c) { carry(now, c); }, command);
    }
  }

  void carry(Instant, launch::Plant& c) { out_.push_back(PlantOrder{std::move(c)}); }
  void carry(Instant, launch::CancelPlant& c) { out_.push_back(PlantOrder{std::move(c)}); }
  void carry(Instant, launch::HostPlanted&) {}
  void carry(Instant, launch::HostFailed& c) {
    const auto prefix = hosts_.at(c.host).name + ": ";
    auto reason = c.sentence.substr(c.sentence.starts_with(prefix) ? prefix.size() : 0);
    out_.push_back(Say{prefix + reason});
    tell(rendezvous::LaunchFailed{c.host, launch::to_string(c.cause), std::move(reason)});
  }

  void carry(Instant, rendezvous::HostBecame& c) {
    if (c.state == rendezvous::HostState::quarantined) {
      out_.push_back(FromJob{record("quarantined", c.host, c.reason)});
    }
  }
  void carry(Instant, rendezvous::HostSuspected& c) {
    out_.push_back(FromJob{
        record("host_suspected", c.host, "silent for " + std::to_string(c.silent / 1ms) + " ms")});
  }
  void carry(Instant, rendezvous::HostCleared& c) {
    out_.push_back(FromJob{record("host_cleared", c.host, "")});
  }
  void carry(Instant, rendezvous::HostLost& c) {
    out_.push_back(FromJob{record("host_lost", c.host, c.sentence)});
    auto& host = hosts_.at(c.host);
    inner_.push_back(
        launch::Event{launch::Replant{c.host, host.name + " was lost: " + c.sentence}});
    inner_.push_back(job::Event{job::FromCoordinator{std::move(c)}});
  }
  void carry(Instant, rendezvous::DropHost& c) {
    auto& host = hosts_.at(c.host);
    if (host.connection != 0) --connected_;
    host.connection = 0;
    out_.push_back(CloseConnection{c.host, std::move(c.reason)});
  }
  void carry(Instant, rendezvous::StillWaiting& c) { out_.push_back(Say{std::move(c.sentence)}); }
  void carry(Instant, rendezvous::Formed& c) {
    preflight_.settle();
    newest_ = c.plan.generation;
    members_.clear();
    for (const auto& member : c.plan.members) members_.insert(member.host);
    inner_.push_back(job::Event{job::FromCoordinator{std::move(c)}});
  }
  template <class JobMatter>
  void carry(Instant,
             JobMatter& c) requires std::is_constructible_v<rendezvous::Command, JobMatter> {
    inner_.push_back(job::Event{job::FromCoordinator{std::move(c)}});
  }

  void carry(Instant, job::Send& c) {
    orders_.note(c);
    send(std::move(c.hosts), c.generation, std::move(c.body));
  }
  void carry(Instant, job::Form& c) {
    tell(rendezvous::FormAsked{std::move(c.without), std::move(c.reason)});
  }
  void carry(Instant, job::CleanedHost& c) { tell(rendezvous::HostCleaned{c.host}); }
  void carry(Instant, job::BlamedHost& c) {
    tell(rendezvous::HostBlamed{c.host, std::move(c.reason), c.beyond_doubt});
  }
  void carry(Instant, job::DataLinkJudged& c) {
    tell(rendezvous::DataLinkBecame{c.host, c.up, std::move(c.sentence)});
  }
  void carry(Instant now, job::Finish& c) {
    code_ = c.code;
    sentence_ = c.sentence;
    out_.push_back(FromJob{std::move(c)});
    inner_.push_back(launch::Event{launch::StopAll{}});
    leave_due_ = now + kLeaveLimit;
    order_to_leave(connected());
  }
  template <class ForHands>
  void carry(Instant, ForHands& c) requires std::is_constructible_v<job::Command, ForHands> {
    out_.push_back(FromJob{std::move(c)});
  }

  // ---- the end

  void order_to_leave(std::vector<HostId> ids) {
    leaving_.insert(ids.begin(), ids.end());
    if (leaving_.empty()) return end();
    ControllerFrame frame;
    frame.mutable_leave()->set_reason(sentence_);
    send(std::move(ids), newest_, std::move(frame));
  }
  void left(HostId id) {
    if (!leave_due_ || leaving_.erase(id) == 0) return;
    if (leaving_.empty()) end();
  }
  void end() {
    if (ended_) return;
    ended_ = true;
    for (const auto id : leaving_) {
      out_.push_back(Say{hosts_.at(id).name +
                         " did not say that it is clean; its agent ends by its lease, `dlaunch "
                         "clean` looks for leftovers"});
    }
    out_.push_back(Ended{code_, sentence_});
  }

  Setting setting_;
  launch::Launch launch_;
  rendezvous::Coordinator coordinator_;
  job::Job job_;
  Preflight preflight_{setting_.own_files};
  StandingOrders orders_;
  std::map<HostId, Host> hosts_;
  std::size_t connected_ = 0;
  Generation newest_ = setting_.recovered.last_generation;
  std::set<HostId> members_;
  Instant beat_due_;
  std::optional<Instant> plant_due_;
  std::optional<Instant> leave_due_;  ///< set from Finish on
  std::set<HostId> leaving_;
  bool ended_ = false;
  int code_ = 0;
  std::string sentence_;
  std::deque<Inner> inner_;
  std::vector<Command> out_;
};

Controller::Controller(Setting setting, Rng& rng, Instant now)
    : impl_(std::make_unique<Impl>(std::move(setting), rng, now)) {}
Controller::~Controller() = default;

std::vector<Command> Controller::step(Instant now, const Event& event) {
  return impl_->step(now, event);
}
std::optional<Instant> Controller::next_deadline() const { return impl_->next_deadline(); }
std::vector<Controller::HostView> Controller::hosts() const { return impl_->hosts(); }
supervisor::job::View Controller::job() const { return impl_->job(); }

}  // namespace dlaunch::launcher::controller
