// Deliberate bugs, to prove that the tests would see them (docs/mutants.md). Only the mutation test
// compiles them in; everywhere else DL_MUTANT is the constant false.
#pragma once

#ifdef DLAUNCH_MUTANTS
namespace dlaunch {
/// True: the machine is to go wrong in the way of this name. Defined by the mutation test.
[[nodiscard]] bool is_mutant(const char* name);
}  // namespace dlaunch
#define DL_MUTANT(name) ::dlaunch::is_mutant(name)
#else
#define DL_MUTANT(name) false
#endif
