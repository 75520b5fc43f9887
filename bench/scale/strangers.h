// Connections that never say anything, and come back whenever they are turned out.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dlaunch::bench {

/// Lives on one thread, that of its io_context; no handler runs after the destructor.
class Strangers {
 public:
  /// `from`: an address of loopback that all of them have.
  Strangers(boost::asio::io_context& context, const std::string& from, std::uint16_t port,
            std::size_t count);
  ~Strangers();
  [[nodiscard]] std::size_t open() const { return open_; }
  [[nodiscard]] std::size_t turned_out() const { return turned_out_; }

 private:
  struct Stranger {
    boost::asio::ip::tcp::socket socket;
    boost::asio::steady_timer pause;
    char byte = 0;
  };
  void dial(Stranger& stranger);
  void come_back(Stranger& stranger);

  boost::asio::ip::tcp::endpoint from_, to_;
  std::vector<std::unique_ptr<Stranger>> all_;
  std::shared_ptr<bool> over_ = std::make_shared<bool>(false);
  std::size_t open_ = 0;
  std::size_t turned_out_ = 0;
};

}  // namespace dlaunch::bench
