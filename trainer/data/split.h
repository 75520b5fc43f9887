// Which windows of the data are trained on, and which are kept for validation.
#pragma once

#include <cstdint>

namespace dlaunch::trainer {

/// Neighbouring windows that go the same way: about a page or two of text, so that little of what
/// is validated on continues what was trained on.
constexpr std::uint64_t kBlockWindows = 16;
constexpr std::uint64_t kPerMille = 1000;

/// Deals blocks of windows out evenly over the whole of the data, so that what is validated on is
/// like what is trained on. A pure function of its two numbers.
class DataSplit {
 public:
  /// `validation_per_mille`: of the blocks; at most 999.
  DataSplit(std::uint64_t windows, std::uint64_t validation_per_mille);

  [[nodiscard]] std::uint64_t training_windows() const { return windows_ - validation_windows_; }
  [[nodiscard]] std::uint64_t validation_windows() const { return validation_windows_; }
  /// The window that is number `index` of its kind, in the order of the data.
  [[nodiscard]] std::uint64_t training_window(std::uint64_t index) const;
  [[nodiscard]] std::uint64_t validation_window(std::uint64_t index) const;

 private:
  /// Of the first so many blocks, those for validation.
  [[nodiscard]] std::uint64_t validation_blocks(std::uint64_t blocks) const {
    return blocks / kPerMille * per_mille_ + blocks % kPerMille * per_mille_ / kPerMille;
  }

  std::uint64_t windows_;
  std::uint64_t per_mille_;
  std::uint64_t validation_windows_ = 0;
};

}  // namespace dlaunch::trainer
