#include "launcher/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/units.h"
#include "supervisor/job/exit_code.h"

namespace dlaunch::launcher::cli {
namespace {

constexpr int kUsage = supervisor::job::to_int(supervisor::job::ExitCode::usage);
constexpr const char* kVersion = "dlaunch 0.1.0\n";

constexpr const char* kOverview = R"(dlaunch starts and supervises training jobs on many hosts.

  dlaunch [--hostfile hosts.toml] train.toml   run and watch; no hostfile: this machine
  dlaunch run ...                              the same (--detach, --set KEY=VALUE, --fresh, --dry-run)
  dlaunch list                                 the jobs of this user on this machine
  dlaunch attach [JOB]                         watch a job again
  dlaunch resume [JOB]                         go on after the login host rebooted or the job stopped
  dlaunch status [JOB]                         hosts, ranks, step, incidents (--json, --watch, --wait)
  dlaunch logs [JOB]                           the workers' output (--rank, --host, --follow)
  dlaunch events [JOB]                         everything that happened, one line each (--json)
  dlaunch report [JOB]                         goodput, recovery by phase, curves (--svg, --json)
  dlaunch stop [JOB]                           checkpoint, then stop (--now: no checkpoint)
  dlaunch drain | add [JOB] HOST               take a host out at a step boundary, let one in
  dlaunch clean [HOST...]                      what ended jobs left on hosts (--dry-run)
  dlaunch simulate scenario.toml               a simulated cluster, its faults, and what comes of it

A JOB is a name or an id; left out, it is the only or newest one. Each command has -h.
Exit codes: 0 finished, 64 wrong command line, 65 wrong file, 69 hosts missing, 74 storage,
75 stopped and can be resumed, 76 given up, 77 SSH key, 130 stopped at once; others are the program's.
)";

/// Named in the contract, built later.
const std::set<std::string> kNotAvailable = {"check", "plan", "drill", "checkpoint"};
const std::set<std::string> kJobStates = {"starting", "running",  "recovering", "waiting",
                                          "stopping", "finished", "stopped",    "failed"};

/// Parses with `app`; nullopt: go on, else what to say.
std::optional<Said> parse_with(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return Said{0, app.help()};
  } catch (const CLI::ParseError& error) {
    return Said{kUsage, "dlaunch: " + std::string(error.what()) + "\nSee `dlaunch " +
                            (app.get_name() == "run" ? "" : app.get_name() + " ") + "-h`.\n"};
  }
  return std::nullopt;
}

void add_verbose(CLI::App& app, bool& verbose) {
  app.add_flag("-v,--verbose", verbose, "all lines of rank 0, also those of its steps");
}

void add_job(CLI::App& app, std::string& job) {
  app.add_option("JOB", job, "name or id of the job; default: the only or newest one");
}

Options parse_run(std::vector<std::string> arguments) {
  RunOptions options;
  CLI::App app("Run a training job and watch it.", "run");
  app.add_option("--hostfile", options.hostfile,
                 "hosts.toml, or a hostfile of Open MPI, MPICH, DeepSpeed");
  app.add_option("--from", options.from, "take the hosts from a scheduler's environment: slurm")
      ->check(CLI::IsMember({"slurm"}));
  app.add_option("train.toml", options.train_file, "what to run")->required();
  app.add_option("--set", options.set, "override a key of train.toml: --set job.name=x")
      ->allow_extra_args(false);
  app.add_flag("--detach", options.detach, "return once the job runs");
  app.add_flag("--fresh", options.fresh, "start anew; the checkpoint directory must be empty");
  app.add_flag("--attached", options.attached, "tie the job to this process (for schedulers)");
  app.add_flag("--dry-run", options.dry_run, "print the plan, start nothing");
  app.add_flag("--json", options.json, "with --dry-run: as JSON");
  add_verbose(app, options.verbose);
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  if (!options.hostfile.empty() && !options.from.empty()) {
    return Said{kUsage, "dlaunch: --hostfile and --from exclude each other\n"};
  }
  if (options.detach && options.attached) {
    return Said{kUsage, "dlaunch: --detach and --attached exclude each other\n"};
  }
  if (options.json && !options.dry_run) {
    return Said{kUsage,
                "dlaunch: --json goes with --dry-run; a running job has `dlaunch status "
                "--json`\n"};
  }
  return options;
}

