#include "supervisor/host/io/peer_hands.h"

#include <chrono>
#include <utility>

namespace dlaunch::supervisor::host {

PeerHands::PeerHands(boost::asio::io_context& context, std::shared_ptr<Connection> connection,
                     const Identity& identity, std::function<void(protocol::PathReport)> report)
    : connection_(std::move(connection)),
      prober_(context, {identity.job, identity.host, identity.agent, std::move(report)}) {
  Relay::Setting setting;
  setting.job = identity.job;
  setting.host = identity.host;
  setting.way = [connection = connection_] { return connection->direct_way(); };
  relay_ = std::make_shared<Relay>(context, std::move(setting));
}

void PeerHands::heard(const protocol::ControllerFrame& frame) {
  if (frame.has_welcome()) {
    const auto& welcome = frame.welcome();
    connection_->set_path(std::chrono::milliseconds(welcome.heartbeat_ms()),
                          std::chrono::milliseconds(welcome.lost_after_ms()), welcome.peer_key());
    prober_.set_key(welcome.peer_key());
    relay_->set_key(welcome.peer_key());
  }
  relay_->heard();
}

void PeerHands::listen(const protocol::JobSpec& job, protocol::Facts& facts) {
  const PortRange range{job.port_first(), job.port_last()};
  facts.set_probe_port(prober_.open(facts.data_address(), range));
  facts.set_relay_port(relay_->open(facts.data_address(), range));
  if (facts.probe_port() != 0 && facts.relay_port() != 0) return;
  facts.add_blind_sensors(
      "no port of [network] ports is free for probes and relayed connections of the other hosts");
}

void PeerHands::know(protocol::Peers peers, nanoseconds lost_after) {
  connection_->set_peers(peers);
  prober_.set_peers(std::move(peers), lost_after);
}

void PeerHands::stalled() {
  connection_->stalled();
  prober_.stalled();
}

void PeerHands::close() {
  prober_.close();
  relay_->close();
}

}  // namespace dlaunch::supervisor::host
