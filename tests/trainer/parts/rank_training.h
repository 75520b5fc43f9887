// What the tests of the loop share: one rank's part in it, and who watches.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "trainer/loop.h"
#include "trainer/model/definition.h"

namespace dlaunch::trainer {

class NotingSaver final : public Saver {
 public:
  Result<void> start(const TrainingState& state) override {
    steps.push_back(state.step);
    return {};
  }
  Result<void> finish() override { return trouble_; }
  Result<void> trouble() const override { return trouble_; }
  std::optional<std::uint64_t> newest() const override {
    return steps.empty() ? std::nullopt : std::optional(steps.back());
  }
  std::vector<std::uint64_t> steps;
  Result<void> trouble_;
};

class NotingObserver final : public Observer {
 public:
  void entered(std::string_view) override {}
  void completed(const StepFigures& figures) override {
    steps.push_back(figures.step);
    losses.push_back(figures.loss);
    norms.push_back(figures.norm);
    gathered = figures.gathered;
    if (on_step) on_step(figures.step);
  }
  void validated(std::uint64_t step, double loss) override { validations[step] = loss; }
  std::vector<std::uint64_t> steps;
  std::vector<double> losses, norms;
  std::map<std::uint64_t, double> validations;
  ParameterBytes gathered;
  std::function<void(std::uint64_t)> on_step;
};

/// One rank with first values, put together as `Member` does, but for the model. All that is given
/// outlives it.
struct RankTraining {
  RankTraining(const TrainerSettings& its, std::span<const std::byte> text,
               comm::Communicator& mesh)
      : settings(its),
        communicator(mesh),
        placement(placed(its, mesh)),
        data(text, 1),
        order(its, data.size()),
        state(placement.kept().count) {
    fill_first_values(placement.kept(), its.seed, state.values.values());
  }

  Outcome run(Model& model, comm::AbortFlag& abort) {
    CopyGroups groups;
    if (settings.strategy == Strategy::hsdp) {
      groups = split_into_copies(communicator, placement.sharing());
    }
    Training training{settings,           placement, order,   data,  state,    model,
                      communicator,       abort,     mailbox, saver, observer, groups.copy.get(),
                      groups.copies.get()};
    return train(training);
  }
  [[nodiscard]] std::span<float> model_values() {
    return placement.model_values(state.values.values());
  }

  const TrainerSettings& settings;
  comm::Communicator& communicator;
  Placement placement;
  TokenView data;
  DataOrder order;
  TrainingState state;
  Mailbox mailbox{Generation{1}};
  NotingSaver saver;
  NotingObserver observer;

 private:
  static Placement placed(const TrainerSettings& its, const comm::Communicator& mesh) {
    auto made = Placement::make(its, layout_of(its.model), mesh.world_size(), mesh.rank());
    EXPECT_TRUE(made);
    return std::move(made.value());
  }
};

}  // namespace dlaunch::trainer
