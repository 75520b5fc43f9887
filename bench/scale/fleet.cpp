#include "bench/scale/fleet.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/io/clock.h"
#include "base/io/must_not_throw.h"
#include "protocol/framing.h"
#include "protocol/limits.h"
#include "rendezvous/io/tls_stream.h"

namespace dlaunch::bench {

namespace asio = boost::asio;
using protocol::AgentFrame;
using protocol::ControllerFrame;

namespace {
constexpr std::size_t kReadBytes = 32 * 1024;
// Of the beats of one interval each pulse sends its share, as if the hosts had no common clock.
constexpr auto kPulse = 2ms;
constexpr std::uint64_t kStepSeconds = 1;
constexpr auto kRedial = 250ms;
}  // namespace

/// One host. Shared by its coroutines.
class FleetAgent : public std::enable_shared_from_this<FleetAgent> {
 public:
  FleetAgent(Fleet& fleet, asio::io_context& context, HostId host)
      : fleet_(fleet), context_(context), host_(host), tls_(asio::ssl::context::tls_client) {
    const auto& setting = fleet.setting_;
    rendezvous::use_psk_client(tls_.native_handle(), rendezvous::psk_identity(setting.job, host),
                               rendezvous::host_key(setting.secret, host));
  }

  void dial() { spawn(live()); }
  void close() {
    over_ = true;
    if (stream_) stream_->close();
  }

  void send(AgentFrame frame) {
    frame.set_job(fleet_.setting_.job);
    frame.set_host(host_.value);
    frame.set_group(protocol::kGroupMain);
    frame.set_generation(generation_);
    frame.set_incarnation(incarnation_);
    frame.set_number(++number_);
    frame.set_acknowledged(received_);
    waiting_ += protocol::frame(frame.SerializeAsString());
    if (std::exchange(writing_, true)) return;
    spawn(write());
  }

  void beat() {
    AgentFrame frame;
    auto& heartbeat = *frame.mutable_heartbeat();
    if (state_ != protocol::WORKER_ABSENT) {
      auto& worker = *heartbeat.add_workers();
      worker.set_rank(rank_);
      worker.set_pid(1000);
      worker.set_state(state_);
      worker.set_process_state("S");
      if (state_ == protocol::WORKER_RUNNING) {
        const auto ran = std::chrono::duration_cast<seconds>(monotonic_now() - since_);
        worker.set_step(base_step_ + static_cast<std::uint64_t>(ran.count()) / kStepSeconds);
        worker.set_phase("forward");
        worker.set_step_seconds(kStepSeconds);
        worker.set_loss(2.5);
        worker.set_sequence(12345);
      }
    }
    send(std::move(frame));
  }

  void obey(const ControllerFrame& frame) {
    AgentFrame answer;
    incarnation_ = frame.incarnation();
    switch (frame.body_case()) {
      case ControllerFrame::kWelcome:
        fill_ready(frame.welcome().job(), *answer.mutable_ready());
        return send(std::move(answer));
      case ControllerFrame::kInspectCheckpoints:
        generation_ = frame.generation();
        answer.mutable_checkpoints_found();
        return send(std::move(answer));
      case ControllerFrame::kFindMark:
        generation_ = frame.generation();
        answer.mutable_mark_looked();
        return send(std::move(answer));
      case ControllerFrame::kPrepare: {
        generation_ = frame.generation();
        rank_ = frame.prepare().first_rank();
        state_ = protocol::WORKER_READY;
        answer.mutable_prepared()->set_held(held_);
        auto& endpoint = *answer.mutable_prepared()->add_endpoints();
        endpoint.set_rank(rank_);
        endpoint.set_address(address());
        // Each generation's workers listen somewhere else.
        endpoint.set_port(
            static_cast<std::uint32_t>(30000 + (host_.value + 7 * generation_) % 20000));
        return send(std::move(answer));
      }
      case ControllerFrame::kAssign: {
        state_ = protocol::WORKER_RESTORED;
        held_ = generation_;
        answer.mutable_connected();
        send(std::move(answer));
        AgentFrame restored;
        restored.mutable_restored();
        return send(std::move(restored));
      }
      case ControllerFrame::kGo:
        state_ = protocol::WORKER_RUNNING;
        since_ = monotonic_now();
        base_step_ += 1000;
        return;
      case ControllerFrame::kAbort: {
        state_ = protocol::WORKER_ABSENT;
        answer.mutable_abort_acknowledged();
        send(std::move(answer));
        AgentFrame gone;
        gone.mutable_workers_gone();
        return send(std::move(gone));
      }
      case ControllerFrame::kLeave:
        answer.mutable_left();
        return send(std::move(answer));
      default:
        return;
    }
  }

