// Makes a token file that llm.c and this trainer read, of any data that this trainer reads.
#pragma once

#include <string>

#include "base/result.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

/// Writes a file of two bytes per id, or of four where ids need them; a temporary name first, so
/// that `to` is whole or as before. Answers what a person wants to know: how many ids there are,
/// and how large the vocabulary must be.
[[nodiscard]] Result<std::string> write_tokens(const DataSettings& from, const std::string& to);

}  // namespace dlaunch::trainer
