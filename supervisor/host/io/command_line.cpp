#include "supervisor/host/io/command_line.h"

#include <algorithm>
#include <cstring>

namespace dlaunch::supervisor::host {

CommandLine::CommandLine(int count, char** arguments) {
  if (count <= 0) return;
  begin_ = arguments[0];
  end_ = begin_;
  // They follow one another on Linux; should one lie elsewhere, what is before it is all there is.
  for (int index = 0; index < count && arguments[index] == end_; ++index) {
    end_ += std::strlen(arguments[index]) + 1;
  }
}

bool CommandLine::become(const std::vector<std::string>& words) const {
  std::string text;
  for (const std::string& word : words) text += word + '\0';
  if (text.size() > static_cast<std::size_t>(end_ - begin_)) return false;
  std::fill(std::copy(text.begin(), text.end(), begin_), end_, '\0');
  return true;
}

}  // namespace dlaunch::supervisor::host
