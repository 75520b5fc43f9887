#include "supervisor/host/io/agent_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdio>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/io/clock.h"
#include "base/io/driver.h"
#include "protocol/json_text.h"
#include "rendezvous/io/psk.h"
#include "supervisor/host/agent.h"
#include "supervisor/host/io/agent_identity.h"
#include "supervisor/host/io/carrier.h"
#include "supervisor/host/io/checkpoint_hands.h"
#include "supervisor/host/io/checkpoint_lock.h"
#include "supervisor/host/io/connection.h"
#include "supervisor/host/io/file_progress.h"
#include "supervisor/host/io/holder.h"
#include "supervisor/host/io/lock_keeper.h"
#include "supervisor/host/io/log_writer.h"
#include "supervisor/host/io/oom.h"
#include "supervisor/host/io/peer_hands.h"
#include "supervisor/host/io/pick_port.h"
#include "supervisor/host/io/process_scan.h"
#include "supervisor/host/io/self_check.h"
#include "supervisor/host/io/worker_hands.h"

namespace dlaunch::supervisor::host {

namespace asio = boost::asio;

namespace {

constexpr nanoseconds kScanEvery = 10ms;
constexpr nanoseconds kUndeadAfter = 5s;
constexpr nanoseconds kUndeadLook = 1s;     // a device that hangs may take minutes
constexpr nanoseconds kLookEvery = 100ms;   // process states and the data link
constexpr int kLooksPerFileLook = 10;       // a shared file system is asked once a second
constexpr nanoseconds kFlushLimit = 300ms;  // the controller acknowledges with its next beat
constexpr nanoseconds kMarkLimit = 5s;      // a network file system shows new names with delay
constexpr nanoseconds kMarkEvery = 100ms;
constexpr nanoseconds kNoteLimit = 1s;    // a small file, on a network file system
constexpr nanoseconds kLogLimit = 500ms;  // for the last lines to reach the disk

std::string stamp() {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f ", unix_now());
  return text.data();
}

class AgentProcess {
 public:
  AgentProcess(const protocol::Bootstrap& bootstrap, std::function<void(const std::string&)> report)
      : bootstrap_(bootstrap),
        report_(std::move(report)),
        logs_(std::make_shared<LogWriter>(LogWriter::Setting{bootstrap.directory() + "/logs"})),
        lock_(context_, pool_, bootstrap.job,
              [logs = logs_](const std::string& sentence) { logs->note(stamp() + sentence); }),
        identity_(identity_of(bootstrap)),
        agent_(identity_, monotonic_now()),
        holder_(find_holder(bootstrap)),
        scan_(bootstrap.job, bootstrap.host, holder_),
        signals_(context_, SIGTERM, SIGINT),
        look_(context_),
        sweep_(context_),
        mark_(context_) {
    Driver<Agent, Event>::Hands hands;
    hands.perform = [this](Command&& command) {
      std::visit([this](auto& c) { perform(c); }, command);
    };
    hands.stalled = [this](nanoseconds gap) {
      peers_->stalled();
      return Event(Stalled{gap});
    };
    driver_ = std::make_unique<Driver<Agent, Event>>(context_, agent_, DeadlineDue{}, hands);
  }

  int run() {
    Connection::Handlers handlers;
    handlers.dialing = [this](const std::string& address) {
      say({{"state", "dialing"}, {"address", address}});
    };
    handlers.up = [this](const std::string& by, bool ssh) { driver_->put(ConnectionUp{by, ssh}); };
    handlers.down = [this](const std::string& reason) {
      say({{"state", "unreachable"}, {"reason", reason}});
      driver_->put(ConnectionDown{reason});
    };
    handlers.frame = [this](protocol::ControllerFrame frame) {
      if (frame.has_welcome()) {
        say({{"state", "welcomed"}});
        report_ = nullptr;
        stale_after_ = std::chrono::milliseconds(frame.welcome().lease_ms());
        step_pattern_ = frame.welcome().job().step_pattern();
        checkpoint_glob_ = frame.welcome().job().checkpoint_glob();
        checkpoint_directory_ = frame.welcome().job().checkpoint_directory();
      }
      peers_->heard(frame);
      driver_->put(FromController{std::move(frame)});
    };
    connection_ = std::make_shared<Connection>(context_, bootstrap_, handlers);
    peers_ = std::make_unique<PeerHands>(
        context_, connection_, identity_,
        [this](protocol::PathReport report) { driver_->put(PathsSeen{std::move(report)}); });
    signals_.async_wait([this](const boost::system::error_code& code, int number) {
      if (!code) driver_->put(LeaveAsked{"asked by signal " + std::to_string(number)});
    });
    // The machine's first wish is a clean host; it is carried out with the first event.
    connection_->start();
    driver_->put(DeadlineDue{});
    look();
    context_.run();
    return code_;
  }

