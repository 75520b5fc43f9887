// The training loop on real meshes in one process, with a model that counts.
#include "trainer/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "tests/trainer/comm/mesh_fixture.h"
#include "tests/trainer/parts/rank_training.h"
#include "trainer/model/definition.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {
namespace {

namespace worker = protocol::worker;

/// Knows which micro-batches it was given by their first byte; its gradients are all different.
class CountingModel final : public Model {
 public:
  explicit CountingModel(const ParameterLayout& layout) : layout_(layout) {}

  std::size_t units() const override { return layout_.units.size(); }
  Result<void> forward_unit(std::size_t unit, std::size_t slot, const Batch& batch) override {
    if (unit > 0) return {};
    seen_[slot] = {batch.inputs.front(), batch.inputs.back()};
    ++computed[seen_[slot]];
    return {};
  }
  double flops_per_token() const override { return 0; }
  Result<void> evaluate_unit(std::size_t unit, std::size_t slot, const Batch& batch) override {
    if (unit > 0) return {};
    seen_[slot] = {batch.inputs.front(), batch.inputs.back()};
    ++validated[seen_[slot]];
    validating_[slot] = true;
    return {};
  }
  Result<double> loss(std::size_t slot) override {
    const auto key = mix(static_cast<std::uint64_t>(seen_[slot].first));
    const double factor = std::exchange(validating_[slot], false) ? validation_factor : loss_factor;
    return factor * static_cast<double>(key % 1000) / 999;
  }
  Result<void> backward_unit(std::size_t unit, std::size_t slot, std::span<float> gradients,
                             const Ready& ready) override {
    const auto& part = layout_.units[unit];
    for (std::size_t i = part.first_parameter + part.parameters; i-- > part.first_parameter;) {
      const auto& parameter = layout_.parameters[i];
      for (std::size_t k = 0; k < parameter.count; ++k) {
        const auto key = static_cast<std::uint64_t>(seen_[slot].first * 257 + seen_[slot].second);
        gradients[parameter.first + k] = normal_at(key, parameter.first + k);
      }
      ready(i);
    }
    return unit == 0 && after_backward ? after_backward() : Result<void>{};
  }

  std::map<std::pair<std::int64_t, std::int64_t>, int> computed, validated;
  double loss_factor = 1, validation_factor = 1;
  std::function<Result<void>()> after_backward;

