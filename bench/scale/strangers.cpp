#include "bench/scale/strangers.h"

#include <boost/asio/buffer.hpp>

#include "base/time.h"

namespace dlaunch::bench {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {
constexpr auto kPause = 1s;
}

Strangers::Strangers(asio::io_context& context, const std::string& from, std::uint16_t port,
                     std::size_t count)
    : from_(asio::ip::make_address(from), 0), to_(asio::ip::address_v4::loopback(), port) {
  for (std::size_t i = 0; i < count; ++i) {
    all_.push_back(std::make_unique<Stranger>(
        Stranger{asio::ip::tcp::socket(context), asio::steady_timer(context)}));
    dial(*all_.back());
  }
}

Strangers::~Strangers() {
  *over_ = true;
  all_.clear();
}

void Strangers::dial(Stranger& stranger) {
  error_code ignored;
  stranger.socket.open(asio::ip::tcp::v4(), ignored);
  stranger.socket.bind(from_, ignored);
  stranger.socket.async_connect(to_, [this, over = over_, &stranger](const error_code& code) {
    if (*over) return;
    if (code) return come_back(stranger);
    ++open_;
    stranger.socket.async_read_some(asio::buffer(&stranger.byte, 1),
                                    [this, over, &stranger](const error_code&, std::size_t) {
                                      if (*over) return;
                                      --open_;
                                      ++turned_out_;
                                      come_back(stranger);
                                    });
  });
}

void Strangers::come_back(Stranger& stranger) {
  error_code ignored;
  stranger.socket.close(ignored);
  stranger.pause.expires_after(kPause);
  stranger.pause.async_wait([this, over = over_, &stranger](const error_code& code) {
    if (!*over && !code) dial(stranger);
  });
}

}  // namespace dlaunch::bench
