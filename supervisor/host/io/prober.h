// Probes over UDP on the data network: answers those of other agents, sends its own.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "supervisor/host/io/peer_proof.h"
#include "supervisor/host/io/pick_port.h"
#include "supervisor/host/probing.h"

namespace dlaunch::supervisor::host {

/// The agent process answers, not the kernel: an answer shows that the agent runs. Lives on the
/// io_context's thread. What is not of this job's key is dropped without a word.
class Prober {
 public:
  struct Setting {
    std::string job;
    HostId host;
    std::uint64_t agent = 0;
    std::function<void(protocol::PathReport)> report;
  };
  Prober(boost::asio::io_context& context, Setting setting);

  /// Binds a port of the range (first 0: any) at the numeric address. 0: none could be had.
  [[nodiscard]] std::uint32_t open(const std::string& address, PortRange range);
  void set_key(std::string key) { key_ = std::move(key); }
  void set_peers(protocol::Peers peers, nanoseconds lost_after);
  /// This process did not run for a while.
  void stalled();
  void close();
  /// Datagrams that were not of this job or answered no probe of ours.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  // HMAC and the two calls take about 5 us: a flood costs a tenth of a core at most.
  static constexpr std::uint32_t kDatagramsPerSliceMax = 2'000;
  static constexpr nanoseconds kSlice = 100ms;
  static constexpr std::uint32_t kDatagramsPerTurnMax = 64;

  void wait_readable();
  void read_some();
  void take(std::size_t bytes, const boost::asio::ip::udp::endpoint& from);
  void put(const ProbeEvent& event);
  void send(const SendProbe& order);
  void arm();

  boost::asio::io_context& context_;
  Setting setting_;
  std::string key_;
  boost::asio::ip::udp::socket socket_;
  boost::asio::steady_timer timer_, breath_;
  Probing probing_;
  std::map<HostId, boost::asio::ip::udp::endpoint> endpoints_;
  std::array<char, kProofBytes + kProbeBytesMax + 1> buffer_{};
  Instant slice_end_;
  std::uint32_t in_slice_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace dlaunch::supervisor::host
