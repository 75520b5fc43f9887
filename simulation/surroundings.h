// What a simulated host asks of the world around it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"
#include "simulation/gang.h"
#include "simulation/list_reader.h"
#include "supervisor/host/command.h"

namespace dlaunch::simulation {

class Connection;
class Host;
class Station;
struct Through;

/// Owned by the world that outlives every host.
class Surroundings {
 public:
  virtual ~Surroundings() = default;

  /// The controller that answers at the login host's address now; null: none.
  virtual Station* controller_to_dial() = 0;
  virtual void frame_to_controller(HostId host, const std::shared_ptr<Connection>& connection,
                                   protocol::AgentFrame&& frame) = 0;
  virtual void connection_closed(HostId host, const std::shared_ptr<Connection>& connection,
                                 const std::string& reason) = 0;
  /// The two ends of a new connection; it stays with the controller that answered. Null: it does
  /// not answer.
  virtual std::shared_ptr<Connection> connect(HostId host, Station& controller,
                                              Through through) = 0;
  /// What passed its bytes on is gone. `said`: both ends are told, else they find out.
  virtual void broke(const std::shared_ptr<Connection>& connection, bool said) = 0;
  /// Bytes pass between these two on the data network.
  [[nodiscard]] virtual bool reaches(HostId host, HostId other) const = 0;
  virtual Host& host(HostId id) = 0;
  /// Something passes again on this host's ways.
  virtual void flush(HostId host) = 0;

  virtual Gang& worker_started(HostId host, Rank rank, Generation generation) = 0;
  virtual void worker_ended(HostId host, Rank rank, Generation generation) = 0;
  virtual void worker_told(HostId host, const supervisor::host::TellWorker& order, Gang& gang) = 0;
  /// What agents read of an Assign.
  virtual ListReader& lists() = 0;
  virtual void wrote(Generation generation, std::uint64_t step, const std::string& file) = 0;
  virtual bool storage_is_out() = 0;
  /// Whom this agent probes from now on.
  virtual void probes(HostId host, const protocol::Peers& peers) = 0;
  /// A datagram from this host to that one's port comes back.
  [[nodiscard]] virtual bool is_answered(HostId host, HostId other, std::uint32_t port) const = 0;
  /// Before something happens to this host's paths: those who probe it look closely from now on.
  virtual void data_path_changes(HostId host) = 0;
  virtual std::string commit(HostId host, Generation generation, const protocol::Commit& order) = 0;
  virtual protocol::CheckpointsFound inspect() = 0;
  virtual void broken(std::string rule) = 0;
};

}  // namespace dlaunch::simulation