Options parse_list(std::vector<std::string> arguments) {
  ListOptions options;
  CLI::App app("List this user's jobs on this machine.", "list");
  app.add_flag("--json", options.json, "as JSON");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  return options;
}

Options parse_attach(std::vector<std::string> arguments) {
  AttachOptions options;
  CLI::App app("Watch a job again. Ctrl-C detaches.", "attach");
  add_job(app, options.job);
  add_verbose(app, options.verbose);
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  return options;
}

Options parse_resume(std::vector<std::string> arguments) {
  ResumeOptions options;
  CLI::App app("Go on with a job that stopped, or whose login host rebooted.", "resume");
  add_job(app, options.job);
  app.add_flag("--detach", options.detach, "return once the job runs");
  add_verbose(app, options.verbose);
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  return options;
}

Options parse_status(std::vector<std::string> arguments) {
  StatusOptions options;
  std::string timeout;
  CLI::App app("Show a job: hosts, ranks, step, checkpoint, incidents.", "status");
  add_job(app, options.job);
  app.add_flag("--json", options.json, "as JSON (schema 1)");
  app.add_flag("--watch", options.watch, "again every second until the job has ended");
  app.add_option("--wait", options.wait, "wait for this state; 0 when reached, 1 when it cannot be")
      ->check(CLI::IsMember(kJobStates));
  app.add_option("--timeout", timeout, "with --wait: give up after this long (\"30 s\")");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  if (options.watch && !options.wait.empty()) {
    return Said{kUsage, "dlaunch: --watch and --wait exclude each other\n"};
  }
  if (timeout.empty()) return options;
  if (options.wait.empty()) {
    return Said{kUsage, "dlaunch: --timeout goes with --wait STATE\n"};
  }
  options.timeout = parse_duration(timeout);
  if (!options.timeout) {
    return Said{kUsage, "dlaunch: --timeout wants a duration with a unit, like \"30 s\"; got \"" +
                            timeout + "\"\n"};
  }
  return options;
}

Options parse_logs(std::vector<std::string> arguments) {
  LogsOptions options;
  CLI::App app("Print what workers wrote.", "logs");
  add_job(app, options.job);
  app.add_option("--rank", options.rank, "of this rank only");
  app.add_option("--host", options.host, "of this host's ranks only");
  app.add_option("--generation", options.generation, "of this generation; default: the newest");
  app.add_flag("--follow", options.follow, "go on as more is written");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  return options;
}

Options parse_events(std::vector<std::string> arguments) {
  EventsOptions options;
  CLI::App app("Print everything that happened, one line each.", "events");
  add_job(app, options.job);
  app.add_flag("--json", options.json, "one JSON object a line");
  app.add_flag("--follow", options.follow, "go on as more happens, until the job has ended");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  return options;
}

Options parse_stop(std::vector<std::string> arguments) {
  StopOptions options;
  bool no_wait = false;
  CLI::App app("Write a checkpoint, then stop the job.", "stop");
  add_job(app, options.job);
  app.add_flag("--now", options.now, "at once, without a checkpoint");
  app.add_flag("--no-wait", no_wait, "return at once");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  options.wait = !no_wait;
  return options;
}

Options parse_report(std::vector<std::string> arguments) {
  ReportOptions options;
  CLI::App app("What became of a job's time: goodput, incidents, recovery by phase, curves.",
               "report");
  add_job(app, options.job);
  app.add_option("--svg", options.svg, "also draw the curves into this file");
  app.add_flag("--json", options.json, "as JSON, without the curves");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  return options;
}

