// Whether an interface has a carrier, and whether it lost it since the last look.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dlaunch::supervisor::host {

/// Reads /sys/class/net of one interface.
class Carrier {
 public:
  /// `directory`: where the interfaces are, for tests.
  explicit Carrier(std::string directory = "/sys/class/net") : directory_(std::move(directory)) {}

  /// What was seen, in order: up or down; down and up again where it flapped between two looks;
  /// nothing where no interface is named.
  [[nodiscard]] std::vector<bool> look(const std::string& interface);

 private:
  std::string directory_;
  bool up_ = false;
  std::optional<std::uint64_t> downs_;  ///< of the kernel's count
};

}  // namespace dlaunch::supervisor::host
