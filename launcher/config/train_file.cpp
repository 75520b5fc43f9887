#include "launcher/config/train_file.h"

#include <utility>

#include "launcher/config/set_override.h"
#include "launcher/config/train_sections.h"
#include "launcher/config/train_toml.h"

namespace dlaunch::launcher::config {

namespace {

/// Of an override there is none: it is no part of the file.
Place place_of(const toml::table& document, const char* section, const char* key,
               const std::string& file) {
  const auto node = document[section][key];
  if (!node) return {};
  const auto& region = node.node()->source();
  if (region.path && *region.path != file) return {};
  return {region.begin.line, region.begin.column};
}

}  // namespace

TrainFile read_train(const toml::table& document, const TrainContext& context, Reading& reading) {
  TrainFile train;
  train.job.name = default_job_name(context.directory);
  Section top(reading, "", &document);
  train.hosts_place = place_of(document, "job", "hosts", context.file);
  train.logical_batches_place = place_of(document, "trainer", "logical_batches", context.file);
  read_job(top.section("job"), train.job, train.notices);
  auto trainer = top.section("trainer");
  auto program = top.section("program");
  if (trainer.given() && program.given()) {
    program.wrong("", "[trainer] and [program] are both given", "expected one of them");
  } else if (!trainer.given() && !program.given()) {
    reading.add(kFileBegin, "there is nothing to run", "expected [trainer] or [program]");
  }
  if (trainer.given()) read_trainer(std::move(trainer), train.trainer.emplace(), context);
  if (program.given()) read_program(std::move(program), train.program.emplace(), context);
  read_checkpoint(top.section("checkpoint"), train, context);
  read_recovery(top.section("recovery"), train.recovery);
  read_health(top.section("health"), train);
  top.finish();
  return train;
}

TrainOrProblems parse_train(std::string_view text, const TrainContext& context) {
  Reading reading(context.file);
  auto document = parse_document(text, kTrainBytesMax, context.file, reading);
  if (!document) return reading.take();
  for (const auto& override : context.set) set_override(*document, override, reading);
  auto train = read_train(*document, context, reading);
  if (reading.empty()) return train;
  return reading.take();
}

std::set<std::string> known_train_keys() {
  // One of each section, so that every key is asked for.
  Reading reading("");
  const auto document = toml::parse("[trainer]\n[program]\n");
  static_cast<void>(read_train(document, {"", "/", "/", {}}, reading));
  return reading.known;
}

}  // namespace dlaunch::launcher::config
