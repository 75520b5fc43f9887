// Compares what hosts report of the files that the job needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::launcher::controller {

/// What is in a file, as far as it is compared.
struct Content {
  std::uint64_t bytes = 0;
  std::string hash;

  friend bool operator==(const Content&, const Content&) = default;
};

/// A file must be as the controller's own copy; where it has none, as on most hosts. What most
/// hosts have may change while they report, and verdicts with it, until the job has started.
class Preflight {
 public:
  struct Verdict {
    bool fit = true;
    bool by_files = false;  ///< a needed file or directory is missing there or differs
    std::string sentence;

    friend bool operator==(const Verdict&, const Verdict&) = default;
  };
  /// `own`: by path; of files that the controller's machine does not have there is none.
  explicit Preflight(std::map<std::string, Content> own) : own_(std::move(own)) {}

  /// The host's verdict, and those of others that have changed by what it reports. `gpus`: how many
  /// the host must have.
  [[nodiscard]] std::vector<std::pair<HostId, Verdict>> take(HostId id, const std::string& host,
                                                             const protocol::Ready& ready,
                                                             std::uint32_t gpus = 0);
  /// The job has started: what others compare with is fixed now. `trusted`: after a restart of the
  /// controller, the hosts of the generation that was there, which had all been compared: what one
  /// of them reports first is the reference, and until then the others are not fit.
  void settle(std::set<HostId> trusted = {});
  /// A trusted host will not report any more. If it was the last of them and none has said what it
  /// has, all are compared as at the start.
  [[nodiscard]] std::vector<std::pair<HostId, Verdict>> lost(HostId id);
  /// None of the trusted hosts is there any more: all are compared as at the start.
  [[nodiscard]] std::vector<std::pair<HostId, Verdict>> start_over();
  /// What the host reported last; it must have reported.
  [[nodiscard]] const protocol::Ready& report_of(HostId id) const { return hosts_.at(id).ready; }

 private:
  struct Host {
    std::string name;
    protocol::Ready ready;
    std::uint32_t gpus = 0;
    Verdict verdict;
  };
  /// The hosts that have one content of a file.
  struct Copy {
    Content content;
    std::set<HostId> hosts;
  };
  struct Reference {
    Content content;
    std::string where;
  };
  [[nodiscard]] Verdict judge(const Host& host) const;
  void forget(HostId id);
  void count(HostId id, const protocol::FileFact& file);
  /// True: others have to be judged again.
  bool choose_reference(const std::string& path);
  [[nodiscard]] bool may_choose(const Copy& copy) const;
  [[nodiscard]] std::vector<std::pair<HostId, Verdict>> judge_all(std::optional<HostId> told);

  std::map<std::string, Content> own_;
  std::map<HostId, Host> hosts_;
  std::map<std::string, std::vector<Copy>> copies_;  ///< by path
  std::map<std::string, Reference> references_;
  bool settled_ = false;
  std::set<HostId> trusted_;  ///< empty: all
};

/// Size and hash of the training data as JSON, like `data` in a checkpoint's manifest; nullopt: the
/// job has none, or its hash was not asked for.
[[nodiscard]] std::optional<std::string> data_of(const protocol::JobSpec& job,
                                                 const protocol::Ready& ready);

}  // namespace dlaunch::launcher::controller
