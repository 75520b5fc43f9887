#include "supervisor/host/io/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <utility>

#include "base/io/clock.h"
#include "protocol/framing.h"
#include "protocol/limits.h"
#include "rendezvous/io/psk.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr nanoseconds kPauseMin = 100ms;
constexpr nanoseconds kPauseMax = 1s;
constexpr nanoseconds kIdleLook = 1s;
constexpr nanoseconds kTunnelLook = 100ms;
// Who was served over SSH is so again: by the same controller at once, by the next one in 2 s.
constexpr nanoseconds kTunnelFirst = 4s;
// After a moment in which this process did not run its timers ring before what came is read.
constexpr nanoseconds kConfirm = 30ms;
// A tunnel that is offered is offered for seconds; then an agent that did not come is taken over.
constexpr nanoseconds kRelayedTunnelLook = 1s;
// Between two searches for a relay that found none.
constexpr nanoseconds kSearchPause = 500ms;
// A way that breaks again and again is tried less and less often.
constexpr nanoseconds kDirectPauseMin = 2s;
constexpr nanoseconds kDirectPauseMax = 30s;
constexpr nanoseconds kDirectSettled = 10s;
// As base/io/driver.h: a timer that rings so late says that this process did not run.
constexpr nanoseconds kStallGap = 250ms;
// The controller names a handful.
constexpr std::size_t kRelaysKept = 16;

}  // namespace

Connection::Connection(asio::io_context& context, const protocol::Bootstrap& bootstrap,
                       Handlers handlers)
    : context_(context),
      bootstrap_(bootstrap),
      handlers_(std::move(handlers)),
      tls_(asio::ssl::context::tls_client),
      wake_(context),
      pause_(context),
      look_(context),
      rng_(std::random_device{}()),
      direct_pause_(kDirectPauseMin) {
  const auto key = rendezvous::secret_from_hex(bootstrap_.secret_hex);
  rendezvous::use_psk_client(tls_.native_handle(),
                             rendezvous::psk_identity(bootstrap_.job, bootstrap_.host_id),
                             key.value_or(rendezvous::Secret{}));
}

void Connection::start() {
  auto self = shared_from_this();
  asio::co_spawn(
      context_, [self]() { return self->run(); }, asio::detached);
  asio::co_spawn(
      context_, [self]() { return self->watch(); }, asio::detached);
}

asio::awaitable<void> Connection::run() {
  const auto self = shared_from_this();
  while (!stopped_) {
    auto coming = next_stream();
    auto offer = co_await std::move(coming);
    if (!offer) co_return;
    const auto stream = offer->stream;
    stream_ = stream;
    relayed_by_ = offer->relayed_by;
    over_ssh_ = offer->over_ssh;
    received_ = 0;
    outbox_.clear();
    opened_at_ = monotonic_now();
    down_since_.reset();
    path_.opened(opened_at_);
    direct_due_ = opened_at_ + direct_pause_;
    look_.cancel();
    asio::co_spawn(
        context_, [self, stream]() { return self->write_frames(stream); }, asio::detached);
    handlers_.up(relayed_by_, over_ssh_);
    auto reading = read_frames(stream);
    const auto reason = co_await std::move(reading);
    stream->close();
    stream_.reset();
    wake_.cancel();
    on_closed();
    if (finished_) std::exchange(finished_, nullptr)();
    if (stopped_) co_return;
    handlers_.down(close_reason_.empty() ? reason : std::exchange(close_reason_, ""));
    if (offer_) continue;
    pause_.expires_after(rng_.between(kPauseMin / 4, kPauseMin));
    auto waiting = pause_.async_wait(kAwait);
    const auto waited = co_await std::move(waiting);
    static_cast<void>(waited);
  }
}

void Connection::on_closed() {
  const auto now = monotonic_now();
  path_.closed();
  down_since_ = now;
  look_.cancel();
  if (!relayed_by_.empty()) return;
  const bool settled = now - opened_at_ >= kDirectSettled;
  direct_pause_ = settled ? kDirectPauseMin : std::min(direct_pause_ * 2, kDirectPauseMax);
}