 private:
  void say(const nlohmann::json& line) {
    if (report_) report_(protocol::json_text(line));
  }

  // ---- commands

  void perform(KnowPeers& c) { peers_->know(std::move(c.peers), c.lost_after); }
  void perform(Send& c) { connection_->send(std::move(c.frame)); }
  void perform(Reconnect& c) { connection_->reconnect(c.reason); }
  void perform(Note& c) { logs_->note(stamp() + c.sentence); }

  void perform(StartWorker& c) {
    WorkerHands::Setting setting;
    setting.directory = bootstrap_.directory();
    setting.logs = logs_;
    setting.step_pattern = step_pattern_;
    setting.post = [this](Event event) { driver_->put(std::move(event)); };
    setting.was_out_of_memory = [this](pid_t pid) {
      return kernel_log_is_readable() ? was_out_of_memory(pid) : out_of_memory_.rose_lately();
    };
    const auto worker = std::make_shared<WorkerHands>(context_, std::move(c), std::move(setting));
    workers_[worker->rank()] = worker;
    worker->start();
  }

  void perform(KeepLogs& c) { logs_->keep(c.generation); }
  void perform(TellWorker& c) {
    const auto found = workers_.find(c.rank);
    if (found == workers_.end() || found->second->generation() != c.generation) return;
    found->second->tell(add_endpoints(c));
  }

  void perform(AskWorkersToEnd&) {
    for (const auto& [rank, worker] : workers_) worker->signal(SIGTERM);
  }

  void perform(KillAll&) {
    // All are looked at first: one that is struck takes those with it that wait for it.
    for (const auto& [rank, worker] : workers_) worker->look_before_strike();
    for (const auto& [rank, worker] : workers_) worker->strike();
    sweep_began_ = monotonic_now();
    empty_scans_ = 0;
    undead_ = false;
    sweep_once();
  }

  /// Two scans in a row without a find: a process that forks while it is being ended is met again.
  void sweep_once() {
    const auto found = scan_.strike();
    empty_scans_ = found.empty() && all_ended() ? empty_scans_ + 1 : 0;
    if (empty_scans_ >= 2) {
      for (auto& [rank, worker] : workers_) worker->close();
      workers_.clear();
      driver_->put(AllGone{});
      return;
    }
    if (monotonic_now() - sweep_began_ > kUndeadAfter && !std::exchange(undead_, true)) {
      std::string pids;
      for (const auto pid : found) pids += (pids.empty() ? "" : ", ") + std::to_string(pid);
      driver_->put(
          Undead{"these processes do not die of SIGKILL, they sleep in the kernel (device or "
                 "storage): " +
                 pids});
    }
    sweep_.expires_after(undead_ ? kUndeadLook : kScanEvery);
    sweep_.async_wait([this](const boost::system::error_code& code) {
      if (!code) sweep_once();
    });
  }

  /// What ended by itself must also have been told: it explains the abort.
  [[nodiscard]] bool all_ended() const {
    for (const auto& [rank, worker] : workers_) {
      if (worker->ends_by_itself() && !worker->ended()) return false;
      if (!worker->ended() && worker->pid() > 0 && process_state(worker->pid()) != '?' &&
          process_state(worker->pid()) != 'Z') {
        return false;
      }
    }
    return true;
  }

  void perform(PickPort& c) {
    picked_port_ = pick_port(data_address_, {c.first, c.last}, picked_port_);
    driver_->put(PortPicked{c.generation, picked_port_});
  }

  void perform(CheckSelf& c) {
    SelfCheckInput input;
    input.scratch = bootstrap_.directory();
    input.known_hashes = bootstrap_.scratch + "/hashes";
    input.data_address = bootstrap_.data_address;
    input.data_interface = bootstrap_.data_interface;
    input.control_address = connection_->local_address();
    asio::post(pool_, [this, job = std::move(c.job), input] {
      auto check = check_self(job, input);
      asio::post(context_, [this, job, check = std::move(check)]() mutable {
        peers_->listen(job, *check.ready.mutable_facts());
        data_address_ = check.ready.facts().data_address();
        data_interface_ = check.data_interface;
        driver_->put(SelfChecked{std::move(check.ready), data_interface_});
      });
    });
  }

  void perform(CommitCheckpoint& c) {
    asio::post(pool_, [this, c = std::move(c)] {
      auto error = commit_checkpoint(checkpoint_directory_, c.generation, c.commit);
      driver_->post(CommitDone{c.generation, c.commit.step(), std::move(error)});
    });
  }

  /// Waited for, because this process may end next; not for long, because storage may hang.
  void perform(NoteWritten& c) {
    const auto note = std::make_shared<std::packaged_task<void()>>([c = std::move(c)] {
      (void)note_written(c.directory, c.generation, c.written);  // without it there is none
    });
    const auto noted = note->get_future();
    asio::post(pool_, [note] { (*note)(); });
    (void)noted.wait_for(kNoteLimit);
  }

