// Names, shapes and first values.
#include "trainer/model/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "trainer/flat_array.h"
#include "trainer/model/definition.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {
namespace {

constexpr ModelSettings kModel{2, 32, 4, 16};

TEST(Parameters, HaveTheNamesAndShapesOfHuggingFacesGpt2) {
  std::map<std::string, std::vector<std::uint64_t>> shapes;
  for (const auto& parameter : layout_of(kModel).parameters) {
    shapes[parameter.name] = parameter.shape;
  }
  EXPECT_EQ(shapes.size(), 2u + 2 * 12 + 2);
  EXPECT_THAT(shapes["transformer.wte.weight"], testing::ElementsAre(256, 32));
  EXPECT_THAT(shapes["transformer.wpe.weight"], testing::ElementsAre(16, 32));
  EXPECT_THAT(shapes["transformer.h.1.attn.c_attn.weight"], testing::ElementsAre(32, 96));
  EXPECT_THAT(shapes["transformer.h.1.attn.c_attn.bias"], testing::ElementsAre(96));
  EXPECT_THAT(shapes["transformer.h.0.mlp.c_proj.weight"], testing::ElementsAre(128, 32));
  EXPECT_THAT(shapes["transformer.ln_f.bias"], testing::ElementsAre(32));
}

TEST(Parameters, LieAlignedAndApart) {
  const auto layout = layout_of({3, 10, 5, 7});
  std::size_t end = 0;
  for (const auto& parameter : layout.parameters) {
    EXPECT_EQ(parameter.first * sizeof(float) % kAlignmentBytes, 0u) << parameter.name;
    EXPECT_GE(parameter.first, end) << parameter.name;
    end = parameter.first + parameter.count;
  }
  EXPECT_LE(end, layout.count);
}

TEST(Parameters, FirstValuesDependOnSeedAndNameAlone) {
  const auto values_of = [](const ModelSettings& model, std::uint64_t seed,
                            const std::string& name) {
    const auto layout = layout_of(model);
    FlatArray flat(layout.count);
    fill_first_values(layout, seed, flat.values());
    for (const auto& parameter : layout.parameters) {
      if (parameter.name != name) continue;
      const auto values = flat.values().subspan(parameter.first, parameter.count);
      return std::vector<float>(values.begin(), values.end());
    }
    return std::vector<float>{};
  };
  const std::string name = "transformer.h.0.attn.c_attn.weight";
  const auto values = values_of(kModel, 1, name);
  ASSERT_EQ(values.size(), 32u * 96);
  EXPECT_EQ(values_of({1, 32, 4, 99}, 1, name), values) << "not on the rest of the model";
  EXPECT_NE(values_of(kModel, 2, name), values);
  EXPECT_NE(values_of(kModel, 1, "transformer.h.1.attn.c_attn.weight"), values);
  EXPECT_THAT(values_of(kModel, 1, "transformer.ln_f.weight"), testing::Each(1.0F));
  EXPECT_THAT(values_of(kModel, 1, "transformer.h.0.mlp.c_fc.bias"), testing::Each(0.0F));
}

TEST(Parameters, FirstValuesHaveTheDeviationOfGpt2) {
  double sum = 0, squares = 0, fourth = 0;
  constexpr int kCount = 100'000;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double value = normal_at(key_of("name"), i);
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
  EXPECT_NEAR(fourth / kCount, 2.7, 0.1) << "four uniform parts; a normal has 3";
}

}  // namespace
}  // namespace dlaunch::trainer
