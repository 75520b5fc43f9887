// The way over the SSH connection that planted this agent.
#include <utility>

#include "supervisor/host/io/connection.h"
#include "supervisor/host/io/tunnel.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;

asio::awaitable<std::optional<Connection::Offer>> Connection::through_tunnel(
    std::shared_ptr<Dial> dial) {
  if (bootstrap_.control == protocol::Control::dial) co_return std::nullopt;
  auto socket = take_tunnel(bootstrap_.directory());
  if (!socket) co_return std::nullopt;
  auto shaking = dial->over(std::move(*socket), bootstrap_.addresses);
  const auto open = co_await std::move(shaking);
  if (!open || stopped_) co_return std::nullopt;
  if (!open->local_address.empty()) local_address_ = open->local_address;
  Offer offer(open->stream, "");
  offer.over_ssh = true;
  co_return offer;
}

asio::awaitable<bool> Connection::look_for_tunnel(std::string reason) {
  const auto present = stream_;
  const auto dial = std::make_shared<Dial>(context_, tls_);
  auto asking = through_tunnel(dial);
  auto tunnel = co_await std::move(asking);
  if (!tunnel) co_return false;
  if (stopped_ || stream_ != present || offer_) {
    tunnel->stream->close();
  } else {
    take(std::move(*tunnel), std::move(reason));
  }
  co_return true;
}

}  // namespace dlaunch::supervisor::host
