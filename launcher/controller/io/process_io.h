// What a controller and its keeper say to each other and to whoever started them: two pipes whose
// numbers come in the environment.
#pragma once

#include <string>

#include "base/io/file_descriptor.h"
#include "base/result.h"

namespace dlaunch::launcher::controller {

/// Written by the first controller that comes so far: up, or why not; read by the starter.
constexpr const char* kReportVariable = "DLAUNCH_REPORT_DESCRIPTOR";
/// A byte a second while the controller's thread runs; read by the keeper.
constexpr const char* kPulseVariable = "DLAUNCH_PULSE_DESCRIPTOR";

/// The descriptor that this variable names, now closed on exec and out of the environment; not
/// open: none was handed over.
[[nodiscard]] FileDescriptor take_descriptor(const char* variable);

/// For the controller that is executed next: its memory in large pages, unless the user wants it
/// otherwise. With thousands of agents nothing of one is in a cache when it beats.
void prefer_large_pages();
/// In the controller, and in who has executed one: other programs decide for themselves. Takes a
/// user's own wish of the same words away, too.
void forget_large_pages();

/// How a start went, as it travels.
struct StartReport {
  int code = 0;  ///< 0: the controller is up
  std::string sentence;
};
void write_report(int descriptor, const StartReport& report);
/// Waits until the report is whole, at most `milliseconds_max`; an error: none came.
[[nodiscard]] Result<StartReport> read_report(int descriptor, int milliseconds_max);

}  // namespace dlaunch::launcher::controller
