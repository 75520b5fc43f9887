// Many agents of one job in one process: real TLS and the real wire, and workers that only their
// words are of.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "rendezvous/io/psk.h"

namespace dlaunch::bench {

class FleetAgent;

/// What the fleet has been told in the newest generation, and when the last host was.
struct Moments {
  std::uint64_t generation = 0;
  std::map<protocol::ControllerFrame::BodyCase, std::uint32_t> told;
  std::map<protocol::ControllerFrame::BodyCase, Instant> last_told;
  Instant last_prepared;         ///< when the last agent answered Prepare
  std::size_t assign_bytes = 0;  ///< of one frame
};

/// Lives on one thread, that of its io_context.
class Fleet {
 public:
  struct Setting {
    std::string job;
    rendezvous::Secret secret{};
    std::uint32_t hosts = 0;
    std::uint16_t port = 0;
    std::map<std::string, protocol::FileFact> files;  ///< what every host has, by path
  };
  Fleet(boost::asio::io_context& context, Setting setting);
  ~Fleet();

  /// Everybody dials at once.
  void dial();
  /// A worker of that host is killed; its agent says so.
  void kill_worker(HostId host);
  /// All of a generation above `after` have been told so.
  [[nodiscard]] bool all_told(protocol::ControllerFrame::BodyCase body, std::uint64_t after) const;
  [[nodiscard]] const Moments& moments() const { return moments_; }
  [[nodiscard]] std::uint32_t welcomed() const { return welcomed_; }
  [[nodiscard]] std::uint32_t lost() const { return lost_; }
  [[nodiscard]] std::uint64_t heartbeats() const { return heartbeats_; }
  [[nodiscard]] std::uint64_t beats() const { return beats_; }
  [[nodiscard]] const std::string& last_reason() const { return last_reason_; }

 private:
  friend class FleetAgent;
  void on_frame(FleetAgent& agent, const protocol::ControllerFrame& frame, std::size_t bytes);
  void on_closed(const std::string& reason);
  void arm_pulse();
  void pulse();

  boost::asio::io_context& context_;
  Setting setting_;
  std::vector<std::shared_ptr<FleetAgent>> agents_;
  boost::asio::steady_timer pulse_;
  std::uint64_t pulses_ = 0;
  std::uint32_t heartbeat_ms_ = 100;
  Moments moments_;
  std::uint32_t welcomed_ = 0;
  std::uint32_t lost_ = 0;
  std::uint64_t heartbeats_ = 0;
  std::uint64_t beats_ = 0;
  std::string last_reason_;
};

}  // namespace dlaunch::bench