 private:
  const ParameterLayout& layout_;
  std::array<std::pair<std::int64_t, std::int64_t>, kSlots> seen_;
  std::array<bool, kSlots> validating_{};
};

struct RankResult {
  Outcome outcome;
  std::vector<float> values;
  std::vector<std::uint64_t> saved;
  std::vector<double> losses, norms;
  std::map<std::uint64_t, double> validations;
  ParameterLayout kept;
  ParameterBytes gathered;
  std::map<std::pair<std::int64_t, std::int64_t>, int> computed, validated;
  std::uint64_t bytes_sent = 0;
};

class LoopTest : public testing::Test {
 protected:
  LoopTest() {
    settings_.steps = 3;
    settings_.logical_batches = 8;
    settings_.micro_batch = 1;
    settings_.model = {1, 8, 2, 4};
    // No two windows begin and end alike, so that a micro-batch is known by its tokens.
    for (int i = 0; i < 60'000; ++i) text_.push_back(static_cast<std::byte>(mix(i) & 0xff));
  }

  /// `prepare` is called for each rank before it trains, on the rank's thread.
  std::vector<RankResult> train_on(
      std::uint32_t ranks,
      const std::function<void(std::uint32_t, Mailbox&, CountingModel&, NotingSaver&,
                               NotingObserver&, comm::AbortFlag&)>& prepare = {}) {
    std::vector<RankResult> results(ranks);
    comm::TestMesh mesh(ranks);
    mesh.run([&](comm::Communicator& communicator) {
      const auto rank = communicator.rank().value;
      RankTraining its(settings_, text_, communicator);
      CountingModel model(its.placement.whole());
      if (prepare) prepare(rank, its.mailbox, model, its.saver, its.observer, *mesh.abort(rank));
      auto& result = results[rank];
      result.outcome = its.run(model, *mesh.abort(rank));
      if (ended) ended(rank);
      result.values.assign(its.state.values.values().begin(), its.state.values.values().end());
      result.saved = its.saver.steps;
      result.losses = its.observer.losses;
      result.norms = its.observer.norms;
      result.kept = its.placement.kept();
      result.gathered = its.observer.gathered;
      result.computed = model.computed;
      result.validated = model.validated;
      result.validations = its.observer.validations;
      result.bytes_sent = communicator.bytes_sent();
    });
    return results;
  }
  static std::uint64_t finished_step(const RankResult& result) {
    const auto* finished = std::get_if<Finished>(&result.outcome);
    EXPECT_TRUE(finished) << "outcome " << result.outcome.index();
    return finished ? finished->step : 0;
  }

  TrainerSettings settings_;
  std::vector<std::byte> text_;
  std::function<void(std::uint32_t)> ended;  ///< a rank's loop is gone
};

TEST_F(LoopTest, EachMicroBatchIsComputedOnExactlyOneRankWhateverTheirNumber) {
  for (std::uint32_t ranks = 1; ranks <= 7; ++ranks) {
    std::map<std::pair<std::int64_t, std::int64_t>, int> all;
    for (const auto& result : train_on(ranks)) {
      EXPECT_EQ(finished_step(result), 3u);
      EXPECT_FALSE(result.computed.empty()) << "no rank is idle";
      for (const auto& [batch, times] : result.computed) all[batch] += times;
    }
    EXPECT_EQ(all.size(), 3u * 8) << ranks << " ranks: all micro-batches of three steps";
    for (const auto& [batch, times] : all) EXPECT_EQ(times, 1) << ranks << " ranks";
  }
}

TEST_F(LoopTest, WeightsAndLossesAreTheSameBitsOnEveryRankOfEveryNumberOfRanks) {
  const auto expected = train_on(1)[0];
  for (std::uint32_t ranks = 2; ranks <= 7; ++ranks) {
    for (const auto& result : train_on(ranks)) {
      EXPECT_TRUE(result.values == expected.values) << ranks << " ranks";
      EXPECT_EQ(result.losses, expected.losses) << ranks << " ranks";
    }
  }
}

/// The rows that this rank keeps, as the rank that keeps all has them.
std::vector<float> rows_of(const RankResult& whole, const ParameterLayout& kept) {
  std::vector<float> values;
  for (std::size_t i = 0; i < kept.parameters.size(); ++i) {
    const auto& all = whole.kept.parameters[i];
    const auto& mine = kept.parameters[i];
    const auto first = whole.values.begin() +
                       static_cast<std::ptrdiff_t>(all.first + mine.first_row * all.row_values());
    values.insert(values.end(), first, first + static_cast<std::ptrdiff_t>(mine.count));
  }
  return values;
}

TEST_F(LoopTest, RanksThatShareTheStateEndWithTheBitsOfOneThatKeepsAll) {
  settings_.model = {3, 8, 2, 4};
  const auto expected = train_on(1)[0];
  settings_.strategy = Strategy::fsdp;
  for (const bool prefetch : {true, false}) {
    settings_.prefetch = prefetch;
    for (std::uint32_t ranks = 1; ranks <= 8; ++ranks) {
      SCOPED_TRACE(std::to_string(ranks) + (prefetch ? " ranks, prefetch" : " ranks"));
      std::map<std::pair<std::int64_t, std::int64_t>, int> all;
      for (const auto& result : train_on(ranks)) {
        EXPECT_EQ(finished_step(result), 3u);
        EXPECT_TRUE(result.values == rows_of(expected, result.kept));
        EXPECT_EQ(result.losses, expected.losses);
        EXPECT_EQ(result.norms, expected.norms);
        for (const auto& [batch, times] : result.computed) all[batch] += times;
      }
      EXPECT_EQ(all.size(), 3u * 8);
      for (const auto& [batch, times] : all) EXPECT_EQ(times, 1);
    }
  }
}

TEST_F(LoopTest, CopiesThatAreSharedEachByAHostsRanksEndWithTheBitsOfOneRank) {
  settings_.model = {3, 8, 2, 4};
  const auto expected = train_on(1)[0];
  settings_.strategy = Strategy::hsdp;
  for (const auto& [ranks, shard_size] :
       {std::pair{2u, 1u}, {2u, 2u}, {4u, 2u}, {6u, 2u}, {8u, 2u}, {8u, 4u}, {3u, 3u}, {3u, 1u}}) {
    for (const bool prefetch : {true, false}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, copies of " + std::to_string(shard_size));
      settings_.shard_size = shard_size;
      settings_.prefetch = prefetch;
      for (const auto& result : train_on(ranks)) {
        EXPECT_EQ(finished_step(result), 3u);
        EXPECT_TRUE(result.values == rows_of(expected, result.kept));
        EXPECT_EQ(result.losses, expected.losses);
        EXPECT_EQ(result.norms, expected.norms);
      }
    }
  }
}

TEST_F(LoopTest, ValidationHasTheSameBitsOnAnyNumberOfRanksAndChangesNoWeight) {
  settings_.steps = 5;
  settings_.model = {3, 8, 2, 4};
  settings_.data.validation_per_mille = 100;
  const auto without = train_on(1)[0];
  EXPECT_TRUE(without.validations.empty());
  settings_.validate_every_steps = 2;
  const auto expected = train_on(1)[0].validations;
  EXPECT_EQ(expected.size(), 3u) << "after steps 2 and 4, and at the end";
  for (const auto strategy : {Strategy::ddp, Strategy::fsdp, Strategy::hsdp}) {
    settings_.strategy = strategy;
    for (std::uint32_t ranks = 1; ranks <= 6; ++ranks) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks");
      settings_.shard_size = ranks % 2 == 0 ? 2 : 1;
      std::map<std::pair<std::int64_t, std::int64_t>, int> all;
      for (const auto& result : train_on(ranks)) {
        EXPECT_EQ(finished_step(result), 5u);
        EXPECT_EQ(result.validations, expected);
        const bool whole = strategy == Strategy::ddp;
        EXPECT_TRUE(result.values == (whole ? without.values : rows_of(without, result.kept)));
        EXPECT_EQ(result.losses, without.losses);
        for (const auto& [batch, times] : result.validated) all[batch] += times;
      }
      EXPECT_EQ(all.size(), 4u * 8);
      for (const auto& [batch, times] : all) EXPECT_EQ(times, 3) << "once in each validation";
    }
  }
}

TEST_F(LoopTest, AValidationLossThatIsNoNumberIsToldAndNothingStops) {
  settings_.data.validation_per_mille = 100;
  settings_.validate_every_steps = 1;
  const auto results = train_on(2, [](auto rank, auto&, CountingModel& model, auto&, auto&, auto&) {
    model.validation_factor = rank == 1 ? std::numeric_limits<double>::infinity() : 1;
  });
  for (const auto& result : results) {
    EXPECT_EQ(finished_step(result), 3u);
    EXPECT_TRUE(std::isnan(result.validations.at(3)));
  }
}

TEST_F(LoopTest, NoMoreThanTwoUnitsOfASharedStateAreGatheredAtATime) {
  settings_.model = {6, 64, 2, 16};
  settings_.strategy = Strategy::fsdp;
  const auto layout = layout_of(settings_.model);
  std::uint64_t largest = 0;
  for (const auto& unit : layout.units) {
    largest = std::max<std::uint64_t>(largest, unit.count * sizeof(float));
  }
  for (const bool prefetch : {true, false}) {
    settings_.prefetch = prefetch;
    for (const std::uint32_t ranks : {2u, 3u}) {
      for (const auto& result : train_on(ranks)) {
        EXPECT_EQ(result.gathered.now, 0u) << "between steps nothing is kept";
        EXPECT_GT(result.gathered.peak, 0u);
        EXPECT_LE(result.gathered.peak, (prefetch ? 2 : 1) * largest + kPageBytes);
      }
    }
  }
}

TEST_F(LoopTest, BytesSentPerStepAreBounded) {
  settings_.model = {2, 64, 2, 16};
  const auto bytes_per_step = [&](std::uint32_t ranks) {
    settings_.steps = 1;
    const auto once = train_on(ranks);
    settings_.steps = 5;
    const auto five = train_on(ranks);
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < ranks; ++i) {
      most = std::max(most, (five[i].bytes_sent - once[i].bytes_sent) / 4);
    }
    return most;
  };
  const auto gradient_bytes = layout_of(settings_.model).count * sizeof(float);
  for (const std::uint32_t ranks : {2u, 3u, 4u}) {
    const auto once_around = 2 * (ranks - 1) * gradient_bytes / ranks;
    // The model is not all: a head per message and the scalars.
    EXPECT_LE(bytes_per_step(ranks), once_around + once_around / 50 + 4096) << ranks << " ranks";
  }
}

