// The data of [trainer.data], opened and judged: a text or a file of token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "trainer/data/io/mapped_file.h"
#include "trainer/data/tokens.h"
#include "trainer/settings.h"

namespace dlaunch::trainer {

class TrainingData {
 public:
  /// The error's code is `errc::invalid_argument` when the file itself is wrong: too short, cut
  /// off, of an unknown format. The ids are not looked at yet.
  [[nodiscard]] static Result<TrainingData> open(const DataSettings& settings,
                                                 std::uint64_t tokens_min);

  [[nodiscard]] const TokenView& tokens() const { return tokens_; }
  /// The file that holds the ids, with its head.
  [[nodiscard]] const MappedFile& file() const { return file_; }
  /// Of that file.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// "text", or what kind of token file it is.
  [[nodiscard]] const std::string& format() const { return format_; }

  /// That the ids [first, first + count) are below `vocabulary`; reads them all.
  [[nodiscard]] Result<void> check_ids(std::uint64_t vocabulary, std::uint64_t first,
                                       std::uint64_t count) const;

 private:
  TrainingData(MappedFile file, std::string path, TokenView tokens, std::string format);

  MappedFile file_;
  std::string path_;
  TokenView tokens_;
  std::string format_;
};

}  // namespace dlaunch::trainer
