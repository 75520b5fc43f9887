#include "launcher/controller/io/controller_shell.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/overloaded.h"
#include "launcher/controller/io/moments.h"
#include "launcher/controller/io/state_lock.h"
#include "protocol/json_text.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::launcher::controller {

using nlohmann::json;
namespace job = supervisor::job;

namespace {

// How long the end waits for the disk, then for clients to take the last word. The keeper takes a
// controller for dead after five seconds.
constexpr nanoseconds kFlushLimit = 3s;
constexpr nanoseconds kLastWordLimit = 2s;

JobIdentity identity_of(const ShellParts& parts) {
  JobIdentity identity{parts.setting.job.job_name,
                       parts.input.id,
                       parts.setting.job.steps,
                       parts.setting.job.host_names,
                       host_name(),
                       ::getpid(),
                       {}};
  for (const auto& row : parts.start.incidents) {
    auto shown = json::parse(row.json, nullptr, false);
    if (shown.is_object()) identity.earlier_incidents.push_back(std::move(shown));
  }
  return identity;
}

std::uint64_t seed_of(const rendezvous::Secret& secret) {
  std::uint64_t seed = 0;
  const auto derived = rendezvous::derive(secret, "dlaunch jitter");
  for (std::size_t i = 0; i < sizeof(seed); ++i) seed = (seed << 8U) | derived[i];
  return seed;
}

}  // namespace

ControllerShell::ControllerShell(ShellParts parts, RunStore store)
    : parts_(std::move(parts)),
      identity_(identity_of(parts_)),
      rng_(seed_of(parts_.start.secret) + parts_.start.incarnation.value),
      machine_(parts_.setting, rng_, monotonic_now()),
      driver_(context_, machine_, DeadlineDue{},
              {[this](Command&& command) { perform(std::move(command)); },
               {},
               [](nanoseconds gap) -> Event { return Stalled{gap}; }}),
      events_(parts_.start.last_event_id),
      output_(identity_.host_names),
      store_(std::move(store)),
      server_(context_,
              {parts_.input.id, parts_.start.secret,
               static_cast<std::uint32_t>(parts_.files.hosts.hosts.size()), 5s},
              server_handlers()),
      sessions_(context_, identity_, events_, output_, session_hands()),
      clock_(context_) {}

Sessions::Hands ControllerShell::session_hands() {
  return {
      [this] { return status_json(identity_, machine_.hosts(), machine_.job(), monotonic_now()); },
      [this] { return summary_json(identity_, machine_.hosts(), machine_.job()); },
      [this](Event event) { driver_.put(std::move(event)); },
      [this](HostId host) { return machine_.why_not_drain(host); },
      [this](std::uint64_t after, std::size_t rows_max, Sessions::OlderEvents done) {
        read_older_events(after, rows_max, std::move(done));
      }};
}

ControllerShell::~ControllerShell() { driver_.stop(); }

Result<void> ControllerShell::open() {
  const auto& network = parts_.files.hosts.network;
  const rendezvous::PortRange ports{static_cast<std::uint16_t>(network.port_first),
                                    static_cast<std::uint16_t>(network.port_last)};
  const auto count = static_cast<std::uint64_t>(ports.high) - ports.low + 1;
  // Workers begin in the upper half, so that none sits on the port of a controller that restarts.
  const auto first =
      parts_.start.port.value_or(static_cast<std::uint16_t>(ports.low + rng_.below(count / 2)));
  const auto port = server_.listen(parts_.addresses.bind, ports, first);
  if (!port) {
    return failure(port.error().code, port.error().doing + " (no port of [network] ports = \"" +
                                          std::to_string(ports.low) + "-" +
                                          std::to_string(ports.high) + "\" could be used)");
  }
  port_ = *port;
  if (parts_.start.port != port_) {
    if (auto set = store_.set_port(port_); !set) return set;
  }
  return sessions_.listen(parts_.directory);
}

