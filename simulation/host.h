// A simulated host: the real agent machine, its scripted workers and its network.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/rng.h"
#include "protocol/agent_wire.pb.h"
#include "simulation/event_queue.h"
#include "simulation/link.h"
#include "supervisor/host/agent.h"

namespace dlaunch::simulation {

/// What the host asks of the world around it. Owned by the world.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual void frame_to_controller(HostId host, std::uint64_t connection,
                                   const protocol::AgentFrame& frame) = 0;
  virtual void connection_closed(HostId host, std::uint64_t connection) = 0;
  virtual void worker_started(HostId host, Rank rank, Generation generation) = 0;
  virtual void worker_told(HostId host, Rank rank, Generation generation,
                           const protocol::AgentMessage& message) = 0;
  virtual void worker_killed(HostId host, Rank rank, Generation generation) = 0;
  virtual std::string commit(Generation generation, const protocol::Commit& order) = 0;
  virtual protocol::CheckpointsFound inspect() = 0;
  virtual bool controller_is_there() = 0;
};

/// Carries out the agent's commands as `supervisor/host/io` does, with simulated hands.
class Host {
 public:
  Host(HostId id, std::string job, std::uint32_t workers, EventQueue& queue, Rng& rng,
       Surroundings& world);

  /// The holder starts an agent; an older one's workers are gone with it.
  void start_agent();
  /// kill -9 of the agent alone: workers die with it, the holder starts another.
  void kill_agent();
  /// Power loss: nothing is said to anybody; `reboot` brings an empty host with a new boot id.
  void crash();
  void reboot();
  void kill_worker(Rank rank, int signal);
  void worker_says(Rank rank, Generation generation, protocol::WorkerMessage::Body body);
  void worker_exits(Rank rank, Generation generation, int code);
  void frame_from_controller(std::uint64_t connection, const protocol::ControllerFrame& frame);
  /// The controller closed the connection, or is gone.
  void connection_lost();

  struct Worker {
    Generation generation;
    std::uint32_t pid = 0;
  };
  [[nodiscard]] const std::map<Rank, Worker>& workers() const { return workers_; }
  [[nodiscard]] bool up() const { return up_; }
  [[nodiscard]] bool has_agent() const { return agent_ != nullptr; }
  [[nodiscard]] Link& link() { return link_; }
  [[nodiscard]] HostId id() const { return id_; }

 private:
  void feed(const supervisor::host::Event& event);
  void later(nanoseconds delay, supervisor::host::Event event);
  void arm();
  void dial();
  void end_workers();

  void perform(supervisor::host::Send& c);
  void perform(supervisor::host::Reconnect& c);
  void perform(supervisor::host::StartWorker& c);
  void perform(supervisor::host::TellWorker& c);
  void perform(supervisor::host::AskWorkersToEnd& c);
  void perform(supervisor::host::KillAll& c);
  void perform(supervisor::host::PickPort& c);
  void perform(supervisor::host::CheckSelf& c);
  void perform(supervisor::host::CommitCheckpoint& c);
  void perform(supervisor::host::InspectCheckpoints& c);
  void perform(supervisor::host::FindMark& c);
  void perform(supervisor::host::Exit& c);
  void perform(supervisor::host::KnowPeers&) {}
  void perform(supervisor::host::KeepLogs&) {}
  void perform(supervisor::host::Note&) {}

  HostId id_;
  std::string job_;
  std::uint32_t worker_count_;
  EventQueue& queue_;
  Rng& rng_;
  Surroundings& world_;
  Link link_;
  bool up_ = true;
  std::uint64_t boots_ = 1;
  std::uint64_t agents_ = 0;  ///< counts lives of the agent; what an older one ordered is void
  std::uint32_t pids_ = 1000;
  std::uint64_t received_ = 0;
  std::optional<Instant> armed_;
  std::unique_ptr<supervisor::host::Agent> agent_;
  std::map<Rank, Worker> workers_;
};

}  // namespace dlaunch::simulation
