// One worker as the agent holds it: process, pipes, log, socket.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <regex>
#include <string>

#include "base/ids.h"
#include "supervisor/host/command.h"
#include "supervisor/host/event.h"
#include "supervisor/host/io/worker_log.h"
#include "supervisor/host/io/worker_process.h"

namespace dlaunch::supervisor::host {

/// Shared by its handlers; lives on the io_context's thread. Posts what happens as events.
class WorkerHands : public std::enable_shared_from_this<WorkerHands> {
 public:
  struct Setting {
    std::string directory;  ///< the job's, on this host
    std::shared_ptr<LogWriter> logs;
    std::string step_pattern;  ///< empty: none
    std::function<void(Event)> post;
    std::function<bool(pid_t)> was_out_of_memory;
  };
  WorkerHands(boost::asio::io_context& context, StartWorker order, Setting setting);

  /// Opens the socket and the log, forks. Failures are posted as WorkerNotStarted.
  void start();
  /// What cannot be told is posted as its `failing`: a worker that waits for it would wait for
  /// ever.
  void tell(const protocol::AgentMessage& message);
  /// To the process group; nothing when it has ended.
  void signal(int number) const;
  /// Notes whether it is ending by itself; before anything is done that could end it.
  void look_before_strike();
  /// SIGKILL, also to one that is stopped.
  void strike();
  [[nodiscard]] bool ends_by_itself() const { return by_itself_; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] Rank rank() const { return order_.rank; }
  [[nodiscard]] Generation generation() const { return order_.generation; }
  void close();

 private:
  using Socket = boost::asio::local::stream_protocol::socket;
  using Pipe = boost::asio::posix::stream_descriptor;

  [[nodiscard]] Result<std::string> listen();
  void accept();
  void read_socket();
  void write_socket();
  void cannot_tell(const std::string& reason);
  void read_pipe(Pipe& pipe, bool error_stream);
  void on_output(std::string_view bytes, bool error_stream);
  void await_program();
  void on_program();
  void watch();
  void on_exit();
  void report_end();
  void not_started(const std::string& sentence);

  boost::asio::io_context& context_;
  StartWorker order_;
  Setting setting_;
  std::optional<std::regex> step_pattern_;
  std::optional<WorkerLog> log_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  Socket socket_;
  SpawnOrder spawn_;
  Pipe out_, error_, report_, pidfd_;
  std::array<char, 64> report_bytes_{};
  std::array<char, 16 * 1024> out_bytes_{}, error_bytes_{}, socket_bytes_{};
  protocol::LineReader lines_;
  std::string outgoing_;
  bool writing_ = false;
  bool told_in_vain_ = false;
  std::string socket_path_, error_file_;
  pid_t pid_ = 0;
  bool ended_ = false;
  bool exited_ = false;
  bool looked_ = false;
  bool by_itself_ = false;
  int open_pipes_ = 0;
  int status_ = 0;
};

}  // namespace dlaunch::supervisor::host