/// What another search has found, or the next of the controller's addresses that answers.
asio::awaitable<std::optional<Connection::Offer>> Connection::next_stream() {
  auto wait = kPauseMin;
  const auto direct_from = over_ssh_ ? monotonic_now() + kTunnelFirst : Instant{};
  while (!stopped_) {
    if (offer_) co_return std::exchange(offer_, std::nullopt);
    dial_ = std::make_shared<Dial>(context_, tls_);
    auto asking = through_tunnel(dial_);
    auto tunnel = co_await std::move(asking);
    dial_.reset();
    if (tunnel) co_return std::move(tunnel);
    if (bootstrap_.control == protocol::Control::ssh || monotonic_now() < direct_from) {
      handlers_.down("no SSH connection of the controller leads here");
      pause_.expires_after(kTunnelLook);
      auto waiting = pause_.async_wait(kAwait);
      const auto waited = co_await std::move(waiting);
      static_cast<void>(waited);
      continue;
    }
    const auto address = bootstrap_.addresses[next_++ % bootstrap_.addresses.size()];
    handlers_.dialing(address.address + " port " + std::to_string(address.port));
    dial_ = std::make_shared<Dial>(context_, tls_);
    const auto dial = dial_;
    auto dialing = dial->directly(address);
    const auto open = co_await std::move(dialing);
    dial_.reset();
    if (stopped_) co_return std::nullopt;
    if (open) {
      --next_;  // the address that works is the first to be tried again
      if (offer_) offer_->stream->close();
      offer_.reset();
      local_address_ = open->local_address;
      co_return Offer(open->stream, "");
    }
    if (offer_) continue;
    handlers_.down(open.error().text());
    pause_.expires_after(rng_.between(wait / 2, wait));
    auto waiting = pause_.async_wait(kAwait);
    const auto waited = co_await std::move(waiting);
    static_cast<void>(waited);
    if (next_ % bootstrap_.addresses.size() == 0) wait = std::min(wait * 2, kPauseMax);
  }
  co_return std::nullopt;
}

// ---- other ways

void Connection::set_path(nanoseconds heartbeat, nanoseconds lost_after, std::string peer_key) {
  lost_after_ = lost_after;
  path_.set(heartbeat, lost_after);
  peer_key_ = std::move(peer_key);
  look_.cancel();
}

void Connection::set_peers(const protocol::Peers& peers) {
  relays_.clear();
  for (const auto& peer : peers.peers()) {
    if (peer.relay_port() != 0 && relays_.size() < kRelaysKept) relays_.push_back(peer);
  }
}

void Connection::stalled() {
  const auto now = monotonic_now();
  path_.stalled(now);
  if (down_since_) down_since_ = now;
}

std::optional<protocol::ControllerAddress> Connection::direct_way() const {
  if (!stream_ || !relayed_by_.empty() || over_ssh_ || path_.silent(monotonic_now()))
    return std::nullopt;
  return bootstrap_.addresses[next_ % bootstrap_.addresses.size()];
}

std::optional<Instant> Connection::cut_at() const {
  if (offer_ || stopped_ || lost_after_ == 0ns) return std::nullopt;
  if (stream_) return path_.silent_at();
  if (!down_since_) return std::nullopt;
  return *down_since_ + lost_after_ / 2;
}

bool Connection::is_cut() const {
  const auto due = cut_at();
  return due && monotonic_now() >= *due;
}

asio::awaitable<void> Connection::watch() {
  const auto self = shared_from_this();
  while (!stopped_) {
    const auto now = monotonic_now();
    if (is_cut() && now >= search_due_) {
      auto confirming = wait_to_look(now + kConfirm);
      co_await std::move(confirming);
      if (!is_cut()) continue;
      auto searching = search();
      co_await std::move(searching);
      search_due_ = monotonic_now() + rng_.between(kSearchPause, 2 * kSearchPause);
      continue;
    }
    if (stream_ && !relayed_by_.empty() && now >= direct_due_) {
      auto looking = look_for_direct("the direct way works again");
      co_await std::move(looking);
      direct_due_ = monotonic_now() + direct_pause_;
      continue;
    }
    if (stream_ && !relayed_by_.empty() && now >= tunnel_due_) {
      tunnel_due_ = now + kRelayedTunnelLook;
      auto looking = look_for_tunnel("a tunnel is offered");
      co_await std::move(looking);
      continue;
    }
    auto due = now + kIdleLook;
    if (const auto cut = cut_at()) due = std::min(due, std::max(*cut, search_due_));
    if (stream_ && !relayed_by_.empty()) due = std::min({due, direct_due_, tunnel_due_});
    auto waiting = wait_to_look(due);
    co_await std::move(waiting);
  }
}

asio::awaitable<void> Connection::wait_to_look(Instant due) {
  look_.expires_at(due);
  auto waiting = look_.async_wait(kAwait);
  const auto waited = co_await std::move(waiting);
  static_cast<void>(waited);
  if (monotonic_now() - due > kStallGap) stalled();
}