int ControllerShell::run() {
  sessions_.greet(store_.notice());
  writer_.emplace(std::move(store_), writer_handlers());
  planter_.emplace(parts_.agents, parts_.ssh);
  parts_.log->info("{} {} incarnation {} listens on port {}", parts_.input.id,
                   parts_.setting.job.job_name, parts_.start.incarnation.value, port_);
  for (const auto& notice : parts_.files.train.notices) say(notice);
  arm_clock();
  driver_.put(Begin{});
  try {
    context_.run();
  } catch (const std::exception& problem) {
    parts_.log->critical("a bug: {}", problem.what());
    std::abort();  // the keeper starts another
  }
  planter_.reset();
  if (!superseded_) ::unlink((parts_.directory + "/control.sock").c_str());
  return ended_ ? ended_->code : job::to_int(job::ExitCode::bug);
}

StoreWriter::Handlers ControllerShell::writer_handlers() {
  return {[this](const std::vector<std::uint64_t>& tickets) {
            for (const auto ticket : tickets) driver_.post(ForJob{job::Journaled{ticket}});
          },
          [this](const std::string& sentence) {
            driver_.post(ForJob{job::JournalFailed{sentence}});
            boost::asio::post(context_, [this, sentence] { say(sentence); });
          },
          [this] { boost::asio::post(context_, [this] { say("run.db can be written again"); }); },
          [](const std::string& kind) { moment_on_disk(kind); }};
}

rendezvous::TlsServer::Handlers ControllerShell::server_handlers() {
  return {[this](HostId host, std::uint64_t connection, std::optional<Instant> sent_at,
                 protocol::AgentFrame&& frame) {
            driver_.put(AgentFrameCame{host, connection, sent_at, std::move(frame)});
          },
          [this](HostId host, std::uint64_t connection, std::string reason) {
            parts_.log->info("{} disconnected: {}", identity_.host_names[host], reason);
            driver_.put(AgentConnectionClosed{host, connection, std::move(reason)});
          },
          [this](const std::string& sentence) { on_refused(sentence); }};
}

// ---- commands

void ControllerShell::perform(Command&& command) {
  moment_before(command);
  std::visit([this](auto& order) { carry(order); }, command);
}

void ControllerShell::carry(SendToHosts& order) {
  if (order.frame.has_assign()) {
    const auto token =
        rendezvous::mesh_token(parts_.start.secret, Generation{order.frame.generation()});
    order.frame.mutable_assign()->set_token(token.data(), token.size());
  }
  server_.send(order.hosts, order.frame);
}

void ControllerShell::carry(CloseConnection& order) { server_.close(order.host, order.reason); }

void ControllerShell::carry(PlantOrder& order) {
  std::visit(Overloaded{[this](const launch::Plant& wish) { plant(wish); },
                        [this](const launch::CancelPlant& wish) {
                          if (planter_) planter_->cancel(wish.host);
                        },
                        [](const auto&) {}},
             order.command);
}

void ControllerShell::plant(const launch::Plant& order) {
  const auto& host = parts_.files.hosts.hosts.at(order.host.value);
  io::PlantRequest request;
  request.host = order.host;
  request.attempt = order.attempt;
  request.name = host.name;
  request.local = host.transport == config::Transport::local;
  request.address = host.address;
  if (host.port != 0) request.port = static_cast<std::uint16_t>(host.port);
  request.user = host.user;
  request.identity = host.identity;
  request.jump = host.jump;
  request.accept_new_host_keys =
      parts_.files.hosts.network.host_keys == config::HostKeys::accept_new;
  request.ssh = parts_.files.hosts.network.ssh;
  request.scratch = host.scratch;
  request.connect_within = order.connect_within;
  auto& bootstrap = request.bootstrap;
  bootstrap.job = parts_.input.id;
  bootstrap.host = host.name;
  bootstrap.host_id = order.host;
  bootstrap.incarnation = parts_.start.incarnation;
  bootstrap.build = DLAUNCH_BUILD;
  bootstrap.first = parts_.start.incarnation.value == 1 && order.attempt == 1;
  bootstrap.secret_hex = rendezvous::to_hex(rendezvous::host_key(parts_.start.secret, order.host));
  for (const auto& address : candidates(parts_.addresses, host)) {
    bootstrap.addresses.push_back({address, port_});
  }
  bootstrap.control = protocol::control_named(parts_.files.hosts.network.control)
                          .value_or(protocol::Control::automatic);
  request.controller = {own_listener(parts_.addresses), port_};
  bootstrap.lease = parts_.setting.job.lease;
  bootstrap.stop_on_lease_end = parts_.setting.welcome.stop_on_lease_end();
  bootstrap.data_address = host.data_address;
  bootstrap.data_interface = host.data_interface;
  bootstrap.login_environment = !parts_.setting.job.trainer;
  planter_->plant(std::move(request), [this, id = order.host](io::PlantOutcome outcome) {
    boost::asio::post(context_, [this, id, outcome = std::move(outcome)]() mutable {
      on_planted(id, std::move(outcome));
    });
  });
}

