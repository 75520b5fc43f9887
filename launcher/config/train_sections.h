// The sections of train.toml, one function each. They add what is wrong to the section's Reading.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/config/section.h"
#include "launcher/config/train_file.h"

namespace dlaunch::launcher::config {

/// Absolute and without "." and ".."; relative ones count from the directory of train.toml.
[[nodiscard]] std::string absolute_path(std::string_view path, const TrainContext& context);
/// Reads a path and makes it absolute; "~bob/x" is refused, an empty one too.
void read_path(Section& section, std::string_view key, std::string& into,
               const TrainContext& context);

/// Of "100 steps" 100; nullopt: it is something else, or none.
[[nodiscard]] std::optional<std::uint32_t> steps_in(std::string_view text);

/// What the job is called when train.toml does not say: as its folder, without odd characters.
[[nodiscard]] std::string default_job_name(const std::string& directory);

void read_job(Section section, JobSection& job, std::vector<std::string>& notices);
void read_trainer(Section section, TrainerSection& trainer, const TrainContext& context);
void read_program(Section section, ProgramSection& program, const TrainContext& context);
void read_checkpoint(Section section, TrainFile& train, const TrainContext& context);
void read_recovery(Section section, RecoverySection& recovery);
void read_health(Section section, TrainFile& train);

}  // namespace dlaunch::launcher::config
