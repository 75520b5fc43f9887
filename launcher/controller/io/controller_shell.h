// The hands of one job's controller: carries out what the machine orders and tells it what happens.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/io/driver.h"
#include "base/rng.h"
#include "launcher/controller/controller.h"
#include "launcher/controller/io/event_log.h"
#include "launcher/controller/io/listen_addresses.h"
#include "launcher/controller/io/run_store.h"
#include "launcher/controller/io/sessions.h"
#include "launcher/controller/io/store_writer.h"
#include "launcher/controller/job_input.h"
#include "launcher/controller/output_tail.h"
#include "launcher/io/ssh_config.h"
#include "launcher/io/ssh_planter.h"
#include "rendezvous/io/tls_server.h"

namespace spdlog {
class logger;
}

namespace dlaunch::launcher::controller {

/// Everything that was read before the controller can begin.
struct ShellParts {
  std::shared_ptr<io::SshConfig> ssh;
  std::string directory;
  JobInput input;
  JobFiles files;
  RunStart start;
  Setting setting;
  std::vector<launch::AgentBinary> agents;
  ListenAddresses addresses;
  std::shared_ptr<spdlog::logger> log;
  int pulse = -1;  ///< where the keeper listens; -1: none
};

/// Lives on the main thread; `run` returns when the job is over.
class ControllerShell {
 public:
  ControllerShell(ShellParts parts, RunStore store);
  ~ControllerShell();

  /// Opens the port and the control socket; an error is the user's.
  [[nodiscard]] Result<void> open();
  /// The job's exit code.
  [[nodiscard]] int run();

 private:
  void perform(Command&& command);
  void carry(SendToHosts& order);
  void carry(CloseConnection& order);
  void carry(PlantOrder& order);
  void carry(FromJob& order);
  void carry(Say& order);
  void carry(WorkerOutput& order);
  void carry(Superseded& order);
  void carry(Ended& order);
  void carry_for_job(supervisor::job::Command& command);
  void plant(const launch::Plant& order);
  void on_planted(HostId host, io::PlantOutcome outcome);

  void record(const supervisor::job::Record& record);
  void say(const std::string& sentence);
  void on_refused(const std::string& sentence);
  void arm_clock();
  void on_clock();
  void store_status(const supervisor::job::View& view);
  void store_output(const supervisor::job::View* view);
  void read_older_events(std::uint64_t after, std::size_t rows_max, Sessions::OlderEvents done);
  [[nodiscard]] Sessions::Hands session_hands();
  void tell_progress(const supervisor::job::View& view);
  void leave_when_told();

  [[nodiscard]] StoreWriter::Handlers writer_handlers();
  [[nodiscard]] rendezvous::TlsServer::Handlers server_handlers();

  ShellParts parts_;
  JobIdentity identity_;
  std::uint16_t port_ = 0;
  boost::asio::io_context context_;
  Rng rng_;
  Controller machine_;
  Driver<Controller, Event> driver_;
  EventLog events_;
  OutputTail output_;
  RunStore store_;  ///< until the writer takes it
  std::optional<StoreWriter> writer_;
  rendezvous::TlsServer server_;
  Sessions sessions_;
  std::optional<io::Planter> planter_;
  boost::asio::steady_timer clock_;
  std::uint64_t ticks_ = 0;
  Instant status_due_;
  Instant output_due_;
  std::optional<Step> told_step_;
  std::optional<Step> kept_step_;  ///< the newest in metrics.db
  std::optional<Step> kept_validation_;
  std::optional<Instant> refusal_recorded_;
  std::uint64_t refusals_unsaid_ = 0;
  std::optional<Ended> ended_;
  bool superseded_ = false;
  Instant leave_due_;
};

}  // namespace dlaunch::launcher::controller