  void worker_was_killed() {
    AgentFrame frame;
    auto& evidence = *frame.mutable_evidence();
    evidence.set_number(++evidence_);
    auto& exited = *evidence.mutable_worker_exited();
    exited.set_rank(rank_);
    exited.set_pid(1000);
    exited.set_signal(9);
    exited.set_lived_seconds(10);
    state_ = protocol::WORKER_EXITED;
    send(std::move(frame));
  }

  bool up = false;

 private:
  void spawn(asio::awaitable<void> routine) {
    auto keep = [self = shared_from_this()](const std::exception_ptr& problem) {
      must_not_throw(problem);
    };
    asio::co_spawn(context_, std::move(routine), std::move(keep));
  }

  [[nodiscard]] std::string address() const {
    return "10." + std::to_string(host_.value >> 16U) + "." +
           std::to_string(host_.value >> 8U & 255U) + "." + std::to_string(host_.value & 255U);
  }

  void fill_ready(const protocol::JobSpec& job, protocol::Ready& ready) const {
    auto& facts = *ready.mutable_facts();
    facts.set_cores(8);
    facts.set_memory_bytes(std::uint64_t{64} << 30U);
    facts.set_workers(1);
    facts.set_data_address(address());
    facts.set_fingerprint("bench");
    facts.set_scratch("/tmp/bench");
    facts.set_probe_port(29700);
    facts.set_relay_port(29701);
    for (const auto& check : job.checks()) {
      const auto found = fleet_.setting_.files.find(check.path());
      if (found != fleet_.setting_.files.end()) *ready.add_files() = found->second;
    }
  }

  /// Dials until it is welcome.
  asio::awaitable<void> live() {
    asio::steady_timer pause(context_);
    while (!over_) {
      auto running = run();
      co_await std::move(running);
      if (was_up_ || over_) co_return;
      pause.expires_after(kRedial);
      boost::system::error_code ignored;
      auto waiting = pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      co_await std::move(waiting);
    }
  }

  asio::awaitable<void> run() {
    number_ = received_ = 0;
    rendezvous::ControlSocket<asio::ip::tcp> socket(context_);
    const asio::ip::tcp::endpoint to(asio::ip::address_v4::loopback(), fleet_.setting_.port);
    boost::system::error_code code;
    auto connecting = socket.async_connect(to, asio::redirect_error(asio::use_awaitable, code));
    co_await std::move(connecting);
    if (code) {
      fleet_.on_closed(code.message());
      co_return;
    }
    rendezvous::prepare_control_socket(socket);
    stream_ = std::make_shared<rendezvous::TlsStream>(std::move(socket), tls_);
    auto shaking = stream_->connect_handshake();
    const auto shaken = co_await std::move(shaking);
    if (!shaken) {
      fleet_.on_closed(shaken.error().text());
      co_return;
    }
    say_hello();
    protocol::FrameReader reader(protocol::kFrameBytesMax);
    std::vector<char> buffer(kReadBytes);
    while (true) {
      auto reading = stream_->read_some(buffer);
      const auto count = co_await std::move(reading);
      if (!count) {
        was_up_ = up;
        up = false;
        fleet_.on_closed(count.error().text());
        co_return;
      }
      reader.feed(std::string_view(buffer.data(), *count));
      for (auto message = reader.next(); message && *message; message = reader.next()) {
        frame_.Clear();
        if (!frame_.ParseFromString(**message)) continue;
        received_ = frame_.number();
        fleet_.on_frame(*this, frame_, (*message)->size());
      }
    }
  }

