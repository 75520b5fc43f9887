// A device's way of computing, played within the host's memory: the bits of the direct way.
#include "trainer/model/staging.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "trainer/flat_array.h"
#include "trainer/model/definition.h"
#include "trainer/model/io/device.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {
namespace {

using testing::HasSubstr;

/// Smaller than most parameters, and no divisor of any.
constexpr std::size_t kOddPiece = 77;

struct Results {
  double loss = 0;
  std::vector<float> gradients;
  friend bool operator==(const Results&, const Results&) = default;
};

class StagingTest : public testing::Test {
 protected:
  StagingTest() : layout_(layout_of(kModel)), values_(layout_.count), gradients_(layout_.count) {
    settings_.model = kModel;
    fill_first_values(layout_, 5, values_.values());
    for (std::size_t i = 0; i < 2 * kTokens; ++i) {
      inputs_.push_back(static_cast<std::int64_t>(mix(i) % kModel.vocabulary));
      targets_.push_back(static_cast<std::int64_t>(mix(i + 1000) % kModel.vocabulary));
    }
  }
  ~StagingTest() override { set_place({}); }

  std::unique_ptr<Model> make_direct() {
    set_place({});
    return make_model(settings_, layout_, values_.values());
  }
  std::unique_ptr<Model> make_staged(std::size_t piece = kPieceValues) {
    set_place({at::kCPU, true, piece});
    return make_model(settings_, layout_, values_.values());
  }
  Batch batch(std::size_t which = 0) const {
    const auto of = [&](const std::vector<std::int64_t>& ids) {
      return std::span(ids).subspan(which * kTokens, kTokens);
    };
    return {kSequences, kModel.context, of(inputs_), of(targets_)};
  }
  Results compute(Model& model) {
    std::ranges::fill(gradients_.values(), 9.0F);
    const auto loss = model.forward(batch());
    EXPECT_TRUE(loss) << loss.error().text();
    const auto done = model.backward(gradients_.values(), [](std::size_t) {});
    EXPECT_TRUE(done) << done.error().text();
    return {loss.value_or(0), {gradients_.values().begin(), gradients_.values().end()}};
  }
  void change_values() {
    for (auto& value : values_.values()) value *= 1.5F;
  }
  void announce(Model& model) const {
    for (std::size_t unit = 0; unit < model.units(); ++unit) model.values_changed(unit);
  }