TEST_F(LoopTest, CheckpointsComeAtTheirIntervalAndAtTheLastStepOnce) {
  settings_.steps = 7;
  settings_.checkpoint_every_steps = 3;
  EXPECT_THAT(train_on(2)[1].saved, testing::ElementsAre(3, 6, 7));
  settings_.steps = 6;
  EXPECT_THAT(train_on(1)[0].saved, testing::ElementsAre(3, 6));
  settings_.checkpoint_every_steps = 0;
  EXPECT_THAT(train_on(1)[0].saved, testing::ElementsAre(6));
}

TEST_F(LoopTest, AWishOfOneRankIsMetByAllAtTheSameStep) {
  settings_.steps = 6;
  const auto results =
      train_on(3, [](auto rank, Mailbox& mailbox, auto&, auto&, auto& observer, auto&) {
        if (rank != 2) return;
        observer.on_step = [&mailbox](std::uint64_t step) {
          if (step == 3) mailbox.deliver({Generation{1}, worker::CheckpointAt{}});
        };
      });
  for (const auto& result : results) EXPECT_THAT(result.saved, testing::ElementsAre(4, 6));
}

TEST_F(LoopTest, AStopThatCameBeforeTheFirstStepEndsAllRanksAtStepZero) {
  const auto results = train_on(2, [](auto rank, Mailbox& mailbox, auto&, auto&, auto&, auto&) {
    if (rank == 1) mailbox.deliver({Generation{1}, worker::Stop{true}});
  });
  for (const auto& result : results) {
    EXPECT_EQ(finished_step(result), 0u);
    EXPECT_THAT(result.saved, testing::ElementsAre(0));
    EXPECT_TRUE(result.computed.empty());
  }
}

