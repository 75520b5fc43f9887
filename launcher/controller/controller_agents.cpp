// What agents say, and what every one of them is told.
#include <algorithm>
#include <utility>

#include "base/mutant.h"
#include "base/probe.h"
#include "launcher/controller/controller_impl.h"
#include "protocol/limits.h"

namespace dlaunch::launcher::controller {

namespace job = supervisor::job;
using protocol::AgentFrame;
using protocol::ControllerFrame;
namespace {

/// The newest generation of which workers run there; 0: none.
Generation newest_running(const protocol::Hello& hello) {
  Generation running;
  for (const auto& worker : hello.workers()) {
    if (worker.alive()) running = std::max(running, Generation{worker.generation()});
  }
  return running;
}

}  // namespace

void Controller::Impl::on(Instant, const AgentConnectionClosed& e) {
  auto& host = hosts_.at(e.host);
  if (host.connection == 0 || host.connection != e.connection) return;
  host.connection = 0;
  --connected_;
  // A login may take its time, and nothing is wrong with the agent meanwhile.
  const auto patience = host.over_ssh ? setting_.rendezvous.readmit : nanoseconds(0);
  tell(rendezvous::Closed{e.host, e.reason, leave_due_.has_value(), patience});
  if (host.over_ssh) {
    DL_PROBE("an SSH connection that carried control has ended");
    reach_again(e.host, e.reason);
  }
  left(e.host);
}

/// Its agent has no way back of its own.
void Controller::Impl::reach_again(HostId id, const std::string& why) {
  if (leave_due_) return;
  const auto said = hosts_.at(id).name + ": its connection over SSH has ended: " + why;
  inner_.push_back(launch::Event{launch::Replant{id, said, true}});
}

void Controller::Impl::on(Instant now, AgentFrameCame& e) {
  const auto found = hosts_.find(e.host);
  if (found == hosts_.end() || e.frame.job() != setting_.job.job_id) return;
  auto& host = found->second;
  if (e.frame.incarnation() > setting_.incarnation.value) {
    return become_superseded(host.name + " obeys a newer controller of this job");
  }
  if (e.frame.has_hello()) return on_hello(now, e, host);
  if (e.connection != host.connection) return;  // a late frame of a connection that was replaced
  tell(rendezvous::Heard{e.host, e.acknowledged_sent_at});
  if (e.frame.has_heartbeat()) ++host.heartbeats;
  switch (e.frame.body_case()) {
    case AgentFrame::kReady:
      return on_ready(now, e, host);
    case AgentFrame::kPathReport:
      return tell(words_of(e.host, e.frame.path_report()));
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
  inner_.push_back(job::Event{job::FromAgent{e.host, std::move(e.frame)}});
}

// ---- agents

void Controller::Impl::on_hello(Instant now, const AgentFrameCame& e, Host& host) {
  const auto& hello = e.frame.hello();
  if (hello.protocol() != protocol::kProtocolVersion) {
    out_.push_back(CloseConnection{e.host, "it speaks protocol " +
                                               std::to_string(hello.protocol()) + ", this is " +
                                               std::to_string(protocol::kProtocolVersion)});
    return;
  }
  if (host.connection == 0) ++connected_;
  // A member of the generation that was there before this controller is met for the first time.
  const bool same = host.agent == hello.agent() || host.agent == 0;
  host.connection = e.connection;
  host.agent = hello.agent();
  host.agent_pid = hello.agent_pid();
  ControllerFrame welcome;
  *welcome.mutable_welcome() = welcome_for(setting_, e.host);
  send({e.host}, newest_, std::move(welcome));
  if (leave_due_) return order_to_leave({e.host});
  inner_.push_back(launch::Event{launch::HelloSeen{e.host}});
  if (host.over_ssh && !hello.relayed_by().empty()) {
    reach_again(e.host, hello.relayed_by() + " relays meanwhile");
  }
  note_way(e.host, host, hello, same);
  const auto running = newest_running(hello);
  tell(rendezvous::Arrived{e.host, hello.boot_id(), hello.agent(), running, hello.relayed_by(),
                           Generation{hello.generation()}});
  if (!same) peers_.gone(now, e.host);
  peers_.greeted(now, e.host);
  const bool member = same && members_.contains(e.host);
  if (member) {
    inner_.push_back(job::Event{job::AgentArrived{e.host, hello}});
    for (auto& frame : orders_.for_host(e.host)) {
      if (!DL_MUTANT("orders_not_repeated")) send({e.host}, newest_, std::move(frame));
    }
  } else if (running.value > 0) {
    DL_PROBE("workers of a host that is no member are ended");
    ControllerFrame abort;
    abort.mutable_abort()->set_reason("this host is not part of generation " +
                                      std::to_string(newest_.value));
    const Generation there{hello.generation()};
    send({e.host}, std::max(newest_, there), std::move(abort));
  }
}

/// A further incarnation has to dial a host that cannot dial by itself.
void Controller::Impl::note_way(HostId id, Host& host, const protocol::Hello& hello, bool same) {
  if (hello.over_ssh() && same) DL_PROBE("an agent goes on over another SSH connection");
  host.over_ssh = hello.over_ssh();
  if (!hello.relayed_by().empty()) return;
  if (std::exchange(host.cannot_dial, host.over_ssh) == host.over_ssh) return;
  inner_.push_back(job::Event{job::WayKnown{id, host.over_ssh}});
}

void Controller::Impl::on_ready(Instant now, const AgentFrameCame& e, Host& host) {
  host.facts = e.frame.ready().facts();
  peers_.present(now, e.host, host.name, host.facts);
  const auto gpus = gpus_wanted(setting_, e.host);
  const auto judged = preflight_.take(e.host, host.name, e.frame.ready(), gpus);
  for (const auto& [id, verdict] : judged) on_judged(id, verdict);
}

void Controller::Impl::on_judged(HostId id, const Preflight::Verdict& verdict) {
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

void Controller::Impl::send(std::vector<HostId> hosts, Generation generation,
                            ControllerFrame frame) {
  frame.set_job(setting_.job.job_id);
  frame.set_group(protocol::kGroupMain);
  frame.set_generation(generation.value);
  frame.set_incarnation(setting_.incarnation.value);
  out_.push_back(SendToHosts{std::move(hosts), std::move(frame)});
}

std::vector<HostId> Controller::Impl::connected() const {
  std::vector<HostId> ids;
  for (const auto& [id, host] : hosts_) {
    if (host.connection != 0) ids.push_back(id);
  }
  return ids;
}

void Controller::Impl::beat(Instant now) {
  beat_due_ = now + setting_.heartbeat;
  auto ids = connected();
  if (ids.empty()) return;
  ControllerFrame frame;
  frame.mutable_beat();
  send(std::move(ids), newest_, std::move(frame));
}

/// Who probes and relays whom, to those for whom it has changed.
void Controller::Impl::send_peers(Instant now) {
  for (auto& [host, list] : peers_.take(now)) {
    ControllerFrame frame;
    *frame.mutable_peers() = std::move(list);
    send({host}, newest_, std::move(frame));
  }
}

}  // namespace dlaunch::launcher::controller
