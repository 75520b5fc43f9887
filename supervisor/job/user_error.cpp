#include "supervisor/job/user_error.h"

#include <utility>

namespace dlaunch::supervisor::job {
namespace {

constexpr nanoseconds kEarly = 120s;
constexpr int kSigabrt = 6, kSigfpe = 8, kSigsegv = 11;
// What a shell returns when its child was ended by SIGKILL or SIGTERM.
constexpr int kCodeOfSigkill = 137, kCodeOfSigterm = 143;

bool may_be_the_users(const ProgramEnd& end) {
  if (end.last_line.empty()) return false;
  if (end.signal == 0) {
    return end.code != 0 && end.code != kCodeOfSigkill && end.code != kCodeOfSigterm;
  }
  return end.signal == kSigsegv || end.signal == kSigabrt || end.signal == kSigfpe;
}

}  // namespace

bool UserErrorRule::judge(const ProgramEnd& end) {
  if (!may_be_the_users(end)) {
    last_.reset();
    return false;
  }
  const auto before = std::exchange(last_, end);
  if (!before || before->code != end.code || before->signal != end.signal ||
      before->last_line != end.last_line) {
    return false;
  }
  const bool both_early = before->lived < kEarly && end.lived < kEarly;
  return both_early || (before->step && before->step == end.step);
}

}  // namespace dlaunch::supervisor::job
