// One agent's control connection: reads its frames, writes ours in their order.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"
#include "base/time.h"
#include "protocol/agent_wire.pb.h"
#include "protocol/framing.h"
#include "rendezvous/io/byte_stream.h"
#include "rendezvous/io/send_queue.h"

namespace dlaunch::rendezvous {

/// Shared by what it waits for; lives on the thread of the io_context. After `close` no handler but
/// `closed` is called.
class AgentConnection final : public std::enable_shared_from_this<AgentConnection>,
                              private ByteStream::Reader {
 public:
  struct Handlers {
    /// The first frame, a hello of the proven host. Then frames of any kind.
    std::function<void(protocol::AgentFrame&&, std::optional<Instant> acknowledged_sent_at)> frame;
    /// Once.
    std::function<void(std::string reason)> closed;
  };

  AgentConnection(boost::asio::io_context& context, std::shared_ptr<ByteStream> stream,
                  Handlers handlers);

  /// Reads and writes until closed. `host` has proved itself; its hello must say the same.
  void start(HostId host, std::string job);
  void send(std::shared_ptr<const OutgoingFrame> frame);
  /// As `send`, for a beat. One that follows other words of ours answers the agent's next frame, or
  /// leaves with the next beat: what belongs to a connection is then at hand, which among thousands
  /// is most of the cost.
  void beat(std::shared_ptr<const OutgoingFrame> frame);
  void close(std::string reason);
  [[nodiscard]] bool greeted() const { return greeted_; }

 private:
  void read_frames();
  void on_readable(Result<void> ready) override;
  boost::asio::awaitable<void> write_frames();
  [[nodiscard]] boost::asio::awaitable<Result<void>> write_unsent();
  void write_small();
  [[nodiscard]] Result<bool> read_what_came();
  [[nodiscard]] Result<void> take_frames(std::string_view bytes);
  [[nodiscard]] Result<void> check_hello(const protocol::AgentFrame& frame) const;

  boost::asio::io_context& context_;
  std::shared_ptr<ByteStream> stream_;
  Handlers handlers_;
  HostId host_;
  std::string job_;
  protocol::FrameReader reader_;
  SendQueue queue_;
  boost::asio::steady_timer wake_;
  bool writing_ = false;  ///< `unsent_` is the writing coroutine's
  Outgoing unsent_;
  std::uint64_t received_ = 0;                 ///< number of the last frame that came
  bool spoke_ = false;                         ///< since a frame came
  std::shared_ptr<const OutgoingFrame> beat_;  ///< not sent yet
  bool greeted_ = false;
  bool closed_ = false;
};

}  // namespace dlaunch::rendezvous
