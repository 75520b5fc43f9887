#include "launcher/cli/io/console.h"

#include <cstdio>

namespace dlaunch::launcher::cli {

using supervisor::job::ExitCode;

int complain(int code, const std::string& sentence) {
  std::fprintf(stderr, "dlaunch: %s\n", sentence.c_str());
  return code;
}

int complain(ExitCode code, const std::string& sentence) {
  return complain(to_int(code), sentence);
}

bool print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

std::optional<JobDirectory> find_or_complain(const std::string& wanted, int& code) {
  const auto job = find_job_directory(wanted);
  if (!job) {
    code = complain(ExitCode::bug, job.error().text());
    return std::nullopt;
  }
  if (!*job) {
    code = complain(ExitCode::usage, wanted.empty() ? kNoJob : "there is no job " + wanted);
  }
  return *job;
}

}  // namespace dlaunch::launcher::cli
