// A simulated world around the real machines: controllers, agents, faults by the seed, rules.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/dense_map.h"
#include "base/rng.h"
#include "simulation/event_queue.h"
#include "simulation/gang.h"
#include "simulation/host.h"
#include "simulation/list_reader.h"
#include "simulation/outcome.h"
#include "simulation/safety.h"
#include "simulation/scenario.h"
#include "simulation/station.h"
#include "simulation/storage.h"
#include "simulation/surroundings.h"
#include "simulation/trace.h"

namespace dlaunch::simulation {

class Injector;

/// Everything happens in `run`, on the caller's thread, without reading a clock: first faults, then
/// all is healed and the job must recover, then it is brought to its end.
class World final : public Surroundings, public Watcher {
 public:
  World(Scenario scenario, std::uint64_t seed, Trace::Sink sink = {});
  ~World() override;
  [[nodiscard]] Outcome run();

  // ---- for the injector
  [[nodiscard]] EventQueue& queue() { return queue_; }
  [[nodiscard]] Station::Hosts& hosts() { return hosts_; }
  [[nodiscard]] Storage& storage() { return storage_; }
  [[nodiscard]] RunDb& run_db() { return run_db_; }
  [[nodiscard]] SshTrouble& ssh() { return ssh_; }
  /// The newest controller.
  [[nodiscard]] Station& station() { return *stations_.back(); }
  [[nodiscard]] bool is_over() const { return ended_; }
  [[nodiscard]] Gang* newest_gang();
  /// Another controller is started from the journal; the one before may live on.
  Station& start_station();
  /// Before something happens to a host's line or to the controller: from now on each heartbeat is
  /// sent, the next one at once.
  void line_changed(HostId host);
  void all_lines_changed();
  void line_healed(HostId host);
  void all_healed(Station& station);
  /// The controller hears nobody: what its agents would say into the void is not sent.
  void mute_all(const Station& station);
  void end_mute_all();
  /// Nothing passes between these two on the data network.
  void cut_pair(HostId one, HostId other, bool cut);
  void note(const std::string& what, const std::string& detail);

  // ---- Surroundings
  Station* controller_to_dial() override;
  void frame_to_controller(HostId host, const std::shared_ptr<Connection>& connection,
                           protocol::AgentFrame&& frame) override;
  void connection_closed(HostId host, const std::shared_ptr<Connection>& connection,
                         const std::string& reason) override;
  std::shared_ptr<Connection> connect(HostId host, Station& controller, Through through) override;
  void broke(const std::shared_ptr<Connection>& connection, bool said) override;
  [[nodiscard]] bool reaches(HostId host, HostId other) const override {
    return hosts_.at(host)->is_on_data_network() && hosts_.at(other)->is_on_data_network() &&
           !cut_pairs_.contains(std::minmax(host, other));
  }
  Host& host(HostId id) override { return *hosts_.at(id); }
  void flush(HostId host) override;
  Gang& worker_started(HostId host, Rank rank, Generation generation) override;
  void worker_ended(HostId host, Rank rank, Generation generation) override;
  void worker_told(HostId host, const supervisor::host::TellWorker& order, Gang& gang) override;
  ListReader& lists() override { return lists_; }
  void wrote(Generation generation, std::uint64_t step, const std::string& file) override;
  bool storage_is_out() override { return storage_.is_out(); }
  void probes(HostId host, const protocol::Peers& peers) override;
  [[nodiscard]] bool is_answered(HostId host, HostId other, std::uint32_t port) const override;
  void data_path_changes(HostId host) override;
  std::string commit(HostId host, Generation generation, const protocol::Commit& order) override;
  protocol::CheckpointsFound inspect() override { return storage_.inspect(); }

  // ---- Watcher
  void said(const Station& station, const std::string& column, std::string text) override;
  void recorded(const Station& station, const supervisor::job::Record& record) override;
  void incident_changed(const supervisor::job::Incident& incident) override;
  void state_became(const Station& station, const supervisor::job::StateBecame& state) override;
  void stepped(const Station& station) override {
    if (is_newest(station)) safety_.stepped();
  }
  void ended(const Station& station, int code, const std::string& sentence) override;
  void broken(std::string rule) override;

 private:
  [[nodiscard]] bool is_newest(const Station& station) const {
    return !stations_.empty() && stations_.back().get() == &station;
  }
  void run_until(Instant limit);
  void bring_to_end();
  void check_liveness();
  [[nodiscard]] std::string why_not_recovered();
  void check_end();
  void check_expectations();
  [[nodiscard]] bool is_told_the_same(const supervisor::host::TellWorker& order);
  void finish_outcome();
  void forget_lists();

  Scenario scenario_;
  Trace trace_;
  EventQueue queue_;
  Storage storage_;
  RunDb run_db_;
  Safety safety_;
  SshTrouble ssh_ = SshTrouble::none;
  Rng line_dice_;
  Rng gang_dice_;
  std::uint64_t seed_;
  Ending ending_ = Ending::finish;
  Station::Hosts hosts_;
  std::vector<std::unique_ptr<Station>> stations_;
  struct Crew {
    std::unique_ptr<Gang> gang;
    std::vector<Host*> places;                   ///< by rank, where it lives
    protocol::SharedEndpoints endpoints;         ///< as the first of its ranks was told
    std::optional<std::uint64_t> fingerprint{};  ///< in their place, once nobody of it lives
  };
  std::map<Generation, Crew> crews_;
  ListReader lists_;
  DenseMap<HostId, std::vector<std::weak_ptr<Connection>>>
      links_,  ///< connections that may still carry something
      pipes_;  ///< by relay
  DenseMap<HostId, std::vector<HostId>> probed_by_, probed_;  ///< in the order of hosts
  std::multiset<std::pair<HostId, HostId>> cut_pairs_;        ///< the smaller first
  std::uint64_t connections_ = 0;
  std::unique_ptr<Injector> injector_;
  bool ended_ = false;
  Outcome outcome_;
};

}  // namespace dlaunch::simulation
