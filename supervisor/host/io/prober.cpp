#include "supervisor/host/io/prober.h"

#include <fcntl.h>

#include <utility>
#include <variant>

#include "base/io/clock.h"
#include "base/overloaded.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;
using asio::ip::udp;
using boost::system::error_code;

namespace {

// As base/io/driver.h: a process that is so late did not run.
constexpr nanoseconds kStallGap = 250ms;

}  // namespace

Prober::Prober(asio::io_context& context, Setting setting)
    : context_(context),
      setting_(std::move(setting)),
      socket_(context),
      timer_(context),
      breath_(context) {}

std::uint32_t Prober::open(const std::string& address, PortRange range) {
  close();
  error_code code;
  const auto numeric = asio::ip::make_address(address, code);
  if (code) return 0;
  const auto port = find_port(range, 0, [&](std::uint32_t wanted) {
    udp::socket socket(context_);
    error_code failed;
    const udp::endpoint endpoint(numeric, static_cast<std::uint16_t>(wanted));
    socket.open(endpoint.protocol(), failed);
    if (!failed) ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    if (!failed) socket.bind(endpoint, failed);
    if (!failed) socket.non_blocking(true, failed);
    if (failed) return 0U;
    const auto bound = socket.local_endpoint(failed).port();
    socket_ = std::move(socket);
    return static_cast<std::uint32_t>(bound);
  });
  if (port != 0) wait_readable();
  return port;
}

void Prober::close() {
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  breath_.cancel();
}

void Prober::set_peers(protocol::Peers peers, nanoseconds lost_after) {
  endpoints_.clear();
  for (const auto& peer : peers.peers()) {
    error_code code;
    const auto address = asio::ip::make_address(peer.address(), code);
    if (code || endpoints_.size() >= Probing::kPeersMax) continue;
    endpoints_[HostId{peer.host()}] = {address, static_cast<std::uint16_t>(peer.probe_port())};
  }
  put(PeersGiven{std::move(peers), lost_after});
}

void Prober::stalled() { put(ProbingStalled{}); }

void Prober::put(const ProbeEvent& event) {
  if (!socket_.is_open()) return;
  for (auto& command : probing_.step(monotonic_now(), event)) {
    std::visit(Overloaded{[this](const SendProbe& order) { send(order); },
                          [this](ReportPaths& order) { setting_.report(std::move(order.report)); }},
               command);
  }
  arm();
}

void Prober::arm() {
  const auto due = probing_.next_deadline();
  if (!due) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(*due);
  timer_.async_wait([this, due = *due](const error_code& code) {
    if (code) return;
    if (monotonic_now() - due > kStallGap) put(ProbingStalled{});
    put(ProbeDue{});
  });
}

void Prober::send(const SendProbe& order) {
  const auto found = endpoints_.find(order.host);
  if (found == endpoints_.end() || key_.empty()) return;
  protocol::ProbeDatagram probe;
  probe.set_job(setting_.job);
  probe.set_from(setting_.host.value);
  probe.set_to(order.host.value);
  probe.set_agent(setting_.agent);
  probe.set_number(order.number);
  const auto datagram = seal_probe(key_, probe);
  error_code ignored;  // no route, a full queue: the answer is missing then
  socket_.send_to(asio::buffer(datagram), found->second, 0, ignored);
}

void Prober::wait_readable() {
  socket_.async_wait(udp::socket::wait_read, [this](const error_code& code) {
    if (!code) read_some();
  });
}

void Prober::read_some() {
  const auto now = monotonic_now();
  if (now >= slice_end_) {
    slice_end_ = now + kSlice;
    in_slice_ = 0;
  }
  for (std::uint32_t i = 0; i < kDatagramsPerTurnMax; ++i) {
    if (in_slice_ >= kDatagramsPerSliceMax) {
      breath_.expires_at(slice_end_);
      breath_.async_wait([this](const error_code& code) {
        if (!code) read_some();
      });
      return;
    }
    udp::endpoint from;
    error_code code;
    const auto bytes = socket_.receive_from(asio::buffer(buffer_), from, 0, code);
    if (code == asio::error::would_block) break;
    ++in_slice_;
    // An unreachable port of an earlier datagram is reported here, too.
    if (!code) take(bytes, from);
    if (!socket_.is_open()) return;
  }
  wait_readable();
}

void Prober::take(std::size_t bytes, const udp::endpoint& from) {
  auto probe = open_probe(key_, {buffer_.data(), bytes});
  if (!probe || probe->job() != setting_.job || probe->to() != setting_.host.value) {
    ++dropped_;
    return;
  }
  if (probe->answer()) {
    if (probe->agent() != setting_.agent) {
      ++dropped_;
      return;
    }
    return put(ProbeAnswered{HostId{probe->from()}, probe->number()});
  }
  probe->set_to(probe->from());
  probe->set_from(setting_.host.value);
  probe->set_answer(true);
  const auto datagram = seal_probe(key_, *probe);
  error_code ignored;
  socket_.send_to(asio::buffer(datagram), from, 0, ignored);
}

}  // namespace dlaunch::supervisor::host
