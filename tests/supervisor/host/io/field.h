// A controller's listener in this process and real agents planted on this machine.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/io/clock.h"
#include "base/io/file_descriptor.h"
#include "base/io/files.h"
#include "protocol/endpoints.h"
#include "protocol/limits.h"
#include "rendezvous/io/tls_server.h"
#include "supervisor/host/io/process_scan.h"
#include "tests/base/io/temporary_directory.h"

namespace dlaunch::supervisor::host {

/// Under sanitizers the agent needs their shared libraries.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAgentIsStatic = false;
#else
constexpr bool kAgentIsStatic = true;
#endif

/// True while there is a process of this number that has not ended.
inline bool lives(pid_t pid) {
  const char state = process_state(pid);
  return state != '?' && state != 'Z' && state != 'X';
}

/// One `dlaunch-agent plant` and what it says.
struct Plant {
  pid_t pid = 0;
  int status = 0;
  bool ended = false;
  std::string output;
  FileDescriptor input;  ///< its end would say that nobody waits for it
  std::unique_ptr<boost::asio::posix::stream_descriptor> pipe;
  std::array<char, 4096> bytes{};

  [[nodiscard]] std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> list;
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);) list.push_back(nlohmann::json::parse(line));
    return list;
  }
  [[nodiscard]] nlohmann::json line(const std::string& state) const {
    for (const auto& one : lines()) {
      if (one.at("state") == state) return one;
    }
    return nullptr;
  }
};

inline nlohmann::json address_of(std::uint16_t port) {
  return nlohmann::json::object({{"address", "127.0.0.1"}, {"port", port}});
}

