// What agents say to a controller that takes over.
#include "base/units.h"
#include "tests/supervisor/job/conversation.h"

namespace dlaunch::supervisor::job {

void Conversation::note_status(const protocol::WorkerStatus& status) {
  auto& told = told_[status.rank()];
  const bool same = told.status.step() == status.step() && told.status.phase() == status.phase() &&
                    told.status.sequence() == status.sequence() &&
                    told.status.state() == status.state();
  if (!same) told.changed_at = now_;
  told.status = status;
}

protocol::Hello Conversation::hello_of(const rendezvous::Member& member) const {
  protocol::Hello hello;
  hello.set_generation(plan_.generation.value);
  hello.set_phase(protocol::HOST_TRAINING);
  for (std::uint32_t i = 0; i < member.workers; ++i) {
    auto* worker = hello.add_workers();
    const auto rank = member.first_rank.value + i;
    worker->set_rank(rank);
    worker->set_pid(1000 + rank);
    const auto told = told_.find(rank);
    if (told != told_.end() && told->second.status.has_step()) {
      worker->set_step(told->second.status.step());
    }
    const auto ended = exited_.find(rank);
    worker->set_alive(ended == exited_.end());
    if (worker->alive()) continue;
    const auto& how = ended->second;
    worker->set_finished(policy_.trainer ? how.finished() : how.code() == 0 && how.signal() == 0);
    if (how.has_step()) worker->set_step(how.step());
  }
  return hello;
}

void Conversation::come_back(const rendezvous::Member& member) {
  const auto id = member.host;
  protocol::AgentFrame beat;
  for (std::uint32_t i = 0; i < member.workers; ++i) {
    const auto told = told_.find(member.first_rank.value + i);
    if (told == told_.end()) continue;
    auto* status = beat.mutable_heartbeat()->add_workers();
    *status = told->second.status;
    status->set_since_progress_seconds(to_seconds(now_ - told->second.changed_at));
  }
  if (beat.has_heartbeat()) from(id, std::move(beat));
  if (const auto down = links_down_.find(id); down != links_down_.end()) {
    protocol::AgentFrame frame;
    auto& evidence = *frame.mutable_evidence();
    evidence.set_number(++evidence_[id]);
    evidence.set_seconds_ago(to_seconds(now_ - down->second));
    evidence.mutable_link_changed()->set_interface("eth0");
    from(id, std::move(frame));
  }
  for (std::uint32_t i = 0; i < member.workers; ++i) {
    const auto said = written_.find(member.first_rank.value + i);
    if (said == written_.end()) continue;
    protocol::AgentFrame frame;
    *frame.mutable_written() = said->second;
    from(id, std::move(frame));
  }
  if (!committed_ || id != plan_.members.front().host) return;
  protocol::AgentFrame frame;
  *frame.mutable_committed() = *committed_;
  from(id, std::move(frame));
}

bool Conversation::take_over() {
  const bool runs = job_ && job_->view().state == JobState::running && !plan_.members.empty();
  if (!runs || !dead_.empty() || !tickets_.empty() || journal_mode_ != "on") return false;
  job_.emplace(policy_, recover(rows_, incidents_), now_);
  feed(Begin{});
  for (const auto& member : plan_.members) feed(AgentArrived{member.host, hello_of(member)});
  for (const auto& member : plan_.members) come_back(member);
  if (!data_.empty()) feed(DataKnown{data_});
  for (const auto& [id, fingerprint] : fingerprints_) feed(FingerprintKnown{id, fingerprint});
  for (const auto& [id, path] : paths_) feed(FromCoordinator{path});
  if (!wish_.empty()) feed(RegroupAsked{wish_});
  out_.clear();
  return true;
}

}  // namespace dlaunch::supervisor::job
