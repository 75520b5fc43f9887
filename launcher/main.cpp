// dlaunch: viewer, keeper and controller of a job, chosen by the command line.
#include <cstdio>
#include <string>
#include <variant>
#include <vector>

#include "base/overloaded.h"
#include "launcher/cli/io/commands.h"
#include "launcher/cli/options.h"
#include "launcher/controller/io/controller_process.h"
#include "launcher/controller/io/keeper.h"
#include "simulation/io/simulate_command.h"

int main(int count, char** arguments) {
  using namespace dlaunch;
  using namespace dlaunch::launcher::cli;
  const auto options = parse_options(std::vector<std::string>(arguments + 1, arguments + count));
  return std::visit(Overloaded{
                        [](const RunOptions& o) { return run_job(o); },
                        [](const ListOptions& o) { return list_jobs(o); },
                        [](const AttachOptions& o) { return attach_job(o); },
                        [](const ResumeOptions& o) { return resume_job(o); },
                        [](const StatusOptions& o) { return show_status(o); },
                        [](const LogsOptions& o) { return show_logs(o); },
                        [](const EventsOptions& o) { return show_events(o); },
                        [](const ReportOptions& o) { return show_report(o); },
                        [](const StopOptions& o) { return stop_job(o); },
                        [](const MembershipOptions& o) { return change_membership(o); },
                        [](const CleanOptions& o) { return clean_hosts(o); },
                        [](const SimulateOptions& o) { return simulation::simulate(o); },
                        [](const KeeperOptions& o) {
                          return launcher::controller::run_keeper(o.state_directory);
                        },
                        [](const ControllerOptions& o) {
                          return launcher::controller::run_controller(o.state_directory);
                        },
                        [](const Said& said) {
                          std::fputs(said.text.c_str(), said.code == 0 ? stdout : stderr);
                          return said.code;
                        },
                    },
                    options);
}