class Field {
 public:
  explicit Field(std::string job = "test-job") : job_(job + "-" + std::to_string(::getpid())) {
    ::signal(SIGPIPE, SIG_IGN);
    secret_ = rendezvous::make_secret();
    listen();
  }
  ~Field() {
    server_.reset();
    for (const auto& one : plants_) {
      if (one->pid > 0 && !one->ended) ::kill(one->pid, SIGKILL);
    }
    for (const auto pid : holders_) ::kill(pid, SIGTERM);
    for (const auto pid : holders_) {
      if (!until([pid] { return !lives(pid); })) ::kill(pid, SIGKILL);
    }
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;

  /// Runs the listener until `holds`; one generous limit.
  [[nodiscard]] bool until(const std::function<bool()>& holds, nanoseconds limit = 20s) {
    const auto due = monotonic_now() + limit;
    while (!holds()) {
      if (monotonic_now() > due) return false;
      context_.restart();
      context_.run_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  std::shared_ptr<Plant> plant(nlohmann::json over = nlohmann::json::object()) {
    nlohmann::json line = {{"job", job_},
                           {"host", "here1"},
                           {"host_id", 0},
                           {"incarnation", 1},
                           {"build", "test"},
                           {"secret", rendezvous::to_hex(rendezvous::host_key(secret_, HostId{0}))},
                           {"addresses", nlohmann::json::array({address_of(port_)})},
                           {"scratch", directory_ + "/dlaunch-0"},
                           {"lease_seconds", 20.0},
                           {"on_lease_end", "stop"}};
    line.update(over);
    auto input = make_pipe();
    auto output = make_pipe();
    auto one = std::make_shared<Plant>();
    one->pid = ::fork();
    if (one->pid == 0) {
      ::dup2(input->read.get(), 0);
      ::dup2(output->write.get(), 1);
      if (!plant_script.empty()) ::execl("/bin/sh", "sh", "-c", plant_script.c_str(), nullptr);
      ::execl(DLAUNCH_AGENT, DLAUNCH_AGENT, "plant", "--job", job_.c_str(), "--host", "here1",
              nullptr);
      ::_exit(127);
    }
    (void)write_all(input->write.get(), line.dump() + "\n");
    one->input = std::move(input->write);
    one->pipe =
        std::make_unique<boost::asio::posix::stream_descriptor>(context_, output->read.release());
    read(one);
    plants_.push_back(one);
    return one;
  }
  /// Planted, welcomed with `spec` and self-checked.
  void bring_up(const protocol::JobSpec& spec, nlohmann::json over = nlohmann::json::object()) {
    spec_ = spec;
    const auto one = plant(std::move(over));
    need(until([&] { return one->ended; }), "plant does not end");
    need(one->line("welcomed").is_object(), one->output + log());
    holders_.push_back(one->line("started").at("pid"));
    need(until([&] { return last(protocol::AgentFrame::kReady) != nullptr; }), log());
  }

  void send(std::uint64_t generation, const std::function<void(protocol::ControllerFrame&)>& fill) {
    protocol::ControllerFrame frame;
    frame.set_job(job_);
    frame.set_group(protocol::kGroupMain);
    frame.set_generation(generation);
    frame.set_incarnation(1);
    fill(frame);
    server_->send({HostId{0}}, frame);
  }
  void prepare(std::uint64_t generation, std::uint32_t workers = 1) {
    send(generation, [&](auto& frame) {
      auto& prepare = *frame.mutable_prepare();
      prepare.set_world_size(workers);
      prepare.set_workers(workers);
      prepare.set_hosts(1);
    });
  }
  /// What this host alone has prepared.
  void assign_as_prepared(protocol::Assign& assign) {
    std::vector<protocol::Listening> ranks;
    for (const auto& said : last(protocol::AgentFrame::kPrepared)->prepared().endpoints()) {
      ranks.push_back({said.address(), static_cast<std::uint16_t>(said.port())});
    }
    *assign.mutable_endpoints() = protocol::pack_endpoints(ranks);
  }
  /// A generation of a program on this host alone, running.
  void run_program(std::uint64_t generation, std::uint32_t workers = 1) {
    prepare(generation, workers);
    need(comes(protocol::AgentFrame::kPrepared, generation), log());
    send(generation, [&](auto& frame) { assign_as_prepared(*frame.mutable_assign()); });
    need(comes(protocol::AgentFrame::kRestored, generation), log());
    send(generation, [](auto& frame) { frame.mutable_go(); });
  }

  /// A frame of this kind about this generation is here or comes.
  [[nodiscard]] bool comes(protocol::AgentFrame::BodyCase body, std::uint64_t generation) {
    return until([&] {
      const auto* frame = last(body);
      return frame != nullptr && frame->generation() >= generation;
    });
  }
  [[nodiscard]] const protocol::AgentFrame* last(protocol::AgentFrame::BodyCase body) const {
    const protocol::AgentFrame* found = nullptr;
    for (const auto& frame : frames) {
      if (frame.body_case() == body) found = &frame;
    }
    return found;
  }
  /// Everything that workers wrote, as the controller gets it.
  [[nodiscard]] std::string output() const {
    std::string text;
    for (const auto& frame : frames) text += frame.log_lines().text();
    return text;
  }
  [[nodiscard]] pid_t agent() const {
    const auto* hello = last(protocol::AgentFrame::kHello);
    return hello == nullptr ? 0 : static_cast<pid_t>(hello->hello().agent_pid());
  }
  [[nodiscard]] pid_t holder() const { return holders_.back(); }
  void adopt(pid_t holder) { holders_.push_back(holder); }
  [[nodiscard]] std::string place() const { return directory_ + "/dlaunch-0/" + job_ + "/here1"; }
  [[nodiscard]] std::string log() const {
    return read_file(place() + "/agent.log", 1 << 20).value_or("no log");
  }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] const std::string& job() const { return job_; }
  [[nodiscard]] std::string key_hex() const {
    return rendezvous::to_hex(rendezvous::host_key(secret_, HostId{0}));
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The agent's present connection ends; it dials again.
  void cut() { server_->close(HostId{0}, "test"); }
  /// The controller is gone.
  void close() { server_.reset(); }

  std::vector<protocol::AgentFrame> frames;
  std::size_t closed = 0;
  std::uint32_t lease_ms = 20'000;
  std::string plant_script;  ///< line of the shell that plants instead; empty: none

 private:
  /// Ends the test: what follows would look at what is not there.
  static void need(bool holds, const std::string& otherwise) {
    if (!holds) throw std::runtime_error(otherwise);
  }
  void listen() {
    rendezvous::TlsServer::Setting setting;
    setting.job = job_;
    setting.secret = secret_;
    setting.hosts = 2;
    rendezvous::TlsServer::Handlers handlers;
    handlers.frame = [this](HostId host, std::uint64_t, std::optional<Instant>,
                            protocol::AgentFrame frame) { on_frame(host, std::move(frame)); };
    handlers.closed = [this](HostId, std::uint64_t, const std::string&) { ++closed; };
    handlers.refused = [](const std::string&) {};
    server_ = std::make_unique<rendezvous::TlsServer>(context_, setting, handlers);
    const auto first = static_cast<std::uint16_t>(40'000 + ::getpid() % 10'000);
    const auto port = server_->listen({"127.0.0.1"}, {40'000, 50'000}, first);
    if (!port) std::abort();
    port_ = *port;
  }
  void on_frame(HostId, protocol::AgentFrame frame) {
    const bool hello = frame.has_hello();
    if (frame.has_heartbeat()) {
      ++beats_;
      send(0, [](auto& answer) { answer.mutable_beat(); });
    }
    frames.push_back(std::move(frame));
    if (!hello) return;
    send(0, [this](auto& answer) {
      auto& welcome = *answer.mutable_welcome();
      welcome.set_heartbeat_ms(100);
      welcome.set_lease_ms(lease_ms);
      welcome.set_stop_on_lease_end(true);
      *welcome.mutable_job() = spec_;
    });
  }
  void read(const std::shared_ptr<Plant>& one) {
    one->pipe->async_read_some(boost::asio::buffer(one->bytes),
                               [this, one](const boost::system::error_code& code, std::size_t n) {
                                 if (code) {
                                   ::waitpid(one->pid, &one->status, 0);
                                   one->ended = true;
                                   return;
                                 }
                                 one->output.append(one->bytes.data(), n);
                                 read(one);
                               });
  }

  std::string job_;
  const TemporaryDirectory temporary_;
  const std::string directory_ = temporary_.text();
  rendezvous::Secret secret_{};
  boost::asio::io_context context_;
  std::unique_ptr<rendezvous::TlsServer> server_;
  std::uint16_t port_ = 0;
  protocol::JobSpec spec_;
  std::vector<std::shared_ptr<Plant>> plants_;
  std::vector<pid_t> holders_;
  std::size_t beats_ = 0;
};

/// A job whose workers are this line of the shell.
inline protocol::JobSpec shell_job(const std::string& script) {
  protocol::JobSpec spec;
  for (const auto* word : {"/bin/sh", "-c"}) spec.add_command(word);
  spec.add_command(script);
  spec.set_directory("/");
  return spec;
}

}  // namespace dlaunch::supervisor::host
