// Parses texts in tests, and turns problems into one text to compare with.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "launcher/config/hosts_file.h"
#include "launcher/config/train_file.h"

namespace dlaunch::launcher::config {

/// Empty when there are none.
template <class Value>
std::string problems_of(const std::variant<Value, std::vector<Problem>>& parsed) {
  const auto* problems = std::get_if<std::vector<Problem>>(&parsed);
  return problems == nullptr ? "" : to_text(*problems);
}

inline TrainOrProblems parse_train_text(const std::string& text,
                                        const std::vector<std::string>& set = {}) {
  return parse_train(text, {"train.toml", "/home/ann/kjv", "/home/ann", set});
}

/// What [trainer] needs at least.
constexpr const char* kTrainer = "[trainer.data]\ntext = \"kjv.txt\"\n";
constexpr const char* kProgram = "[program]\ncommand = [\"python3\", \"train.py\"]\n";

}  // namespace dlaunch::launcher::config