/// One after the other, begun anywhere: not everybody asks the same one first.
asio::awaitable<void> Connection::search() {
  const auto relays = relays_;
  const auto first = rng_.below(relays.size());
  for (std::size_t i = 0; i < relays.size(); ++i) {
    const auto& relay = relays[(first + i) % relays.size()];
    if (relay.name() == relayed_by_) continue;
    protocol::RelayRequest request;
    request.set_job(bootstrap_.job);
    request.set_from(bootstrap_.host_id.value);
    request.set_to(relay.host());
    const auto dial = std::make_shared<Dial>(context_, tls_);
    auto asking = dial->through(relay, std::move(request), peer_key_);
    const auto open = co_await std::move(asking);
    if (!is_cut()) {  // heard again meanwhile
      if (open) open->stream->close();
      co_return;
    }
    if (!open) continue;
    co_return take(Offer(open->stream, relay.name()),
                   "nothing is heard of it; " + relay.name() + " relays");
  }
  // What an old connection sends again comes late after a cut; a new one is there at once.
  if (stream_ && is_cut()) {
    auto looking = look_for_direct("nothing is heard over this connection; another one works");
    co_await std::move(looking);
  }
}

asio::awaitable<void> Connection::look_for_direct(std::string reason) {
  const auto index = direct_next_++ % bootstrap_.addresses.size();
  const auto present = stream_;
  auto looking = look_for_tunnel(reason);
  const bool found = co_await std::move(looking);
  if (found || bootstrap_.control == protocol::Control::ssh) co_return;
  const auto dial = std::make_shared<Dial>(context_, tls_);
  auto dialing = dial->directly(bootstrap_.addresses[index]);
  const auto open = co_await std::move(dialing);
  if (!open) co_return;
  if (stopped_ || stream_ != present || offer_) {
    open->stream->close();
    co_return;
  }
  next_ = direct_next_ = index;
  local_address_ = open->local_address;
  take(Offer(open->stream, ""), std::move(reason));
}

void Connection::take(Offer offer, std::string reason) {
  offer_ = std::move(offer);
  if (stream_) {
    close_reason_ = std::move(reason);
    stream_->close();
  }
  pause_.cancel();
  if (dial_) dial_->give_up();
}

// ---- frames

asio::awaitable<std::string> Connection::read_frames(Stream stream) {
  protocol::FrameReader reader(protocol::kFrameBytesMax);
  std::vector<char> buffer(64 * 1024);
  while (!stopped_) {
    const auto count = co_await stream->read_some(buffer);
    if (!count) co_return count.error().text();
    reader.feed(std::string_view(buffer.data(), *count));
    while (stream == stream_) {
      auto message = reader.next();
      if (!message) co_return message.error().text();
      if (!*message) break;
      protocol::ControllerFrame frame;
      if (!frame.ParseFromString(**message)) co_return std::string("a frame cannot be read");
      received_ = frame.number();
      path_.heard(frame.acknowledged(), monotonic_now());
      if (finished_ && outbox_.empty() && frame.acknowledged() >= outbox_.number()) {
        std::exchange(finished_, nullptr)();
      }
      handlers_.frame(std::move(frame));
    }
    if (stream != stream_) co_return std::string("closed by this agent");
  }
  co_return std::string("the agent leaves");
}

asio::awaitable<void> Connection::write_frames(Stream stream) {
  const auto self = shared_from_this();
  while (stream == stream_) {
    if (outbox_.empty()) {
      wake_.expires_after(std::chrono::hours(1));
      const auto woken = co_await wake_.async_wait(kAwait);
      static_cast<void>(woken);
      continue;
    }
    const auto bytes = outbox_.take(received_);
    path_.sent(outbox_.number(), monotonic_now());
    const auto written = co_await stream->write(bytes);
    if (!written) {
      stream->close();
      co_return;
    }
  }
}

void Connection::send(protocol::AgentFrame frame) {
  if (!stream_) return;
  if (!outbox_.push(std::move(frame))) {
    return reconnect("the controller does not read: " +
                     std::to_string(protocol::kSendQueueBytesMax >> 20U) + " MiB wait for it");
  }
  wake_.cancel();
}

void Connection::reconnect(const std::string& reason) {
  close_reason_ = reason;
  if (stream_) stream_->close();
}

void Connection::finish(nanoseconds limit, std::function<void()> done) {
  auto once = std::make_shared<std::function<void()>>(std::move(done));
  auto call = [once] {
    if (auto action = std::exchange(*once, nullptr)) action();
  };
  if (!stream_) {
    stopped_ = true;
    asio::post(context_, call);
    return;
  }
  // Written is not yet read: a socket that is closed with bytes unread resets what is on its way.
  finished_ = call;
  wake_.cancel();
  auto timer = std::make_shared<asio::steady_timer>(context_);
  timer->expires_after(limit);
  timer->async_wait([timer, call](const boost::system::error_code&) { call(); });
}

}  // namespace dlaunch::supervisor::host
