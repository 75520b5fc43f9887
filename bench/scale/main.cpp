// How a real controller process fares with thousands of agents: bench/README.md.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>

#include "base/io/clock.h"
#include "base/io/descriptor_limit.h"
#include "base/io/files.h"
#include "bench/scale/fleet.h"
#include "bench/scale/strangers.h"
#include "launcher/controller/io/controller_process.h"
#include "launcher/controller/io/process_io.h"
#include "launcher/controller/io/run_store.h"

namespace {

using namespace dlaunch;
using protocol::ControllerFrame;
namespace controller = launcher::controller;
namespace fs = std::filesystem;

constexpr auto kLimit = 60s;

/// Of another process, by /proc.
struct Usage {
  double cpu = 0;  ///< seconds
  double rss_kib = 0;
};
Usage usage_of(pid_t pid) {
  Usage usage;
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string word;
  for (int i = 3; i <= 15 && fields >> word; ++i) {
    if (i >= 14) usage.cpu += std::atof(word.c_str()) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  }
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) usage.rss_kib = std::atof(line.c_str() + 6);
  }
  return usage;
}

double own_cpu() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

double since(Instant from, Instant to) { return std::chrono::duration<double>(to - from).count(); }

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "scale: %s\n", what.c_str());
  std::exit(1);
}

/// A job whose controller has run before: it waits for its agents and plants none.
controller::RunStart prepare_job(const std::string& folder, std::uint32_t hosts,
                                 std::uint32_t heartbeat_ms) {
  const auto state = folder + "/state";
  fs::create_directory(state);
  fs::create_symlink("/bin/true", folder + "/dlaunch-agent");
  std::ofstream(folder + "/dlaunch-trainer") << "a trainer\n";
  fs::permissions(folder + "/dlaunch-trainer", fs::perms::owner_all);
  std::ofstream(folder + "/text") << "a text\n";
  controller::JobInput input;
  input.id = "scale-" + std::to_string(::getpid());
  input.hosts_file = "hosts.toml";
  input.hosts_text = "[network]\ncontroller_address = \"127.0.0.1\"\n[[host]]\nname = \"host-[0-" +
                     std::to_string(hosts - 1) + "]\"\naddress = \"127.0.0.1\"\n";
  input.train_text =
      "[job]\nname = \"scale\"\n[trainer]\nsteps = 1000000\n[trainer.data]\ntext = \"" + folder +
      "/text\"\n[checkpoint]\nevery = \"1 h\"\n"
      "[recovery]\nreadmit = \"10 min\"\nrestarts.process = 100000\n"
      "no_progress_generations = 1000\n[health]\nlost_after = \"5 s\"\nheartbeat = \"" +
      std::to_string(heartbeat_ms) + " ms\"\n";
  input.train.file = "train.toml";
  input.train.directory = folder;
  input.program_folder = folder;
  if (auto written = controller::write_job_input(state, input); !written) {
    fail(written.error().text());
  }
  auto store = controller::RunStore::open(state);
  if (!store) fail(store.error().text());
  auto start = store->begin({"here", "boot", 1});
  if (!start) fail(start.error().text());
  return *start;
}

struct Wish {
  std::uint32_t hosts = 2048;
  double seconds = 60;
  int generations = 5;
  std::uint32_t heartbeat_ms = 100;
  std::size_t strangers = 0;
  std::string strangers_from = "127.0.0.2";
};

class Run {
 public:
  Run(std::string program, Wish wish)
      : program_(std::move(program)), wish_(std::move(wish)), hosts_(wish_.hosts) {
    std::string made = (fs::temp_directory_path() / "dlaunch-scale-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) fail("no temporary directory");
    folder_ = made;
  }
  ~Run() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    fleet_.reset();
    strangers_.reset();
    fs::remove_all(folder_);
  }

  void measure() {
    const auto start = prepare_job(folder_, hosts_, wish_.heartbeat_ms);
    start_controller();
    bench::Fleet::Setting setting;
    setting.job = "scale-" + std::to_string(::getpid());
    setting.secret = start.secret;
    setting.hosts = hosts_;
    setting.port = setting_port_ = listening_port();
    for (const auto* name : {"/dlaunch-trainer", "/text"}) add_file(setting, folder_ + name);
    fleet_.emplace(context_, std::move(setting));
    std::printf("%u hosts, heartbeat %u ms\n", hosts_, wish_.heartbeat_ms);
    if (wish_.strangers > 0) let_strangers_in();
    join();
    for (int i = 0; i < wish_.generations; ++i) next_generation();
    beat();
    if (strangers_) say_strangers();
  }

