#include "supervisor/host/io/worker_hands.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/io/files.h"
#include "base/utf8.h"
#include "protocol/json_text.h"
#include "protocol/limits.h"
#include "supervisor/host/io/process_scan.h"
#include "supervisor/host/io/worker_socket.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;
using asio::local::stream_protocol;

namespace {

constexpr std::size_t kErrorFileBytesMax = 64 * 1024;
constexpr std::size_t kErrorMessageBytesMax = 8 * 1024;
// An assignment of 65,536 ranks has 5 MiB.
constexpr std::size_t kToldBytesMax = 8 * 1024 * 1024;
constexpr std::size_t kPatternLineBytesMax = 4 * 1024;
constexpr auto kDrainLimit = std::chrono::milliseconds(200);  // a grandchild may keep a pipe open

/// What a script left in TORCHELASTIC_ERROR_FILE: {"message": …} with a text or {"message": …,
/// "extraInfo": {"py_callstack": …}} in it.
std::string error_message_of(const std::string& path) {
  const auto text = read_file(path, kErrorFileBytesMax);
  if (!text || text->empty()) return "";
  const auto json = protocol::read_json(*text);
  std::string message = *text;
  if (json.is_object() && json.contains("message")) {
    const auto& inner = json.at("message");
    message = inner.is_string() ? inner.get<std::string>()
              : inner.is_object() && inner.contains("message") && inner.at("message").is_string()
                  ? inner.at("message").get<std::string>()
                  : protocol::json_text(inner);
  }
  return to_utf8(message, kErrorMessageBytesMax);
}

}  // namespace