TEST_F(LoopTest, AStopEndsAtTheNextBoundaryAndWritesOnlyWhenAsked) {
  settings_.steps = 1000;
  for (const bool checkpoint : {true, false}) {
    const auto results =
        train_on(2, [&](auto rank, Mailbox& mailbox, auto&, auto&, auto& observer, auto&) {
          if (rank != 0) return;
          observer.on_step = [&mailbox, checkpoint](std::uint64_t step) {
            if (step == 5) mailbox.deliver({Generation{1}, worker::Stop{checkpoint}});
          };
        });
    for (const auto& result : results) {
      EXPECT_EQ(finished_step(result), 6u);
      EXPECT_EQ(result.saved.size(), checkpoint ? 1u : 0u);
    }
  }
}

TEST_F(LoopTest, AnAbortEndsAllRanksBetweenSteps) {
  settings_.steps = 1'000'000;
  for (const auto strategy : {Strategy::ddp, Strategy::fsdp}) {
    settings_.strategy = strategy;
    const auto results =
        train_on(3, [](auto rank, auto&, auto&, auto&, auto& observer, comm::AbortFlag& abort) {
          observer.on_step = [rank, &abort](std::uint64_t step) {
            if (rank == 1 && step == 4) abort.set("for the test");
          };
        });
    for (const auto& result : results) {
      const auto* failure = std::get_if<comm::CommFailure>(&result.outcome);
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->kind, comm::FailureKind::aborted);
    }
  }
}

