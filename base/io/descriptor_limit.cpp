#include "base/io/descriptor_limit.h"

#include <sys/resource.h>

namespace dlaunch {

void allow_many_descriptors() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace dlaunch
