// Marks rare branches of the machines, so that a test can demand that each of them is reached.
#pragma once

namespace dlaunch {

/// Told the name of each mark that is passed. Null but in tests, which set it before any machine
/// runs; nothing reads it to decide.
inline void (*probe_sink)(const char* name) = nullptr;

}  // namespace dlaunch

/// `name` is a sentence without a full stop, different from all others.
#define DL_PROBE(name) \
  (::dlaunch::probe_sink == nullptr ? static_cast<void>(0) : ::dlaunch::probe_sink(name))
