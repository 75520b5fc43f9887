// What other processes see as this one's command line.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::supervisor::host {

/// The memory that main's arguments lie in: the kernel shows it as /proc/<pid>/cmdline. A forked
/// process takes a name of its own with it, as an exec would, for a thousandth of the time.
class CommandLine {
 public:
  /// `arguments` as main got them; used no more by their owner after `become`.
  CommandLine(int count, char** arguments);

  /// False: there is no room for these words, and nothing was changed.
  bool become(const std::vector<std::string>& words) const;

 private:
  char* begin_ = nullptr;
  char* end_ = nullptr;
};

}  // namespace dlaunch::supervisor::host
