// The training loop: from the restored state to the last step, a stop, an abort or a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/ids.h"
#include "base/result.h"
#include "protocol/worker_message.h"
#include "trainer/comm/communicator.h"
#include "trainer/comm/io/abort_flag.h"
#include "trainer/data/order.h"
#include "trainer/data/tokens.h"
#include "trainer/flat_array.h"
#include "trainer/mailbox.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/placement.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// This rank's part of all that a checkpoint holds; everything else is a function of it and the
/// settings.
struct TrainingState {
  explicit TrainingState(std::size_t count)
      : values(count), moments(count), second_moments(count) {}

  std::uint64_t step = 0;                     ///< optimizer steps taken
  FlatArray values, moments, second_moments;  ///< as Placement::kept says
};

/// What is known of a step that is complete.
struct StepFigures {
  std::uint64_t step = 0;
  double loss = 0;     ///< mean over the step's tokens, before the step
  double norm = 0;     ///< of the mean gradient, before it was clipped
  double seconds = 0;  ///< of this rank
  double waiting = 0;  ///< of them, seconds in which other ranks were waited for
  ParameterBytes gathered;
  std::uint64_t bytes_sent = 0;   ///< to other ranks
  double collective_seconds = 0;  ///< in which collectives were under way
};

/// Who is told about progress; called on the training thread and must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void entered(std::string_view phase) = 0;
  virtual void completed(const StepFigures& figures) = 0;
  /// `loss`: mean over the validation's tokens, after `step` steps; it may be no finite number.
  virtual void validated(std::uint64_t step, double loss) = 0;
};

/// Who writes checkpoints.
class Saver {
 public:
  virtual ~Saver() = default;
  /// Copies the state and returns; waits only while an earlier save is still being written.
  [[nodiscard]] virtual Result<void> start(const TrainingState& state) = 0;
  /// Everything that was started is on disk and reported, or why it is not.
  [[nodiscard]] virtual Result<void> finish() = 0;
  /// A save in the background has failed; success while nothing is known against it.
  [[nodiscard]] virtual Result<void> trouble() const = 0;
  /// The newest step that has a checkpoint, be it restored from or started here.
  [[nodiscard]] virtual std::optional<std::uint64_t> newest() const = 0;
};

/// The loop's hands; all outlive it.
struct Training {
  const TrainerSettings& settings;
  Placement& placement;
  const DataOrder& order;
  const TokenView& data;  ///< that `order` was made for
  TrainingState& state;
  Model& model;
  comm::Communicator& communicator;
  comm::AbortFlag& abort;  ///< also set by the loop, when this rank fails while others go on
  Mailbox& mailbox;
  Saver& saver;
  Observer& observer;
  comm::Communicator* copy = nullptr;  ///< as EngineHands has them
  comm::Communicator* copies = nullptr;
};

struct Finished {
  std::uint64_t step = 0;
};
/// Why it ended early: a failure of communication (abort and lost peers among them), or of this
/// rank itself.
struct Failed {
  protocol::worker::FailingCategory category{};
  std::string reason;
  /// A device or its driver is broken: no category says so, but the process's last words do, by
  /// which the job knows such faults.
  bool broken_device = false;
};
using Outcome = std::variant<Finished, comm::CommFailure, Failed>;

/// Every rank calls it with the same settings and the same state. On return this rank is in no
/// collective, and the state is that of a whole step: `state.step` of them.
[[nodiscard]] Outcome train(Training& training);

}  // namespace dlaunch::trainer
