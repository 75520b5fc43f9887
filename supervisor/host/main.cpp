// dlaunch-agent: plant, holder and agent in one static binary that needs nothing on its host.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "base/io/file_descriptor.h"
#include "protocol/bootstrap.h"
#include "supervisor/host/io/agent_process.h"
#include "supervisor/host/io/holder.h"
#include "supervisor/host/io/login_environment.h"
#include "supervisor/host/io/plant.h"

namespace {

using namespace dlaunch::supervisor::host;

/// The whole of stdin: the line that the process above keeps in memory.
std::string read_stdin() {
  auto text = dlaunch::read_all(0, dlaunch::protocol::kBootstrapBytesMax + 1, "stdin").value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

int fail(const std::string& sentence) {
  std::fprintf(stderr, "dlaunch-agent: %s\n", sentence.c_str());
  return 64;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view verb = count > 1 ? arguments[1] : "";
  // Not the path behind it: another start on this machine may put its own copy there meanwhile.
  const std::string self = "/proc/self/exe";
  ::prctl(PR_SET_NAME, "dlaunch-agent");  // else its name is "exe"
  if (verb == "plant") return run_plant(self);
  if (verb == "environment") return print_environment();
  if (verb != "holder" && verb != "agent") {
    return fail("it is started by dlaunch; there is nothing to call by hand");
  }
  const auto line = read_stdin();
  const auto bootstrap = dlaunch::protocol::parse_bootstrap(line);
  if (!bootstrap) return fail(bootstrap.error().text());
  const bool reports = ::fcntl(kReportDescriptor, F_GETFD) >= 0;
  if (verb == "holder") {
    return run_holder(*bootstrap, line, reports ? kReportDescriptor : -1, self);
  }
  // The lock is the holder's and ours; a worker that outlives us must not hold it.
  if (::fcntl(kLockDescriptor, F_GETFD) >= 0) ::fcntl(kLockDescriptor, F_SETFD, FD_CLOEXEC);
  if (!reports) return run_agent(*bootstrap, nullptr);
  ::fcntl(kReportDescriptor, F_SETFD, FD_CLOEXEC);
  return run_agent(*bootstrap, [](const std::string& said) {
    (void)dlaunch::write_all(kReportDescriptor, said + "\n");
    if (said.find("welcomed") != std::string::npos) ::close(kReportDescriptor);
  });
}
