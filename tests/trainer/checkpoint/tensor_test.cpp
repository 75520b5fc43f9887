#include "trainer/checkpoint/tensor.h"

#include <gtest/gtest.h>

namespace dlaunch::checkpoint {
namespace {

TEST(Dtype, HasANameThatReadsBack) {
  for (int i = 0; i <= static_cast<int>(Dtype::u64); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(name_of(Dtype::f32), "F32");
  EXPECT_EQ(bytes_of(Dtype::f32), 4U);
  EXPECT_EQ(bytes_of(Dtype::bf16), 2U);
  EXPECT_EQ(bytes_of(Dtype::boolean), 1U);
  EXPECT_FALSE(dtype_from_name("f32"));
  EXPECT_FALSE(dtype_from_name(""));
}

TEST(Shape, CountsBytesWithoutOverflow) {
  EXPECT_EQ(bytes_of(Dtype::f32, Shape{3, 5}), 60U);
  EXPECT_EQ(bytes_of(Dtype::f64, Shape{}), 8U);
  EXPECT_EQ(bytes_of(Dtype::f32, Shape{0, 5}), 0U);
  EXPECT_FALSE(bytes_of(Dtype::f32, Shape{1ULL << 62}));
  EXPECT_FALSE(bytes_of(Dtype::u8, Shape{1ULL << 32, 1ULL << 32}));
  EXPECT_FALSE(bytes_of(Dtype::u8, Shape{0, 1ULL << 40, 1ULL << 40})) << "a zero hides nothing";
  EXPECT_EQ(bytes_of(Dtype::u8, Shape{(1ULL << 63) - 1}), (1ULL << 63) - 1);
}

TEST(Shape, HasRowsAlongItsFirstDimension) {
  EXPECT_EQ(rows_of(Shape{}), 1U);
  EXPECT_EQ(rows_of(Shape{7, 2}), 7U);
  EXPECT_EQ(bytes_of_row(Dtype::f32, Shape{7, 2}), 8U);
  EXPECT_EQ(bytes_of_row(Dtype::f32, Shape{}), 4U);
  EXPECT_EQ(bytes_of_row(Dtype::f32, Shape{7}), 4U);
}

}  // namespace
}  // namespace dlaunch::checkpoint
