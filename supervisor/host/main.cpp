// dlaunch-agent: plant, holder and agent in one static binary that needs nothing on its host.
#include <sys/prctl.h>

#include <cstdio>
#include <string_view>

#include "supervisor/host/io/command_line.h"
#include "supervisor/host/io/login_environment.h"
#include "supervisor/host/io/plant.h"

int main(int count, char** arguments) {
  using namespace dlaunch::supervisor::host;
  const std::string_view verb = count > 1 ? arguments[1] : "";
  if (verb == "environment") return print_environment();
  if (verb != "plant") {
    std::fputs("dlaunch-agent: it is started by dlaunch; there is nothing to call by hand\n",
               stderr);
    return 64;
  }
  ::prctl(PR_SET_NAME, "dlaunch-agent");  // its file's name is cut before the end
  return run_plant(CommandLine(count, arguments));
}
