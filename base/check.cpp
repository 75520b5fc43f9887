#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace dlaunch {

void check_failed(const char* condition, const char* sentence, const char* file, int line) {
  std::fprintf(stderr, "dlaunch: a bug in dlaunch: %s (%s, %s:%d)\n", sentence, condition, file,
               line);
  std::fflush(stderr);
  std::abort();
}

}  // namespace dlaunch