  static constexpr ModelSettings kModel{2, 24, 3, 10, 300};
  static constexpr std::uint32_t kSequences = 3;
  static constexpr std::size_t kTokens = kSequences * kModel.context;
  TrainerSettings settings_;
  ParameterLayout layout_;
  FlatArray values_, gradients_;
  std::vector<std::int64_t> inputs_, targets_;
};

TEST_F(StagingTest, LossAndGradientsAreTheBitsOfTheDirectWay) {
  for (const auto precision : {Precision::fp32, Precision::bf16}) {
    for (const bool again : {false, true}) {
      settings_.precision = precision;
      settings_.activation_checkpointing = again;
      const auto direct = make_direct();
      const auto expected = compute(*direct);
      for (const auto piece : {kPieceValues, kOddPiece, std::size_t{1024}}) {
        const auto staged = make_staged(piece);
        EXPECT_TRUE(compute(*staged) == expected) << "pieces of " << piece;
        EXPECT_TRUE(compute(*staged) == expected) << "and the next time";
      }
    }
  }
}

TEST_F(StagingTest, EachGradientIsSaidToBeReadyOnceAndWhenItIsInItsPlace) {
  const auto direct = make_direct();
  const auto expected = compute(*direct);
  const auto staged = make_staged(kOddPiece);
  std::ranges::fill(gradients_.values(), -1.0F);
  std::multiset<std::size_t> ready;
  ASSERT_TRUE(staged->forward(batch()));
  ASSERT_TRUE(staged->backward(gradients_.values(), [&](std::size_t index) {
    ready.insert(index);
    const auto& parameter = layout_.parameters[index];
    const auto part = gradients_.values().subspan(parameter.first, parameter.count);
    EXPECT_TRUE(std::ranges::equal(
        part, std::span(expected.gradients).subspan(parameter.first, parameter.count)))
        << parameter.name;
  }));
  EXPECT_EQ(ready.size(), layout_.parameters.size());
  EXPECT_EQ(std::set(ready.begin(), ready.end()).size(), ready.size());
}

TEST_F(StagingTest, TwoMicroBatchesMayBeOnTheirWayAtATime) {
  const auto run = [&](Model& model) {
    FlatArray others(layout_.count);
    for (std::size_t unit = 0; unit < model.units(); ++unit) {
      EXPECT_TRUE(model.forward_unit(unit, 0, batch(0)));
      EXPECT_TRUE(model.forward_unit(unit, 1, batch(1)));
    }
    std::vector<double> losses = {*model.loss(0), *model.loss(1)};
    for (std::size_t unit = model.units(); unit-- > 0;) {
      EXPECT_TRUE(model.backward_unit(unit, 0, gradients_.values(), [](std::size_t) {}));
      EXPECT_TRUE(model.backward_unit(unit, 1, others.values(), [](std::size_t) {}));
    }
    std::vector<float> all(gradients_.values().begin(), gradients_.values().end());
    all.insert(all.end(), others.values().begin(), others.values().end());
    return std::pair(losses, all);
  };
  const auto direct = make_direct();
  const auto staged = make_staged(kOddPiece);
  EXPECT_TRUE(run(*direct) == run(*staged));
}

TEST_F(StagingTest, ValuesAreCopiedWhenTheyHaveChangedAndNotOtherwise) {
  const auto direct = make_direct();
  const auto staged = make_staged();
  const auto before = compute(*staged);
  change_values();
  EXPECT_TRUE(compute(*staged) == before) << "nobody has said that they are others: none copied";
  announce(*staged);
  const auto after = compute(*staged);
  EXPECT_FALSE(after == before);
  EXPECT_TRUE(after == compute(*direct));
}

TEST_F(StagingTest, OnlyTheUnitThatHasChangedIsCopied) {
  const auto staged = make_staged();
  const auto before = compute(*staged);
  const auto kept = std::vector<float>(values_.values().begin(), values_.values().end());
  change_values();
  staged->values_changed(1);
  const auto mixed = compute(*staged);
  std::ranges::copy(kept, values_.values().begin());
  const auto& unit = layout_.units[1];
  for (std::size_t i = unit.first; i < unit.first + unit.count; ++i) values_.values()[i] *= 1.5F;
  const auto direct = make_direct();
  EXPECT_TRUE(mixed == compute(*direct));
  EXPECT_FALSE(mixed == before);
}

TEST_F(StagingTest, EvaluatingTakesTheNewestValues) {
  const auto direct = make_direct();
  const auto staged = make_staged();
  static_cast<void>(compute(*staged));
  change_values();
  announce(*staged);
  const auto expected = direct->evaluate(batch());
  const auto loss = staged->evaluate(batch());
  ASSERT_TRUE(expected && loss);
  EXPECT_EQ(*loss, *expected);
}

/// As FSDP does it: a unit's values are there only while it runs, and come back for the backward
/// pass, for which the graph has kept tensors of the forward pass.
TEST_F(StagingTest, ValuesMayGoBetweenForwardAndBackward) {
  const auto direct = make_direct();
  const auto expected = compute(*direct);
  const auto staged = make_staged();
  const auto only = [&](std::size_t unit, const std::function<Result<void>()>& run) {
    const auto lender = layout_.units[unit].borrows;
    staged->values_changed(unit);
    if (lender) staged->values_changed(*lender);
    EXPECT_TRUE(run());
    staged->values_gone(unit);
    if (lender) staged->values_gone(*lender);
  };
  const auto count = staged->units();
  for (std::size_t unit = 0; unit < count; ++unit) {
    only(unit, [&] { return staged->forward_unit(unit, 0, batch()); });
  }
  std::ranges::fill(gradients_.values(), 9.0F);
  for (std::size_t unit = count; unit-- > 0;) {
    const auto run = [&] {
      return staged->backward_unit(unit, 0, gradients_.values(), [](std::size_t) {});
    };
    if (layout_.units[unit].reads_in_backward) {
      only(unit, run);
    } else {
      EXPECT_TRUE(run()) << "without its values";
    }
  }
  EXPECT_TRUE(std::ranges::equal(gradients_.values(), expected.gradients));
}

TEST_F(StagingTest, WhatIsGoneTakesNoMemory) {
  const Place here{at::kCPU, true, kOddPiece};
  Staging staging(layout_, values_.values(), here);
  const auto tensor = staging.tensor(0);
  EXPECT_EQ(tensor.storage().nbytes(), 0u) << "nothing was asked for yet";
  staging.bring(0);
  EXPECT_EQ(tensor.storage().nbytes(), layout_.units[0].count * sizeof(float));
  EXPECT_TRUE(std::equal(values_.values().begin(),
                         values_.values().begin() + static_cast<std::ptrdiff_t>(tensor.numel()),
                         tensor.const_data_ptr<float>()));
  staging.values_gone(0);
  EXPECT_EQ(tensor.storage().nbytes(), 0u);
}

TEST_F(StagingTest, AGradientIsAddedOrPutAsItIsAsked) {
  Staging staging(layout_, values_.values(), {at::kCPU, true, 2});
  std::array<float, 5> sum = {1, 2, 3, 4, 5};
  std::array<float, 3> put = {7, 7, 7};
  std::vector<int> order;
  std::vector<Staging::Gradient> gradients;
  gradients.push_back({at::ones({5}), sum, true, [&] { order.push_back(1); }});
  gradients.push_back({at::ones({3, 1}), put, false, [&] { order.push_back(2); }});
  staging.fetch(std::move(gradients));
  EXPECT_THAT(sum, testing::ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(put, testing::ElementsAre(1, 1, 1));
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST(CudaHalf, ThatIsNotThereIsSaidWithWhatToDo) {
  const auto loaded = load_cuda_half("/nowhere");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, std::errc::no_such_device);
  EXPECT_THAT(loaded.error().doing, HasSubstr("/nowhere/libtorch_cuda.so"));
  EXPECT_THAT(loaded.error().doing, HasSubstr("scripts/setup-torch --cuda"));
}

TEST(FirstLine, IsAllOfAnErrorThatIsToldOn) {
  EXPECT_EQ(first_line("CUDA error: unspecified\nFor debugging consider\n"),
            "CUDA error: unspecified");
  EXPECT_EQ(first_line("one"), "one");
}

}  // namespace
}  // namespace dlaunch::trainer
