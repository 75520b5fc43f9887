#include "launcher/cli/io/viewer_loop.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

#include "base/io/clock.h"
#include "launcher/cli/io/control_client.h"
#include "launcher/cli/job_id.h"

namespace dlaunch::launcher::cli {
namespace {

constexpr nanoseconds kGoneLimit = 1s;     // between a keeper's last act and its end
constexpr nanoseconds kSilentLimit = 10s;  // what a keeper needs to start a controller again
constexpr int kPollMilliseconds = 100;
constexpr milliseconds kRequestLimit = 5s;

class Loop {
 public:
  Loop(const JobDirectory& job, ViewerMode mode, bool verbose, Signals signals)
      : job_(job),
        mode_(mode),
        viewer_(mode, name_of(job.id).value_or(job.id), verbose),
        signals_(std::move(signals)),
        gone_since_(monotonic_now()) {}

  int run() {
    while (!code_) {
      if (!client_) connect();
      if (client_ && wish_) ask_for_wish();
      wait();
      while (const auto number = signals_.next()) signalled(*number);
    }
    return *code_;
  }

 private:
  void connect() {
    auto client = ControlClient::connect(job_.path);
    if (client) {
      const nlohmann::json watch = {{"request", "watch"},
                                    {"attached", mode_ == ViewerMode::attached}};
      if (client->send(watch)) {
        client_.emplace(std::move(*client));
        said_silent_ = false;
        return;
      }
    }
    // No controller: it has ended, or its keeper is about to start it again, or both are gone.
    const auto silent = monotonic_now() - gone_since_;
    if (is_kept(job_)) {
      if (silent > kSilentLimit && !std::exchange(said_silent_, true)) step(ControllerSilent{});
      return;
    }
    if (const auto end = read_end(job_)) {
      return step(Told{{{"type", "ended"}, {"code", end->code}, {"sentence", end->sentence}}});
    }
    if (silent > kGoneLimit) step(ControllerGone{});
  }

  /// Told to the controller as soon as there is one.
  void ask_for_wish() {
    const auto answer = ask(job_.path, *wish_, kRequestLimit);
    if (answer) wish_.reset();
  }

  void wait() {
    std::array<pollfd, 2> entries{
        {{signals_.descriptor(), POLLIN, 0}, {client_ ? client_->descriptor() : -1, POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), kPollMilliseconds) <= 0 || !client_) return;
    if (entries[1].revents == 0) return;
    const auto open = client_->read_some();
    bool broken = !open || !*open;
    while (!code_) {
      const auto line = client_->take();
      if (!line) broken = true;
      if (!line || !*line) break;
      step(Told{**line});
    }
    if (!broken) return;
    client_.reset();
    gone_since_ = monotonic_now();
  }

  void signalled(int number) {
    step(Signalled{number == SIGINT    ? UserSignal::interrupt
                   : number == SIGTERM ? UserSignal::terminate
                                       : UserSignal::hang_up});
  }

  void step(const ViewerEvent& event) {
    bool unread = false;
    for (const auto& command : viewer_.step(monotonic_now(), event)) {
      if (const auto* print = std::get_if<Print>(&command)) {
        auto* stream = print->error ? stderr : stdout;
        const bool told = std::fputs(print->text.c_str(), stream) >= 0 && std::fflush(stream) == 0;
        if (!told && !print->error) unread = true;
      } else if (const auto* request = std::get_if<Request>(&command)) {
        wish_ = request->request;
        ask_for_wish();
      } else if (!code_) {
        code_ = std::get<Leave>(command).code;
      }
    }
    if (unread && !code_ && !std::exchange(terminal_gone_, true)) step(TerminalGone{});
  }

  JobDirectory job_;
  ViewerMode mode_;
  Viewer viewer_;
  Signals signals_;
  std::optional<ControlClient> client_;
  Instant gone_since_;
  bool said_silent_ = false;
  bool terminal_gone_ = false;
  std::optional<nlohmann::json> wish_;  ///< of the user, not answered yet
  std::optional<int> code_;
};

}  // namespace

int view_job(const JobDirectory& job, ViewerMode mode, bool verbose, Signals signals) {
  return Loop(job, mode, verbose, std::move(signals)).run();
}

}  // namespace dlaunch::launcher::cli