TEST_F(LoopTest, ALossThatIsNoNumberStopsAllRanksBeforeTheOptimizer) {
  const auto results = train_on(2, [](auto rank, auto&, CountingModel& model, auto&, auto&, auto&) {
    if (rank == 1) model.loss_factor = std::numeric_limits<double>::quiet_NaN();
  });
  for (const auto& result : results) {
    const auto* failed = std::get_if<Failed>(&result.outcome);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->category, worker::FailingCategory::bad_numbers);
    EXPECT_THAT(failed->reason, testing::HasSubstr("step 1: the loss"));
    EXPECT_TRUE(result.saved.empty());
  }
}

TEST_F(LoopTest, ARankThatFailsWhileItsBucketsAreReducedEndsThatFirst) {
  std::promise<void> failed_rank_is_gone;
  ended = [&](std::uint32_t rank) {
    if (rank == 1) failed_rank_is_gone.set_value();
  };
  const auto results = train_on(2, [&](std::uint32_t rank, auto&, auto& model, auto&&...) {
    model.after_backward = [&, rank, calls = 0]() mutable -> Result<void> {
      if (++calls < 4) return {};  // of four micro-batches the last starts the reduction
      if (rank == 1) return failure(std::errc::not_enough_memory, "computing gradients");
      // Its part comes when the other's memory is gone.
      EXPECT_EQ(failed_rank_is_gone.get_future().wait_for(comm::kSoon), std::future_status::ready);
      return {};
    };
  });
  const auto* failed = std::get_if<Failed>(&results[1].outcome);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->category, worker::FailingCategory::out_of_memory);
  const auto* told = std::get_if<comm::CommFailure>(&results[0].outcome);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, comm::FailureKind::aborted) << "it is no lost peer: " << told->error.text();
}

TEST_F(LoopTest, ASaveThatFailedInTheBackgroundIsFoundAtTheNextBoundary) {
  settings_.steps = 1000;
  const auto results = train_on(1, [](auto, auto&, auto&, NotingSaver& saver, auto&, auto&) {
    saver.trouble_ = failure(std::errc::no_space_on_device, "writing shard 0");
  });
  const auto* failed = std::get_if<Failed>(&results[0].outcome);
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->category, worker::FailingCategory::storage);
  EXPECT_THAT(failed->reason, testing::HasSubstr("No space left"));
  EXPECT_EQ(results[0].losses.size(), 1u);
}

TEST_F(LoopTest, ADeviceThatBreaksIsToldApartFromAMistakeOfTheUsers) {
  for (const auto code : {std::errc::io_error, std::errc::invalid_argument}) {
    const auto results = train_on(1, [&](std::uint32_t, auto&, auto& model, auto&&...) {
      model.after_backward = [code] { return failure(code, "computing the gradient: it broke"); };
    });
    const auto* failed = std::get_if<Failed>(&results[0].outcome);
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->category, worker::FailingCategory::user_error);
    EXPECT_EQ(failed->broken_device, code == std::errc::io_error);
    EXPECT_THAT(failed->reason, testing::HasSubstr("it broke"));
  }
}

}  // namespace
}  // namespace dlaunch::trainer
