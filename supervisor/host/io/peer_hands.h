// What an agent does with and for the other agents of its job: probes and relays.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "supervisor/host/agent.h"
#include "supervisor/host/io/connection.h"
#include "supervisor/host/io/prober.h"
#include "supervisor/host/io/relay.h"

namespace dlaunch::supervisor::host {

/// Lives on the io_context's thread.
class PeerHands {
 public:
  PeerHands(boost::asio::io_context& context, std::shared_ptr<Connection> connection,
            const Identity& identity, std::function<void(protocol::PathReport)> report);

  /// Every frame of the controller, before it is obeyed.
  void heard(const protocol::ControllerFrame& frame);
  /// At the data address. Without a port the host goes without, which `facts` say.
  void listen(const protocol::JobSpec& job, protocol::Facts& facts);
  void know(protocol::Peers peers, nanoseconds lost_after);
  /// This process did not run for a while: nothing could be heard of anybody.
  void stalled();
  void close();

 private:
  std::shared_ptr<Connection> connection_;
  Prober prober_;
  std::shared_ptr<Relay> relay_;
};

}  // namespace dlaunch::supervisor::host
