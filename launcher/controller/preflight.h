// Compares what hosts report of the files that the job needs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/ids.h"
#include "protocol/agent_wire.pb.h"

namespace dlaunch::launcher::controller {

/// The first host that reports a file sets what the others are compared with.
class Preflight {
 public:
  struct Verdict {
    bool fit = true;
    bool by_files = false;  ///< a needed file or directory is missing there or differs
    std::string sentence;
  };
  /// `gpus`: how many the host must have.
  [[nodiscard]] Verdict judge(const std::string& host, const protocol::Ready& ready,
                              std::uint32_t gpus = 0);

 private:
  struct Reference {
    std::string host;
    protocol::FileFact fact;
  };
  std::map<std::string, Reference> references_;
};

/// Size and hash of the training data as JSON, like `data` in a checkpoint's manifest; nullopt: the
/// job has none, or its hash was not asked for.
[[nodiscard]] std::optional<std::string> data_of(const protocol::JobSpec& job,
                                                 const protocol::Ready& ready);

/// The newest generation of which workers run there; 0: none.
[[nodiscard]] Generation newest_running(const protocol::Hello& hello);

}  // namespace dlaunch::launcher::controller