  void say_hello() {
    AgentFrame frame;
    auto& hello = *frame.mutable_hello();
    hello.set_protocol(protocol::kProtocolVersion);
    hello.set_name("host-" + std::to_string(host_.value));
    hello.set_boot_id("boot-" + std::to_string(host_.value));
    hello.set_agent(host_.value + 1);
    hello.set_agent_pid(100);
    send(std::move(frame));
  }

  asio::awaitable<void> write() {
    while (!waiting_.empty()) {
      const auto bytes = std::exchange(waiting_, {});
      auto writing = stream_->write(bytes);
      const auto written = co_await std::move(writing);
      if (!written) break;
    }
    writing_ = false;
  }

  Fleet& fleet_;
  asio::io_context& context_;
  HostId host_;
  asio::ssl::context tls_;
  std::shared_ptr<rendezvous::TlsStream> stream_;
  ControllerFrame frame_;
  std::string waiting_;
  bool writing_ = false;
  bool was_up_ = false, over_ = false;
  std::uint64_t number_ = 0, received_ = 0, incarnation_ = 0, generation_ = 0, evidence_ = 0;
  std::uint64_t held_ = 0;  ///< generation of the newest Assign
  std::uint32_t rank_ = 0;
  protocol::WorkerState state_ = protocol::WORKER_ABSENT;
  Instant since_;
  std::uint64_t base_step_ = 0;
};

Fleet::Fleet(asio::io_context& context, Setting setting)
    : context_(context), setting_(std::move(setting)), pulse_(context) {
  for (std::uint32_t i = 0; i < setting_.hosts; ++i) {
    agents_.push_back(std::make_shared<FleetAgent>(*this, context, HostId{i}));
  }
}
Fleet::~Fleet() {
  pulse_.cancel();
  for (const auto& agent : agents_) agent->close();
}

void Fleet::dial() {
  for (const auto& agent : agents_) agent->dial();
  arm_pulse();
}

void Fleet::kill_worker(HostId host) { agents_.at(host.value)->worker_was_killed(); }

bool Fleet::all_told(ControllerFrame::BodyCase body, std::uint64_t after) const {
  const auto found = moments_.told.find(body);
  return moments_.generation > after && found != moments_.told.end() &&
         found->second >= setting_.hosts;
}

void Fleet::on_frame(FleetAgent& agent, const ControllerFrame& frame, std::size_t bytes) {
  if (frame.has_beat()) {
    ++beats_;
    return;
  }
  const auto body = frame.body_case();
  if (frame.has_welcome()) {
    ++welcomed_;
    agent.up = true;
    heartbeat_ms_ = frame.welcome().heartbeat_ms();
  }
  if (frame.has_prepare() && frame.generation() > moments_.generation) {
    moments_.generation = frame.generation();
    moments_.told.clear();
  }
  if (frame.has_assign()) moments_.assign_bytes = bytes;
  agent.obey(frame);
  const auto now = monotonic_now();
  ++moments_.told[body];
  moments_.last_told[body] = now;
  if (frame.has_prepare()) moments_.last_prepared = now;
}

void Fleet::on_closed(const std::string& reason) {
  ++lost_;
  last_reason_ = reason;
}

void Fleet::arm_pulse() {
  // A pulse that came late is made up for.
  pulse_.expires_at(pulses_ == 0 ? monotonic_now() + kPulse : pulse_.expiry() + kPulse);
  pulse_.async_wait([this](const boost::system::error_code& code) {
    if (code) return;
    pulse();
    arm_pulse();
  });
}

void Fleet::pulse() {
  const auto shares = std::max<std::uint64_t>(1, heartbeat_ms_ / 2);
  for (std::size_t i = pulses_++ % shares; i < agents_.size(); i += shares) {
    if (!agents_[i]->up) continue;
    agents_[i]->beat();
    ++heartbeats_;
  }
}

}  // namespace dlaunch::bench