Options parse_simulate(std::vector<std::string> arguments) {
  SimulateOptions options;
  CLI::App app(
      "Run a job on a simulated cluster: the same decisions as in a real one, faults by the seed.",
      "simulate");
  app.add_option("scenario.toml", options.scenario, "the job, its cluster and the faults")
      ->required();
  app.add_option("--seed", options.seed, "of the first run; the same seed gives the same run");
  app.add_option("--seeds", options.seeds, "how many runs, each with the next seed")
      ->check(CLI::Range(1, 1'000'000));
  app.add_flag("--trace", options.trace, "every event of the simulated world, one line each");
  app.add_flag("--json", options.json, "what came of each seed, as JSON");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  if (options.trace && options.json) {
    return Said{kUsage, "dlaunch: --trace and --json exclude each other\n"};
  }
  return options;
}

Options parse_membership(std::vector<std::string> arguments, bool drain) {
  MembershipOptions options;
  options.drain = drain;
  std::vector<std::string> names;
  bool no_wait = false;
  std::string timeout;
  CLI::App app(drain ? "Take a host out of the job at the next step boundary."
                     : "Let a host that was taken out take part again.",
               drain ? "drain" : "add");
  app.add_option("JOB HOST", names,
                 "name or id of the job (default: the only or newest one), and the host's name")
      ->required()
      ->expected(1, 2);
  app.add_flag("--no-wait", no_wait, "return once the job has been told");
  app.add_option("--timeout", timeout, "wait at most so long; default: 10 min");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  options.wait = !no_wait;
  if (!timeout.empty()) {
    const auto parsed = parse_duration(timeout);
    if (!parsed) return Said{kUsage, "dlaunch: --timeout: '" + timeout + "' is no duration\n"};
    options.timeout = *parsed;
  }
  options.host = names.back();
  if (names.size() > 1) options.job = names.front();
  return options;
}
Options parse_drain(std::vector<std::string> arguments) {
  return parse_membership(std::move(arguments), true);
}
Options parse_add(std::vector<std::string> arguments) {
  return parse_membership(std::move(arguments), false);
}

Options parse_clean(std::vector<std::string> arguments) {
  CleanOptions options;
  CLI::App app("End and remove what ended jobs of this user left on hosts, their logs too.",
               "clean");
  app.add_option("HOST", options.hosts, "only on these hosts; default: all hosts of ended jobs");
  app.add_flag("--dry-run", options.dry_run, "only look");
  app.add_flag("--json", options.json, "as JSON");
  if (auto said = parse_with(app, std::move(arguments))) return *said;
  return options;
}

using Parse = Options (*)(std::vector<std::string>);
const std::map<std::string, Parse> kCommands = {
    {"run", parse_run},       {"list", parse_list},     {"attach", parse_attach},
    {"resume", parse_resume}, {"status", parse_status}, {"logs", parse_logs},
    {"events", parse_events}, {"stop", parse_stop},     {"drain", parse_drain},
    {"add", parse_add},       {"report", parse_report}, {"simulate", parse_simulate},
    {"clean", parse_clean}};

}  // namespace

Options parse_options(std::vector<std::string> arguments) {
  if (arguments.empty()) return Said{kUsage, kOverview};
  const auto first = arguments.front();
  if (first == "-h" || first == "--help" || first == "help") return Said{0, kOverview};
  if (first == "--version") return Said{0, kVersion};
  if (kNotAvailable.contains(first)) {
    return Said{kUsage, "dlaunch: `" + first + "` is not available yet\n"};
  }
  const auto command = kCommands.find(first);
  if (command == kCommands.end() && arguments.size() == 2 && first == "__keeper") {
    return KeeperOptions{arguments[1]};
  }
  if (command == kCommands.end() && arguments.size() == 2 && first == "__controller") {
    return ControllerOptions{arguments[1]};
  }
  if (command == kCommands.end()) return parse_run(std::move(arguments));
  arguments.erase(arguments.begin());
  return command->second(std::move(arguments));
}

}  // namespace dlaunch::launcher::cli
