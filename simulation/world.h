// A simulated world around the real machines: one controller, many agents, faults by the seed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "launcher/controller/controller.h"
#include "simulation/event_queue.h"
#include "simulation/gang.h"
#include "simulation/host.h"
#include "simulation/storage.h"

namespace dlaunch::simulation {

struct Scenario {
  std::uint64_t seed = 1;
  std::uint32_t hosts = 4;  ///< that train
  std::uint32_t spares = 1;
  std::uint32_t hosts_min = 4;
  std::uint32_t workers = 1;  ///< per host
  TrainingScript training;
  std::uint32_t faults = 0;  ///< at random times, of all kinds
  nanoseconds fault_every = 20s;
  nanoseconds limit = 1h;  ///< simulated; the job must have ended by then
};

struct Outcome {
  std::optional<int> code;  ///< nullopt: the job did not end within the limit
  std::string sentence;
  std::uint64_t generations = 0;
  std::uint64_t incidents = 0;
  std::uint64_t committed_step = 0;
  std::uint64_t events = 0;
  std::uint64_t trace_hash = 0;     ///< equal for equal seeds
  std::vector<std::string> broken;  ///< safety rules that did not hold
  std::vector<std::string> trace;   ///< the newest lines
};

/// Everything happens in `run`, on the caller's thread, without reading a clock.
class World final : public Surroundings {
 public:
  explicit World(Scenario scenario);
  [[nodiscard]] Outcome run();

  void frame_to_controller(HostId host, std::uint64_t connection,
                           const protocol::AgentFrame& frame) override;
  void connection_closed(HostId host, std::uint64_t connection) override;
  void worker_started(HostId host, Rank rank, Generation generation) override;
  void worker_told(HostId host, Rank rank, Generation generation,
                   const protocol::AgentMessage& message) override;
  void worker_killed(HostId host, Rank rank, Generation generation) override;
  std::string commit(Generation generation, const protocol::Commit& order) override;
  protocol::CheckpointsFound inspect() override;
  bool controller_is_there() override { return !outcome_.code; }

 private:
  static constexpr std::size_t kTraceLinesMax = 200;

  void feed(const launcher::controller::Event& event);
  void arm();
  void trace(const std::string& line);
  void broken(std::string rule);
  void plant(HostId host, std::uint64_t attempt);
  void inject();
  void check_end();
  Gang& gang(Generation generation);
  void deed(Generation generation, Rank rank, Deed deed, std::uint64_t step);

  void perform(launcher::controller::SendToHosts& c);
  void perform(launcher::controller::CloseConnection& c);
  void perform(launcher::controller::PlantOrder& c);
  void perform(launcher::controller::FromJob& c);
  void perform(launcher::controller::Say& c);
  void perform(launcher::controller::WorkerOutput&) {}
  void perform(launcher::controller::Ended& c);

  Scenario scenario_;
  Rng rng_;
  EventQueue queue_;
  Storage storage_;
  std::map<HostId, std::unique_ptr<Host>> hosts_;
  std::map<Generation, std::unique_ptr<Gang>> gangs_;
  /// Per connection: when each frame of the controller was sent, by its number.
  std::map<HostId, std::vector<Instant>> sent_at_;
  std::map<HostId, std::uint64_t> connection_;
  std::map<Rank, HostId> placed_;  ///< of the newest generation
  std::optional<Instant> armed_;
  std::uint32_t faults_left_ = 0;
  Outcome outcome_;
  std::unique_ptr<launcher::controller::Controller> controller_;
};

}  // namespace dlaunch::simulation