WorkerHands::WorkerHands(asio::io_context& context, StartWorker order, Setting setting)
    : context_(context),
      order_(std::move(order)),
      setting_(std::move(setting)),
      acceptor_(context),
      socket_(context),
      out_(context),
      error_(context),
      report_(context),
      pidfd_(context) {
  if (setting_.step_pattern.empty()) return;
  try {
    step_pattern_.emplace(setting_.step_pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error&) {
    step_pattern_.reset();  // refused at the start already; here it only costs the progress
  }
}

void WorkerHands::not_started(const std::string& sentence) {
  ended_ = true;
  close();
  setting_.post(WorkerNotStarted{order_.rank, order_.generation, sentence});
}

void WorkerHands::start() {
  const auto place =
      std::to_string(order_.generation.value) + "-" + std::to_string(order_.rank.value);
  error_file_ = setting_.directory + "/error-" + place + ".json";
  ::unlink(error_file_.c_str());
  const auto listening = listen();
  if (!listening) return not_started(listening.error().text());
  log_.emplace(setting_.logs, order_.generation, order_.rank);
  spawn_ = {order_.argv, order_.directory, order_.environment};
  spawn_.environment["DLAUNCH_SOCKET"] = *listening;
  spawn_.environment["TORCHELASTIC_ERROR_FILE"] = error_file_;
  auto worker = spawn_worker(spawn_);
  if (!worker) return not_started(worker.error().text());
  pid_ = worker->pid;
  pidfd_.assign(worker->pidfd.release());
  out_.assign(worker->out.release());
  error_.assign(worker->error.release());
  report_.assign(worker->report.release());
  await_program();
}

/// Its file may be on storage that hangs: only the worker waits for it then.
void WorkerHands::await_program() {
  const auto self = shared_from_this();
  asio::async_read(report_, asio::buffer(report_bytes_),
                   [self](const boost::system::error_code&, std::size_t count) {
                     boost::system::error_code ignored;
                     self->report_.close(ignored);
                     const std::string_view said(self->report_bytes_.data(), count);
                     const auto report = read_report(said, self->spawn_);
                     if (report) return self->on_program();
                     ::waitpid(self->pid_, nullptr, 0);  // it ends right after its report
                     self->exited_ = true;
                     self->not_started(report.error().text());
                   });
}

void WorkerHands::on_program() {
  open_pipes_ = 2;
  accept();
  read_pipe(out_, false);
  read_pipe(error_, true);
  watch();
  setting_.post(WorkerStarted{order_.rank, order_.generation, static_cast<std::uint32_t>(pid_)});
}

Result<std::string> WorkerHands::listen() {
  socket_path_ = worker_socket_path(setting_.directory, order_.generation, order_.rank);
  ::unlink(socket_path_.c_str());
  boost::system::error_code code;
  const auto old = ::umask(0177);
  acceptor_.open(stream_protocol(), code);
  if (!code) acceptor_.bind(stream_protocol::endpoint(socket_path_), code);
  ::umask(old);
  if (!code) acceptor_.listen(1, code);
  if (code) return failure(code, "opening the worker socket " + socket_path_);
  return socket_path_;
}

void WorkerHands::accept() {
  const auto self = shared_from_this();
  acceptor_.async_accept([self](const boost::system::error_code& code, Socket peer) {
    if (code) return;
    ucred credentials{};
    socklen_t length = sizeof(credentials);
    const bool known =
        ::getsockopt(peer.native_handle(), SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0;
    if (!known || credentials.uid != ::geteuid() || self->socket_.is_open()) {
      self->accept();
      return;
    }
    self->socket_ = std::move(peer);
    self->read_socket();
    self->write_socket();
  });
}

void WorkerHands::read_socket() {
  const auto self = shared_from_this();
  socket_.async_read_some(asio::buffer(socket_bytes_), [self](const boost::system::error_code& code,
                                                              std::size_t count) {
    boost::system::error_code ignored;
    if (code) {
      self->socket_.close(ignored);
      return;
    }
    self->lines_.feed(std::string_view(self->socket_bytes_.data(), count));
    while (true) {
      auto line = self->lines_.next();
      if (line && !*line) break;
      auto message =
          line ? protocol::parse_worker_line(**line) : tl::unexpected<Error>(line.error());
      if (!message) {
        self->setting_.post(
            WorkerSaid{self->order_.rank,
                       self->order_.generation,
                       {self->order_.generation,
                        protocol::worker::Failing{protocol::worker::FailingCategory::user_error,
                                                  "its worker socket: " + message.error().text(),
                                                  {}}}});
        self->socket_.close(ignored);
        return;
      }
      if (*message) {
        self->setting_.post(WorkerSaid{self->order_.rank, self->order_.generation, **message});
      }
    }
    self->read_socket();
  });
}

void WorkerHands::tell(const protocol::AgentMessage& message) {
  const auto lines = protocol::format_lines(message);
  if (!lines) return cannot_tell(lines.error().text());
  if (outgoing_.size() + lines->size() > kToldBytesMax) {
    return cannot_tell("it does not read its worker socket, " + std::to_string(outgoing_.size()) +
                       " bytes wait for it");
  }
  outgoing_ += *lines;
  if (socket_.is_open()) write_socket();
}

void WorkerHands::cannot_tell(const std::string& reason) {
  if (std::exchange(told_in_vain_, true)) return;
  setting_.post(WorkerSaid{
      order_.rank,
      order_.generation,
      {order_.generation,
       protocol::worker::Failing{protocol::worker::FailingCategory::config_error, reason, {}}}});
}

void WorkerHands::write_socket() {
  if (writing_ || outgoing_.empty()) return;
  writing_ = true;
  const auto self = shared_from_this();
  const auto bytes = std::make_shared<std::string>(std::exchange(outgoing_, ""));
  asio::async_write(socket_, asio::buffer(*bytes),
                    [self, bytes](const boost::system::error_code& code, std::size_t) {
                      self->writing_ = false;
                      if (!code) self->write_socket();
                    });
}

void WorkerHands::signal(int number) const {
  if (pid_ > 0 && !exited_) ::kill(-pid_, number);
}

void WorkerHands::look_before_strike() {
  if (!std::exchange(looked_, true)) by_itself_ = pid_ > 0 && (exited_ || is_ending(pid_));
}

void WorkerHands::strike() {
  signal(SIGCONT);
  signal(SIGKILL);
}

void WorkerHands::read_pipe(Pipe& pipe, bool error_stream) {
  const auto self = shared_from_this();
  auto& bytes = error_stream ? error_bytes_ : out_bytes_;
  pipe.async_read_some(
      asio::buffer(bytes),
      [self, &pipe, error_stream](const boost::system::error_code& code, std::size_t count) {
        if (code) {
          boost::system::error_code ignored;
          pipe.close(ignored);
          if (--self->open_pipes_ == 0 && self->exited_) self->report_end();
          return;
        }
        const auto& read = error_stream ? self->error_bytes_ : self->out_bytes_;
        self->on_output(std::string_view(read.data(), count), error_stream);
        self->read_pipe(pipe, error_stream);
      });
}

void WorkerHands::on_output(std::string_view bytes, bool error_stream) {
  auto passed = log_->append(bytes, protocol::kLogFrameBytesMax - 1024);
  if (step_pattern_) {
    std::smatch match;
    for (std::size_t begin = 0; begin < passed.text.size();) {
      const auto end = passed.text.find('\n', begin);
      const auto line = passed.text.substr(begin, std::min(end - begin, kPatternLineBytesMax));
      std::uint64_t step = 0;
      if (std::regex_search(line, match, *step_pattern_) && match.size() > 1) {
        const auto digits = match[1].str();
        std::from_chars(digits.data(), digits.data() + digits.size(), step);
        setting_.post(ProgramStep{order_.rank, order_.generation, step});
      }
      begin = end + 1;
    }
  }
  if (passed.text.empty() && passed.dropped == 0) return;
  setting_.post(OutputLines{order_.rank, order_.generation, error_stream, std::move(passed.text),
                            passed.dropped});
}

void WorkerHands::watch() {
  const auto self = shared_from_this();
  pidfd_.async_wait(Pipe::wait_read, [self](const boost::system::error_code& code) {
    if (!code) self->on_exit();
  });
}

/// Its last words may still be in the pipes; what a grandchild holds open is waited for shortly
/// only.
void WorkerHands::on_exit() {
  ::waitpid(pid_, &status_, WNOHANG);
  exited_ = true;
  boost::system::error_code ignored;
  pidfd_.close(ignored);
  if (open_pipes_ == 0) return report_end();
  const auto self = shared_from_this();
  auto timer = std::make_shared<asio::steady_timer>(context_, kDrainLimit);
  timer->async_wait([self, timer](const boost::system::error_code&) { self->report_end(); });
}

void WorkerHands::report_end() {
  if (std::exchange(ended_, true)) return;
  log_->finish();
  WorkerEnded ended;
  ended.rank = order_.rank;
  ended.generation = order_.generation;
  ended.pid = static_cast<std::uint32_t>(pid_);
  if (WIFSIGNALED(status_)) {
    ended.signal = WTERMSIG(status_);
    ended.out_of_memory = ended.signal == SIGKILL && setting_.was_out_of_memory(pid_);
  } else {
    ended.code = WEXITSTATUS(status_);
  }
  ended.by_itself = by_itself_;
  ended.last_lines.assign(log_->last_lines().begin(), log_->last_lines().end());
  ended.error_message = error_message_of(error_file_);
  close();
  setting_.post(std::move(ended));
}

void WorkerHands::close() {
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  socket_.close(ignored);
  if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
  if (!error_file_.empty()) ::unlink(error_file_.c_str());
  if (!exited_) return;
  out_.close(ignored);
  error_.close(ignored);
}

}  // namespace dlaunch::supervisor::host
