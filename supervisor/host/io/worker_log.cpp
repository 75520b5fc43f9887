#include "supervisor/host/io/worker_log.h"

#include <utility>

#include "base/utf8.h"
#include "protocol/limits.h"

namespace dlaunch::supervisor::host {

WorkerLog::WorkerLog(std::shared_ptr<LogWriter> writer, Generation generation, Rank rank)
    : writer_(std::move(writer)), file_(writer_->open(generation, rank)) {}

WorkerLog::~WorkerLog() { writer_->close(file_); }

void WorkerLog::keep(std::string_view line) {
  last_lines_.push_back(to_utf8(line, protocol::kLastLineBytesMax));
  if (last_lines_.size() > protocol::kLastLinesMax) last_lines_.pop_front();
}

WorkerLog::Passed WorkerLog::append(std::string_view bytes, std::size_t bytes_max) {
  writer_->write(file_, bytes);
  Passed passed;
  partial_.append(bytes);
  std::size_t begin = 0;
  for (auto end = partial_.find('\n'); end != std::string::npos; end = partial_.find('\n', begin)) {
    const auto line = to_utf8(std::string_view(partial_).substr(begin, end - begin));
    keep(line);
    if (passed.text.size() + line.size() + 1 <= bytes_max) {
      passed.text.append(line).push_back('\n');
    } else {
      ++passed.dropped;
    }
    begin = end + 1;
  }
  partial_.erase(0, begin);
  if (partial_.size() > protocol::kLogFrameBytesMax) {  // a progress bar without line ends
    keep(partial_);
    partial_.clear();
    ++passed.dropped;
  }
  return passed;
}

void WorkerLog::finish() {
  if (!partial_.empty()) keep(std::exchange(partial_, ""));
}

}  // namespace dlaunch::supervisor::host
