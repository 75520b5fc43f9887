#include "trainer/checkpoint/io/weights_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "tests/base/io/temporary_directory.h"
#include "tests/trainer/checkpoint/plain_files.h"
#include "trainer/checkpoint/safetensors.h"

namespace dlaunch::checkpoint {
namespace {

template <class Value>
std::string bytes_of_values(const std::vector<Value>& values) {
  std::string bytes(values.size() * sizeof(Value), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

class WeightsFile : public testing::Test {
 protected:
  struct Given {
    TensorSpec spec;
    std::string bytes;
  };
  std::string file_of(const std::vector<Given>& tensors) {
    std::vector<TensorSpec> specs;
    std::string data;
    for (const auto& tensor : tensors) {
      specs.push_back(tensor.spec);
      data += tensor.bytes;
    }
    const auto path = directory_.text() + "/weights.safetensors";
    write_file(path, format_head(place(specs)) + data);
    return path;
  }
  /// Rows [1, 3) of a tensor of three rows of two.
  Result<void> load(const std::string& path, const std::string& name) {
    const TensorDestination wanted{
        {name, Dtype::f32, {3, 2}}, 1, 2, std::as_writable_bytes(std::span(values_))};
    return load_weights(path, std::span(&wanted, 1));
  }
  std::vector<float> values_ = std::vector<float>(4);
  TemporaryDirectory directory_;
};

TEST_F(WeightsFile, GivesTheRowsThatAreWantedWhateverItsType) {
  const std::vector<float> expected{2, -3, 0.5, -1.5};
  const auto path =
      file_of({{{"a", Dtype::f32, {3, 2}}, bytes_of_values<float>({9, 9, 2, -3, 0.5, -1.5})},
               {{"b", Dtype::f16, {3, 2}},
                bytes_of_values<std::uint16_t>({0, 0, 0x4000, 0xc200, 0x3800, 0xbe00})},
               {{"c", Dtype::bf16, {3, 2}},
                bytes_of_values<std::uint16_t>({0, 0, 0x4000, 0xc040, 0x3f00, 0xbfc0})}});
  for (const char* name : {"a", "transformer.b", "c"}) {
    values_.assign(4, 0);
    const auto loaded = load(path, name);
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(values_, expected) << name;
  }
}

TEST_F(WeightsFile, SaysAllThatItLacksAtOnce) {
  const auto path = file_of({{{"a", Dtype::f32, {2, 2}}, std::string(16, '\0')},
                             {{"b", Dtype::i64, {3, 2}}, std::string(48, '\0')}});
  EXPECT_EQ(load(path, "a").error().code, std::errc::invalid_argument);
  EXPECT_NE(load(path, "a").error().text().find("a is [2, 2], the model's is [3, 2]"),
            std::string::npos);
  EXPECT_NE(load(path, "b").error().text().find("of type I64"), std::string::npos);
  const auto missing = load(path, "c").error();
  EXPECT_NE(missing.text().find(path + ": c is missing"), std::string::npos) << missing.text();
}

TEST_F(WeightsFile, ThatIsNoneIsAnErrorWithItsName) {
  const auto path = directory_.text() + "/weights.safetensors";
  write_file(path, "PK\3\4 a pickle of PyTorch");
  const auto error = load(path, "a").error();
  EXPECT_EQ(error.code, std::errc::invalid_argument);
  EXPECT_NE(error.text().find(path), std::string::npos);
  EXPECT_NE(load(directory_.text() + "/none", "a").error().text().find("missing"),
            std::string::npos);
}

TEST(FloatOfHalf, KnowsEveryKindOfNumber) {
  EXPECT_EQ(float_of_half(0x3c00), 1);
  EXPECT_EQ(float_of_half(0x7bff), 65504);
  EXPECT_EQ(float_of_half(0x0001), std::ldexp(1.0F, -24)) << "denormal";
  EXPECT_EQ(float_of_half(0x0400), std::ldexp(1.0F, -14)) << "the smallest normal one";
  EXPECT_TRUE(std::signbit(float_of_half(0x8000)));
  EXPECT_EQ(float_of_half(0xfc00), -HUGE_VALF);
  EXPECT_TRUE(std::isnan(float_of_half(0x7e00)));
  EXPECT_EQ(float_of_bfloat(0x4049), 3.140625F);
}

}  // namespace
}  // namespace dlaunch::checkpoint