 private:
  static void add_file(bench::Fleet::Setting& setting, const std::string& path) {
    const auto hashed = hash_file(path);
    if (!hashed) fail(hashed.error().text());
    auto& fact = setting.files[path];
    fact.set_path(path);
    fact.set_exists(true);
    fact.set_bytes(hashed->bytes);
    fact.set_hash(hashed->hash);
  }

  void start_controller() {
    controller::prefer_large_pages();  // as its keeper would
    pid_ = ::fork();
    if (pid_ < 0) fail("fork failed");
    if (pid_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", program_.c_str(), "__controller", (folder_ + "/state").c_str(),
            nullptr);
    ::_exit(127);
  }

  [[nodiscard]] std::uint16_t listening_port() const {
    const std::string words = "listens on port ";
    const auto end = monotonic_now() + kLimit;
    while (monotonic_now() < end && ::waitpid(pid_, nullptr, WNOHANG) == 0) {
      std::ifstream log(folder_ + "/state/controller.log");
      const std::string text((std::istreambuf_iterator<char>(log)), {});
      const auto at = text.find(words);
      if (at != std::string::npos && text.find('\n', at) != std::string::npos) {
        return static_cast<std::uint16_t>(std::atoi(text.c_str() + at + words.size()));
      }
      ::usleep(10'000);
    }
    auto reader = controller::RunReader::open(folder_ + "/state");
    const auto ended =
        reader ? reader->end()
               : Result<std::optional<controller::EndRow>>(tl::unexpected(reader.error()));
    fail("the controller did not begin" + (ended && *ended ? ": " + (*ended)->sentence : ""));
  }

  void run_until(const std::function<bool()>& condition, const std::string& what) {
    const auto end = monotonic_now() + kLimit;
    while (!condition()) {
      if (monotonic_now() > end || ::waitpid(pid_, nullptr, WNOHANG) == pid_) {
        std::ifstream log(folder_ + "/state/controller.log");
        std::string text((std::istreambuf_iterator<char>(log)), {});
        fail(what + " did not happen; " + std::to_string(fleet_->lost()) + " connections lost (" +
             fleet_->last_reason() + "), " + std::to_string(fleet_->welcomed()) +
             " welcomed; the log ends with:\n" +
             text.substr(text.size() - std::min<std::size_t>(text.size(), 2000)));
      }
      context_.run_one_for(50ms);
    }
  }
  void all_told(ControllerFrame::BodyCase body, std::uint64_t after, const std::string& what) {
    run_until([&] { return fleet_->all_told(body, after); }, what);
  }

  void let_strangers_in() {
    const auto before = usage_of(pid_);
    strangers_.emplace(context_, wish_.strangers_from, setting_port_, wish_.strangers);
    // All that the kernel lets through: its queue of connections is bounded, too.
    const auto end = monotonic_now() + 5s;
    while (monotonic_now() < end) context_.run_one_for(50ms);
    say_strangers();
    const auto after = usage_of(pid_);
    std::printf("  the controller has taken %.1f MiB for them and %.2f s of CPU in 5 s\n",
                (after.rss_kib - before.rss_kib) / 1024, after.cpu - before.cpu);
  }
  void say_strangers() {
    std::printf("  %zu strangers from %s: %zu connections are open, %zu were turned out so far\n",
                wish_.strangers, wish_.strangers_from.c_str(), strangers_->open(),
                strangers_->turned_out());
  }

  void join() {
    const auto before = usage_of(pid_);
    const auto own_before = own_cpu();
    const auto begin = monotonic_now();
    fleet_->dial();
    run_until([this] { return fleet_->welcomed() >= hosts_; }, "welcome");
    const auto welcomed = monotonic_now();
    all_told(ControllerFrame::kPrepare, 0, "the first generation");
    const auto prepared = monotonic_now();
    const auto after = usage_of(pid_);
    std::printf(
        "  from nothing to all welcome %.2f s, in a generation %.2f s"
        " (CPU: controller %.2f s, agents %.2f s)\n",
        since(begin, welcomed), since(begin, prepared), after.cpu - before.cpu,
        own_cpu() - own_before);
    all_told(ControllerFrame::kGo, 0, "training");
    const auto trained = usage_of(pid_);
    std::printf("  training after %.2f s; Assign %zu bytes, %.1f per rank\n",
                since(begin, monotonic_now()), fleet_->moments().assign_bytes,
                static_cast<double>(fleet_->moments().assign_bytes) / hosts_);
    rss_before_ = before.rss_kib;
    std::printf("  memory per host %.1f KiB (%.1f MiB before, %.1f MiB after)\n",
                (trained.rss_kib - before.rss_kib) / hosts_, before.rss_kib / 1024,
                trained.rss_kib / 1024);
  }

  void next_generation() {
    const auto generation = fleet_->moments().generation;
    const auto cpu_before = usage_of(pid_).cpu;
    const auto begin = monotonic_now();
    // Each time on another host: one whose workers crash five times is quarantined.
    fleet_->kill_worker(HostId{static_cast<std::uint32_t>((hosts_ / 2 + generation) % hosts_)});
    all_told(ControllerFrame::kGo, generation, "the next generation");
    const auto& moments = fleet_->moments();
    const auto at = [&](ControllerFrame::BodyCase body) {
      return since(begin, moments.last_told.at(body));
    };
    std::printf(
        "  next generation: worker killed, then at all: abort %.3f s, prepare %.3f s, assign"
        " %.3f s (%.3f s after the last prepared), go %.3f s; controller CPU %.2f s\n",
        at(ControllerFrame::kAbort), at(ControllerFrame::kPrepare), at(ControllerFrame::kAssign),
        since(moments.last_prepared, moments.last_told.at(ControllerFrame::kAssign)),
        at(ControllerFrame::kGo), usage_of(pid_).cpu - cpu_before);
  }

  void beat() {
    const auto before = usage_of(pid_);
    const auto own_before = own_cpu();
    const auto heartbeats = fleet_->heartbeats();
    const auto beats = fleet_->beats();
    const auto begin = monotonic_now();
    const auto end = begin + std::chrono::duration_cast<nanoseconds>(
                                 std::chrono::duration<double>(wish_.seconds));
    while (monotonic_now() < end) context_.run_one_for(50ms);
    const auto took = since(begin, monotonic_now());
    const auto after = usage_of(pid_);
    const auto came = static_cast<double>(fleet_->heartbeats() - heartbeats);
    const auto went = static_cast<double>(fleet_->beats() - beats);
    std::printf(
        "  %.0f s of heartbeats: %.0f a second and %.0f beats back, controller %.1f %% of a core, "
        "agents"
        " %.1f %%; %u connections lost; memory per host %.1f KiB\n",
        took, came / took, went / took, 100 * (after.cpu - before.cpu) / took,
        100 * (own_cpu() - own_before) / took, fleet_->lost(),
        (after.rss_kib - rss_before_) / hosts_);
  }

  std::string program_;
  Wish wish_;
  std::uint32_t hosts_;
  std::uint16_t setting_port_ = 0;
  std::string folder_;
  pid_t pid_ = -1;
  double rss_before_ = 0;
  boost::asio::io_context context_;
  std::optional<bench::Fleet> fleet_;
  std::optional<bench::Strangers> strangers_;
};

}  // namespace

int main(int count, char** words) {
  if (count == 3 && std::string(words[1]) == "__controller") {
    return controller::run_controller(words[2]);
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  ::signal(SIGPIPE, SIG_IGN);
  allow_many_descriptors();
  const auto word = [&](int at, const char* otherwise) {
    return std::string(count > at ? words[at] : otherwise);
  };
  Wish wish;
  wish.hosts = static_cast<std::uint32_t>(std::atoi(word(1, "2048").c_str()));
  wish.seconds = std::atof(word(2, "60").c_str());
  wish.generations = std::atoi(word(3, "5").c_str());
  wish.heartbeat_ms = static_cast<std::uint32_t>(std::atoi(word(4, "100").c_str()));
  wish.strangers = static_cast<std::size_t>(std::atoi(word(5, "0").c_str()));
  wish.strangers_from = word(6, "127.0.0.2");
  if (wish.hosts < 2 || wish.heartbeat_ms < 10) {
    fail("usage: scale [HOSTS [SECONDS [GENERATIONS [HEARTBEAT_MS [STRANGERS [FROM]]]]]]");
  }
  Run run(words[0], wish);
  run.measure();
  return 0;
}