  void perform(InspectCheckpoints& c) {
    asio::post(pool_, [this, c = std::move(c)] {
      auto found = inspect_checkpoints(c.directory, c.job, c.lock_stale_after);
      const bool taken = found.error().empty() && found.locked_by().empty();
      if (taken) {
        if (auto left = leave_mark(c.directory, c.mark); !left.empty()) found.set_error(left);
      }
      driver_->post(Inspected{std::move(found)});
      if (!taken) return;
      asio::post(context_, [this, c] { lock_.hold(c.directory, stale_after_); });
    });
  }

  void perform(FindMark& c) { find_mark(std::move(c), monotonic_now() + kMarkLimit); }

  void find_mark(FindMark order, Instant give_up_at) {
    asio::post(pool_, [this, order = std::move(order), give_up_at] {
      auto error = look_for_mark(order.directory, order.mark);
      if (error.empty() || monotonic_now() >= give_up_at) {
        driver_->post(MarkLooked{order.generation, std::move(error)});
        return;
      }
      asio::post(context_, [this, order, give_up_at] {
        mark_.expires_after(kMarkEvery);
        mark_.async_wait([this, order, give_up_at](const boost::system::error_code& code) {
          if (!code) find_mark(order, give_up_at);
        });
      });
    });
  }

  void perform(Exit& c) {
    Note note{"over: " + c.reason};
    perform(note);
    driver_->stop();
    signals_.cancel();
    look_.cancel();
    sweep_.cancel();
    mark_.cancel();
    peers_->close();
    // From here on the holder knows that this process must end, however its storage behaves.
    if (holder_ > 0) ::kill(holder_, kLeavingSignal);
    lock_.let_go([this] {
      connection_->finish(kFlushLimit, [this] {
        (void)logs_->flush(kLogLimit);
        context_.stop();
      });
    });
  }

  // ---- what is looked at

  void look() {
    look_.expires_after(kLookEvery);
    look_.async_wait([this](const boost::system::error_code& code) {
      if (code) return;
      for (const auto& [rank, worker] : std::map(workers_)) {
        if (worker->ended() || worker->pid() <= 0) continue;
        const std::string letter(1, process_state(worker->pid()));
        driver_->put(ProcessStateSeen{rank, worker->generation(), letter});
      }
      for (const bool up : carrier_.look(data_interface_)) {
        driver_->put(LinkSeen{data_interface_, up, 0});
      }
      out_of_memory_.look();
      if (++looks_ % kLooksPerFileLook == 0) look_at_files();
      look();
    });
  }

  /// One look at a time: storage that hangs must not fill the pool.
  void look_at_files() {
    if (checkpoint_glob_.empty() || workers_.empty() || looking_at_files_) return;
    looking_at_files_ = true;
    asio::post(pool_, [this, pattern = checkpoint_glob_] {
      const auto newest = newest_checkpoint(pattern);
      asio::post(context_, [this, newest] {
        looking_at_files_ = false;
        if (!newest) return;
        for (const auto& [rank, worker] : std::map(workers_)) {
          driver_->put(ProgramStep{rank, worker->generation(), *newest});
        }
      });
    });
  }

  protocol::Bootstrap bootstrap_;
  std::function<void(const std::string&)> report_;
  asio::io_context context_{1};
  asio::thread_pool pool_{2};
  std::shared_ptr<LogWriter> logs_;
  LockKeeper lock_;
  Identity identity_;
  Agent agent_;
  pid_t holder_;
  ProcessScan scan_;
  asio::signal_set signals_;
  asio::steady_timer look_, sweep_, mark_;
  std::unique_ptr<Driver<Agent, Event>> driver_;
  std::shared_ptr<Connection> connection_;
  std::unique_ptr<PeerHands> peers_;
  std::map<Rank, std::shared_ptr<WorkerHands>> workers_;
  std::string data_address_ = "127.0.0.1";
  std::uint32_t picked_port_ = 0;
  std::string data_interface_;
  std::string checkpoint_directory_;
  std::string step_pattern_;
  std::string checkpoint_glob_;
  int looks_ = 0;
  OutOfMemoryCounter out_of_memory_;
  Carrier carrier_;
  bool looking_at_files_ = false;
  nanoseconds stale_after_ = 60s;
  Instant sweep_began_;
  int empty_scans_ = 0;
  bool undead_ = false;  ///< said of this sweep
  int code_ = kAgentOver;
};

}  // namespace

int run_agent(const protocol::Bootstrap& bootstrap,
              std::function<void(const std::string&)> report) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // without its holder the host is given up
  ::signal(SIGPIPE, SIG_IGN);
  rendezvous::prepare_agent_tls();
  AgentProcess process(bootstrap, std::move(report));
  const int code = process.run();
  // A file that is still being hashed is nobody's business any more.
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace dlaunch::supervisor::host
