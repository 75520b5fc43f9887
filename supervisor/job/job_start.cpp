// From the quorum to Go: inspecting checkpoints, forming, preparing and joining a generation.
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "supervisor/job/exit_code.h"
#include "supervisor/job/job_impl.h"

namespace dlaunch::supervisor::job {
namespace {

using nlohmann::json;

constexpr nanoseconds kInspectLimit = 60s;  // a slow network file system's first answer

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

}  // namespace

// ---- the coordinator

void Job::Impl::on(Instant now, const FromCoordinator& e) {
  std::visit([&](const auto& command) { on_coordinator(now, command); }, e.command);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::QuorumReached& e) {
  if (!std::holds_alternative<Gathering>(state_)) return;
  if (stop_)
    return become_over(now, to_int(ExitCode::stopped), JobState::stopped,
                       "stopped before it began: " + stop_->reason);
  become_forming(now, e.sentence);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::QuorumImpossible& e) {
  const auto code = e.by_files     ? ExitCode::wrong_file
                    : e.all_by_key ? ExitCode::ssh_key
                                   : ExitCode::hosts_missing;
  become_over(now, to_int(code), JobState::failed, "cannot start: " + e.sentence);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::Formed& e) {
  if (std::holds_alternative<Forming>(state_)) become_journaling(now, e);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::CannotForm& e) {
  auto* forming = std::get_if<Forming>(&state_);
  if (forming == nullptr) return;
  if (stop_)
    return become_over(now, to_int(ExitCode::stopped), JobState::stopped,
                       "stopped while it waited for hosts: " + stop_->reason);
  forming->give_up_at = now + policy_.wait_for_host;
  if (incidents_.is_open()) {
    incidents_.verdict("wait", "waiting for a host");
    incident_changed();
    record("verdict", {}, {}, "wait: " + e.sentence);
  }
  set_state(JobState::waiting, "waiting up to " + format_duration(policy_.wait_for_host) +
                                   " for hosts: " + e.sentence);
}

void Job::Impl::on_coordinator(Instant now, const rendezvous::HostReturned& e) {
  unsure_.erase(e.host);
  record("host_back", e.host, {}, e.joins ? "it joins at the next step boundary" : "it is a spare");
  if (auto* sure = std::get_if<MakingSure>(&state_); sure != nullptr && unsure_.empty()) {
    return become_forming(now, reason_);
  }
  if (!e.joins || !has_checkpoints() || !std::holds_alternative<Running>(state_)) return;
  on(now, RegroupAsked{name(e.host) + " joins"});
}

// ---- forming

void Job::Impl::become_forming(Instant now, std::string reason) {
  std::erase_if(unsure_, [&](const auto& entry) { return entry.second <= now; });
  if (!policy_.trainer && !unsure_.empty()) {
    Instant due = now;
    std::string hosts;
    for (const auto& [host, until] : unsure_) {
      due = std::max(due, until);
      hosts += (hosts.empty() ? "" : ", ") + name(host);
    }
    set_state(JobState::waiting,
              "the program may still run on " + hosts +
                  ", which cannot be reached; it is started again once its lease "
                  "there is over");
    state_ = MakingSure{due};
    return;
  }
  state_ = Forming{};
  out_.push_back(Form{std::exchange(unusable_, {}), std::move(reason)});
}

void Job::Impl::become_journaling(Instant now, const rendezvous::Formed& formed) {
  const auto before = plan_;
  plan_ = formed.plan;
  generation_ = plan_.generation;
  if (incidents_.is_open()) {
    const bool fewer = plan_.members.size() < before.members.size();
    std::string what;
    std::string verdict = "restart_workers";
    for (const auto& [lost, replacement] : plan_.replaced) {
      verdict = "replace_host";
      what += (what.empty() ? "" : ", ") + name(replacement) + " takes the ranks of " + name(lost);
    }
    if (verdict != "replace_host" && fewer) verdict = "shrink";
    if (verdict == "shrink") {
      what = "going on with " + std::to_string(plan_.members.size()) + " hosts instead of " +
             std::to_string(before.members.size());
    }
    if (verdict == "restart_workers") what = "the workers are restarted on the same hosts";
    incidents_.replaced(now);
    incidents_.verdict(verdict, what);
    incident_changed();
    record("verdict", incidents_.present().host, incidents_.present().rank, verdict + ": " + what);
  }
  ranks_.begin_generation(plan_, now);
  checkpoints_.begin_generation(plan_.world_size);
  progressed_ = false;
  generation_first_ = best_step_;
  json members = json::array();
  for (const auto& member : plan_.members) {
    members.push_back({{"host", name(member.host)},
                       {"first_rank", member.first_rank.value},
                       {"workers", member.workers}});
  }
  const auto ticket = journal("generation", json{{"generation", generation_.value},
                                                 {"members", members},
                                                 {"best_step", best_step_.value_or(Step{}).value}}
                                                .dump());
  state_ = Journaling{ticket};
}

void Job::Impl::on(Instant now, const Journaled& e) {
  const auto* journaling = std::get_if<Journaling>(&state_);
  if (journaling != nullptr && journaling->ticket == e.ticket) {
    record("generation_formed", {}, {},
           std::to_string(plan_.members.size()) + " hosts, world size " +
               std::to_string(plan_.world_size));
    if (has_checkpoints()) return become_inspecting(now);
    return become_preparing(now);
  }
  const auto commit = commits_.find(e.ticket);
  if (commit == commits_.end()) return;
  protocol::ControllerFrame frame;
  *frame.mutable_commit() = commit->second;
  commits_.erase(commit);
  send({plan_.members.front().host}, std::move(frame));
}

void Job::Impl::on(Instant, const JournalFailed& e) {
  set_state(shown_, "decisions wait until run.db can be written: " + e.sentence);
}

// ---- checkpoints of before

/// Inspected anew for each generation: the host that holds the directory's lock may be gone, and
/// what the dying generation left is known only to the disk.
void Job::Impl::become_inspecting(Instant now) {
  state_ = Inspecting{plan_.members.front().host, now + kInspectLimit};
  protocol::ControllerFrame frame;
  frame.mutable_inspect_checkpoints();
  send({plan_.members.front().host}, std::move(frame));
}

void Job::Impl::on_found(Instant now, HostId host, const protocol::CheckpointsFound& found) {
  const auto* inspecting = std::get_if<Inspecting>(&state_);
  if (inspecting == nullptr || inspecting->host != host) return;
  const auto& directory = policy_.checkpoint_directory;
  const auto refuse = [&](ExitCode code, std::string sentence) {
    become_over(now, to_int(code), JobState::failed, std::move(sentence));
  };
  if (!found.error().empty()) {
    return refuse(ExitCode::storage, "the checkpoint directory cannot be used: " + found.error());
  }
  if (!found.locked_by().empty()) {
    return refuse(ExitCode::wrong_file, directory + " is in use by the job " + found.locked_by() +
                                            "; stop it first, or choose another directory");
  }
  const bool first = generation_.value == 1 || !best_step_;
  if (policy_.fresh && first && found.checkpoints_size() > 0) {
    return refuse(ExitCode::wrong_file,
                  "--fresh needs an empty directory, but " + directory + " holds step " +
                      std::to_string(found.checkpoints(found.checkpoints_size() - 1).step()));
  }
  std::vector<Step> steps;
  for (const auto& fact : found.checkpoints()) steps.push_back(Step{fact.step()});
  checkpoints_.found(steps);
  if (found.checkpoints_size() > 0) {
    const auto& newest = found.checkpoints(found.checkpoints_size() - 1);
    auto differences = judge_match(policy_.trainer_settings, newest.config());
    if (!data_.empty()) {
      for (auto& difference :
           judge_match("{\"data\":" + data_ + "}", "{\"data\":" + newest.data() + "}")) {
        differences.push_back(std::move(difference));
      }
    }
    if (!differences.empty()) {
      return refuse(ExitCode::wrong_file, "the checkpoint " + directory + "/step-" +
                                              std::to_string(newest.step()) +
                                              " is of another run: " + join(differences) +
                                              "; use the same settings, or another directory");
    }
  }
  restore_step_ = checkpoints_.newest();
  if (!best_step_ || (restore_step_ && *best_step_ < *restore_step_)) {
    best_step_ = restore_step_;
    generation_first_ = best_step_;
  }
  become_preparing(now);
}

void Job::Impl::on(Instant, const DataKnown& e) { data_ = e.json; }

// ---- preparing and joining

void Job::Impl::become_preparing(Instant now) {
  state_ = Preparing{now + policy_.start_limit, {}};
  std::uint32_t index = 0;
  for (const auto& member : plan_.members) {
    protocol::ControllerFrame frame;
    auto& prepare = *frame.mutable_prepare();
    prepare.set_world_size(plan_.world_size);
    prepare.set_first_rank(member.first_rank.value);
    prepare.set_workers(member.workers);
    prepare.set_host_index(index++);
    prepare.set_hosts(static_cast<std::uint32_t>(plan_.members.size()));
    send({member.host}, std::move(frame));
  }
}

void Job::Impl::on_prepared(Instant now, HostId host, const protocol::Prepared& prepared) {
  auto* preparing = std::get_if<Preparing>(&state_);
  if (preparing == nullptr) return;
  preparing->prepared[host] = prepared;
  if (preparing->prepared.size() < plan_.members.size()) return;
  become_joining(now, Preparing(*preparing));
}

void Job::Impl::become_joining(Instant now, const Preparing& prepared) {
  state_ = Joining{now + policy_.start_limit, {}, {}};
  protocol::ControllerFrame frame;
  auto& assign = *frame.mutable_assign();
  for (const auto& [host, answer] : prepared.prepared) {
    for (const auto& endpoint : answer.endpoints()) *assign.add_endpoints() = endpoint;
  }
  if (restore_step_) assign.set_restore_step(restore_step_->value);
  send_all(std::move(frame));
}

void Job::Impl::on_connected(Instant now, HostId host) {
  auto* joining = std::get_if<Joining>(&state_);
  if (joining == nullptr || !joining->connected.insert(host).second) return;
  if (joining->connected.size() == plan_.members.size()) incidents_.regrouped(now);
}

void Job::Impl::on_restored(Instant now, HostId host, const protocol::Restored& restored) {
  auto* joining = std::get_if<Joining>(&state_);
  if (joining == nullptr) return;
  joining->connected.insert(host);
  joining->restored.insert(host);
  if (joining->restored.size() < plan_.members.size()) return;
  const auto step = Step{restored.step()};
  record("restored", {}, {}, "", step);
  const auto best = best_step_.value_or(Step{}).value;
  incidents_.restored(now, best > step.value ? best - step.value : 0);
  if (incidents_.is_open()) incident_changed();
  become_running(now);
}

}  // namespace dlaunch::supervisor::job
