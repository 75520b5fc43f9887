// The whole loop on GPT-2, with a device that is played within the host's memory.
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/trainer/comm/mesh_fixture.h"
#include "tests/trainer/parts/rank_training.h"
#include "trainer/model/library.h"
#include "trainer/model/staging.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {
namespace {

/// Notes which units' values a device would have to hold.
class Watched final : public Model {
 public:
  explicit Watched(std::unique_ptr<Model> model) : model_(std::move(model)) {}
  std::size_t units() const override { return model_->units(); }
  double flops_per_token() const override { return model_->flops_per_token(); }
  Result<double> loss(std::size_t slot) override { return model_->loss(slot); }
  Result<void> forward_unit(std::size_t unit, std::size_t slot, const Batch& batch) override {
    return model_->forward_unit(unit, slot, batch);
  }
  Result<void> evaluate_unit(std::size_t unit, std::size_t slot, const Batch& batch) override {
    return model_->evaluate_unit(unit, slot, batch);
  }
  Result<void> backward_unit(std::size_t unit, std::size_t slot, std::span<float> gradients,
                             const Ready& ready) override {
    return model_->backward_unit(unit, slot, gradients, ready);
  }
  void values_changed(std::size_t unit) override {
    there.insert(unit);
    most = std::max(most, there.size());
    model_->values_changed(unit);
  }
  void values_gone(std::size_t unit) override {
    there.erase(unit);
    model_->values_gone(unit);
  }
  std::set<std::size_t> there;
  std::size_t most = 0;

 private:
  std::unique_ptr<Model> model_;
};

struct OfRank {
  std::vector<double> losses, norms;
  std::map<std::uint64_t, double> validations;
  std::vector<float> values;
  friend bool operator==(const OfRank&, const OfRank&) = default;
};

class StagedLoop : public testing::Test {
 protected:
  StagedLoop() {
    set_threads(1);
    settings_.steps = 4;
    settings_.logical_batches = 4;
    settings_.micro_batch = 2;
    settings_.learning_rate = 1e-2;
    settings_.model = {2, 16, 2, 8, 256};
    settings_.data.validation_per_mille = 200;
    settings_.validate_every_steps = 2;
    for (int i = 0; i < 8'000; ++i) text_.push_back(static_cast<std::byte>(mix(i) & 0x3f));
  }
  ~StagedLoop() override { set_place({}); }

  std::vector<OfRank> train_on(std::uint32_t ranks, const Place& place) {
    set_place(place);
    std::vector<OfRank> results(ranks);
    comm::TestMesh mesh(ranks);
    mesh.run([&](comm::Communicator& communicator) {
      const auto rank = communicator.rank().value;
      RankTraining its(settings_, text_, communicator);
      Watched model(make_model(settings_, its.placement.whole(), its.model_values()));
      const auto outcome = its.run(model, *mesh.abort(rank));
      EXPECT_TRUE(std::holds_alternative<Finished>(outcome));
      const bool keeps_all = settings_.strategy == Strategy::ddp;
      EXPECT_EQ(model.there.size(), keeps_all ? model.units() : 0) << "what is not kept is gone";
      EXPECT_EQ(model.most, keeps_all ? model.units() : 2) << "the head, and what it borrows";
      const auto values = its.state.values.values();
      results[rank] = {its.observer.losses,
                       its.observer.norms,
                       its.observer.validations,
                       {values.begin(), values.end()}};
    });
    return results;
  }

  void expect_the_same(std::uint32_t ranks) {
    const auto direct = train_on(ranks, {});
    const auto staged = train_on(ranks, {at::kCPU, true, 500});
    EXPECT_EQ(direct[0].losses.size(), 4u);
    EXPECT_EQ(direct[0].validations.size(), 2u);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(direct[rank] == staged[rank]) << "rank " << rank << " of " << ranks;
    }
  }

  TrainerSettings settings_;
  std::vector<std::byte> text_;
};

TEST_F(StagedLoop, EndsWithTheBitsOfTheDirectWayWhereEachRankKeepsAll) {
  for (const std::uint32_t ranks : {1u, 3u}) expect_the_same(ranks);
}

TEST_F(StagedLoop, EndsWithTheBitsOfTheDirectWayWhereRanksShareTheState) {
  settings_.strategy = Strategy::fsdp;
  for (const bool prefetch : {true, false}) {
    settings_.prefetch = prefetch;
    settings_.activation_checkpointing = prefetch;
    for (const std::uint32_t ranks : {1u, 2u, 3u}) expect_the_same(ranks);
  }
}

TEST_F(StagedLoop, EndsWithTheBitsOfTheDirectWayWhereCopiesAreShared) {
  settings_.strategy = Strategy::hsdp;
  settings_.shard_size = 2;
  settings_.precision = Precision::bf16;
  expect_the_same(4);
}

}  // namespace
}  // namespace dlaunch::trainer
