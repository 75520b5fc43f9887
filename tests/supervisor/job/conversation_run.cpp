// The verbs about a generation that runs or breaks.
#include <stdexcept>

#include "base/units.h"
#include "tests/supervisor/job/conversation.h"

namespace dlaunch::supervisor::job {
namespace {

std::uint32_t small(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

}  // namespace

void Conversation::progress(Words& words) {
  const auto step = std::stoull(words.next());
  for (const auto& member : plan_.members) {
    if (dead_.contains(member.host)) continue;
    protocol::AgentFrame frame;
    frame.mutable_heartbeat();
    for (std::uint32_t i = 0; i < member.workers; ++i) {
      const auto rank = member.first_rank.value + i;
      if (words.number("rank", rank) != rank) continue;
      auto* status = frame.mutable_heartbeat()->add_workers();
      status->set_rank(rank);
      status->set_pid(1000 + rank);
      status->set_state(words.get("state", "") == "ready" ? protocol::WORKER_READY
                                                          : protocol::WORKER_RUNNING);
      if (step > 0) status->set_step(step);  // as agents do
      status->set_phase(words.get("phase", "forward"));
      status->set_step_seconds(0.1);
      status->set_sequence(words.number("sequence", 0));
      status->set_entered(words.has("entered"));
      status->set_process_state(words.get("process", "S"));
      if (const auto since = parse_duration(words.get("since", "0s"))) {
        status->set_since_progress_seconds(to_seconds(*since));
      }
      note_status(*status);
    }
    if (frame.heartbeat().workers_size() > 0) from(member.host, std::move(frame));
  }
}

void Conversation::testify(HostId id, Words& words, protocol::Evidence evidence) {
  auto& last = evidence_[id];
  evidence.set_number(words.number("number", last + 1));
  last = std::max(last, evidence.number());
  if (const auto ago = parse_duration(words.get("ago", "0s"))) {
    evidence.set_seconds_ago(to_seconds(*ago));
  }
  protocol::AgentFrame frame;
  *frame.mutable_evidence() = std::move(evidence);
  from(id, std::move(frame), words.number("g", plan_.generation.value));
}

void Conversation::exited(Words& words) {
  const auto id = host(words.next());
  protocol::Evidence evidence;
  auto& exited = *evidence.mutable_worker_exited();
  exited.set_rank(small(std::stoull(words.next())));
  exited.set_pid(1000 + exited.rank());
  exited.set_code(static_cast<int>(words.number("code", 0)));
  exited.set_signal(static_cast<int>(words.number("signal", 0)));
  exited.set_out_of_memory(words.has("oom"));
  exited.set_finished(words.has("finished"));
  exited.set_ordered(words.has("ordered"));
  if (words.named.contains("step")) exited.set_step(words.number("step", 0));
  if (words.named.contains("line")) exited.add_last_lines(words.get("line", ""));
  if (is_present(words)) exited_[exited.rank()] = exited;
  testify(id, words, std::move(evidence));
}

void Conversation::failing(Words& words) {
  const auto id = host(words.next());
  protocol::Evidence evidence;
  auto& failing = *evidence.mutable_worker_failing();
  failing.set_rank(small(std::stoull(words.next())));
  failing.set_category(words.next());
  failing.set_reason(words.rest());
  testify(id, words, std::move(evidence));
}

void Conversation::finding(Words& words) {
  const auto id = host(words.next());
  protocol::Evidence evidence;
  evidence.mutable_finding()->set_kind(words.next());
  evidence.mutable_finding()->set_sentence(words.rest());
  testify(id, words, std::move(evidence));
}

void Conversation::link(Words& words) {
  const auto id = host(words.next());
  protocol::Evidence evidence;
  evidence.mutable_link_changed()->set_interface("eth0");
  const bool up = words.next() == "up";
  evidence.mutable_link_changed()->set_up(up);
  links_down_.erase(id);
  if (!up) links_down_[id] = now_;
  testify(id, words, std::move(evidence));
}

void Conversation::path(Words& words) {
  const auto id = host(words.next());
  const bool up = words.next() == "up";
  const rendezvous::DataPathBecame became{id, up, now_ - 450ms,
                                          up ? "" : "the others do not reach it"};
  paths_.erase(id);
  if (!up) paths_[id] = became;
  feed(FromCoordinator{became});
}

void Conversation::written(Words& words) {
  const auto step = std::stoull(words.next());
  for (const auto& member : plan_.members) {
    for (std::uint32_t i = 0; i < member.workers; ++i) {
      const auto rank = member.first_rank.value + i;
      if (words.number("rank", rank) != rank) continue;
      protocol::AgentFrame frame;
      auto& written = *frame.mutable_written();
      written.set_rank(rank);
      written.set_step(step);
      written.set_file("shard-" + std::to_string(rank));
      written.set_seconds(0.5);
      if (is_present(words)) written_[rank] = written;
      from(member.host, std::move(frame), words.number("g", plan_.generation.value));
    }
  }
}

void Conversation::committed(Words& words) {
  protocol::AgentFrame frame;
  frame.mutable_committed()->set_step(std::stoull(words.next()));
  frame.mutable_committed()->set_error(words.get("error", ""));
  if (is_present(words)) committed_ = frame.committed();
  from(plan_.members.at(0).host, std::move(frame), words.number("g", plan_.generation.value));
}

void Conversation::acknowledged(Words& words) {
  for (const auto id : hosts_or_members(words)) {
    protocol::AgentFrame frame;
    frame.mutable_abort_acknowledged();
    from(id, std::move(frame), words.number("g", plan_.generation.value));
  }
}

void Conversation::cleaned(Words& words) {
  for (const auto id : hosts_or_members(words)) {
    protocol::AgentFrame frame;
    frame.mutable_workers_gone();
    from(id, std::move(frame), words.number("g", plan_.generation.value));
  }
}

void Conversation::leave(Words& words) {
  acknowledged(words);
  cleaned(words);
}

// ---- the user

void Conversation::stop(Words& words) {
  feed(StopAsked{words.has("now"), words.has("preempted"), "asked for"});
}
void Conversation::checkpoint(Words&) { feed(CheckpointAsked{}); }
void Conversation::regroup(Words& words) {
  wish_ = words.rest();
  feed(RegroupAsked{wish_});
}

void Conversation::view(Words&) {
  const auto view = job_->view();
  out_.push_back(std::string(to_string(view.state)) + ", generation " +
                 std::to_string(view.generation.value) + ", step " +
                 (view.step ? std::to_string(view.step->value) : "none") + ", disk step " +
                 (view.disk_step ? std::to_string(view.disk_step->value) : "none"));
  for (const auto& rank : view.ranks) {
    out_.push_back("rank " + std::to_string(rank.rank.value) + " on " +
                   policy_.host_names.at(rank.host) + ": " + rank.state);
  }
}

}  // namespace dlaunch::supervisor::job
