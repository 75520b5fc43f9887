#include "supervisor/host/io/pick_port.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <random>

namespace dlaunch::supervisor::host {
namespace {

using boost::asio::ip::tcp;

/// 0: it is taken, or not to be had here.
std::uint32_t try_port(const boost::asio::ip::address& address, std::uint32_t port) {
  boost::asio::io_context context;
  tcp::acceptor acceptor(context);
  boost::system::error_code code;
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
  acceptor.open(endpoint.protocol(), code);
  // The last generation's connections may linger on it.
  if (!code) acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(1, code);
  return code ? 0U : acceptor.local_endpoint(code).port();
}

}  // namespace

std::uint32_t find_port(PortRange range, std::uint32_t before,
                        const std::function<std::uint32_t(std::uint32_t)>& attempt) {
  if (range.first == 0) return attempt(0);
  const auto count = range.last - range.first + 1;
  std::random_device dice;
  auto at = before != 0 ? before - range.first + 1 : count / 2 + dice() % (count - count / 2);
  for (std::uint32_t tried = 0; tried < count; ++tried, ++at) {
    if (const auto port = attempt(range.first + at % count); port != 0) return port;
  }
  return 0;
}

std::uint32_t pick_port(const std::string& address, PortRange range, std::uint32_t before) {
  boost::system::error_code code;
  const auto numeric = boost::asio::ip::make_address(address, code);
  if (code) return 0;
  return find_port(range, before, [&](std::uint32_t port) { return try_port(numeric, port); });
}

}  // namespace dlaunch::supervisor::host
