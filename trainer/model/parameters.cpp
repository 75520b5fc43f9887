#include "trainer/model/parameters.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "trainer/flat_array.h"
#include "trainer/numbers.h"

namespace dlaunch::trainer {
namespace {

constexpr std::size_t kAlignment = kAlignmentBytes / sizeof(float);
constexpr std::size_t kUnitAlignment = kPageBytes / sizeof(float);

std::size_t rounded_up(std::size_t count, std::size_t alignment) {
  return (count + alignment - 1) / alignment * alignment;
}

}  // namespace

Unit& LayoutBuilder::unit() {
  close_unit();
  layout_.units.push_back({layout_.parameters.size(), 0, layout_.count, 0, {}, true});
  return layout_.units.back();
}

void LayoutBuilder::matrix(std::string name, std::uint64_t rows, std::uint64_t columns,
                           float deviation) {
  add({std::move(name), {rows, columns}, 0, rows * columns, 0, rows, true, deviation, 0});
}

void LayoutBuilder::constant(std::string name, std::uint64_t size, float value) {
  add({std::move(name), {size}, 0, size, 0, size, false, 0, value});
}

ParameterLayout LayoutBuilder::take() {
  close_unit();
  return std::move(layout_);
}

void LayoutBuilder::close_unit() {
  layout_.count = rounded_up(layout_.count, kUnitAlignment);
  if (layout_.units.empty()) return;
  auto& unit = layout_.units.back();
  unit.count = layout_.count - unit.first;
}

void LayoutBuilder::add(Parameter parameter) {
  DL_CHECK(!layout_.units.empty(), "a parameter belongs to a unit");
  parameter.first = layout_.count;
  layout_.count += rounded_up(parameter.count, kAlignment);
  ++layout_.units.back().parameters;
  layout_.parameters.push_back(std::move(parameter));
}

void fill_first_values(const ParameterLayout& layout, std::uint64_t seed, std::span<float> flat) {
  std::ranges::fill(flat, 0.0F);
  for (const auto& parameter : layout.parameters) {
    const auto values = flat.subspan(parameter.first, parameter.count);
    const std::uint64_t key = mix(seed) ^ key_of(parameter.name);
    const std::uint64_t before = parameter.first_row * parameter.row_values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = parameter.deviation > 0 ? parameter.deviation * normal_at(key, before + i)
                                          : parameter.value;
    }
  }
}

}  // namespace dlaunch::trainer