void ControllerShell::on_planted(HostId host, io::PlantOutcome outcome) {
  if (auto* notice = std::get_if<io::PlantNotice>(&outcome)) {
    return say(identity_.host_names[host] + ": " + notice->sentence);
  }
  std::visit(Overloaded{[](io::PlantNotice&) {},
                        [this](auto& report) {
                          driver_.put(LaunchReported{launch::Event{std::move(report)}});
                        }},
             outcome);
}

void ControllerShell::carry(FromJob& order) { carry_for_job(order.command); }

void ControllerShell::carry_for_job(job::Command& command) {
  std::visit(
      Overloaded{
          [this](job::Journal& entry) {
            writer_->put(JournalRow{entry.ticket, std::move(entry.kind), std::move(entry.json)});
          },
          [this](job::Record& entry) { record(entry); },
          [this](job::IncidentChanged& change) {
            const auto shown = incident_json(identity_, change.incident);
            writer_->put(IncidentRow{change.incident.id, protocol::json_text(shown)});
            sessions_.tell({{"type", "incident"}, {"incident", shown}});
            parts_.log->warn("incident {} ({}): {}", change.incident.id, change.incident.cause,
                             change.incident.sentence);
          },
          [this](job::StateBecame& change) {
            const auto* state = job::to_string(change.state);
            parts_.log->info("{}: {}", state, change.reason);
            store_status(machine_.job());
            sessions_.tell(
                change.state == job::JobState::running
                    ? summary_json(identity_, machine_.hosts(), machine_.job())
                    : json{{"type", "state"}, {"state", state}, {"reason", change.reason}});
          },
          [](const auto&) {}},
      command);
}

void ControllerShell::carry(Say& order) { say(order.sentence); }

void ControllerShell::carry(WorkerOutput& order) {
  sessions_.on_output(output_.add(order.host, order.generation, order.lines));
}

/// The directory is the newer one's: nothing is written or removed there.
void ControllerShell::carry(Superseded& order) {
  superseded_ = true;
  ended_ = Ended{job::to_int(job::ExitCode::usage), order.sentence};
  parts_.log->warn("superseded: {}", order.sentence);
  driver_.stop();
  server_.stop();
  sessions_.end(ended_->code, order.sentence);
  leave_due_ = monotonic_now() + kLastWordLimit;
  leave_when_told();
}

void ControllerShell::carry(Ended& order) {
  ended_ = order;
  parts_.log->info("ended with {}: {}", order.code, order.sentence);
  driver_.stop();
  const auto view = machine_.job();
  tell_progress(view);
  store_status(view);
  store_output(nullptr);
  writer_->put(EndRow{order.code, order.sentence, unix_now()});
  if (!writer_->flush(kFlushLimit)) {
    say("run.db could not be written; the end of the job is not in it");
  }
  server_.stop();
  sessions_.end(order.code, order.sentence);
  leave_due_ = monotonic_now() + kLastWordLimit;
  leave_when_told();
}

void ControllerShell::leave_when_told() {
  if (sessions_.idle() || monotonic_now() >= leave_due_) return context_.stop();
  clock_.expires_after(10ms);
  clock_.async_wait([this](const boost::system::error_code& code) {
    if (!code) leave_when_told();
  });
}

}  // namespace dlaunch::launcher::controller
