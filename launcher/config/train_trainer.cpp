// [trainer] of train.toml.
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "launcher/config/train_sections.h"

namespace dlaunch::launcher::config {
namespace {

constexpr std::int64_t kShardSizeMax = 4096;
constexpr std::int64_t kConnectionsMax = 16;
constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLogicalBatchesMax = 1 << 20;
constexpr std::int64_t kMicroBatchMax = 1 << 16;
constexpr std::int64_t kLayersMax = 1024;
constexpr std::int64_t kWidthMax = 1 << 16;
constexpr std::int64_t kContextMax = 1 << 20;
constexpr std::int64_t kVocabularyMax = 1 << 24;
constexpr std::uint32_t kBytes = 256;
constexpr double kLearningRateMax = 1e6;
constexpr double kValidationDefault = 0.1, kValidationMax = 0.5;

void read_model(Section section, ModelSection& model, const TrainerSection& trainer) {
  section.whole("layers", model.layers, 1, kLayersMax);
  section.whole("width", model.width, 1, kWidthMax);
  section.whole("heads", model.heads, 1, kWidthMax);
  section.whole("context", model.context, 1, kContextMax);
  section.whole("vocabulary", model.vocabulary, 2, kVocabularyMax);
  if (!trainer.text.empty() && model.vocabulary < kBytes) {
    section.wrong("vocabulary", "`vocabulary` is " + std::to_string(model.vocabulary),
                  "expected 256 or more: the bytes of the text are the tokens");
  }
  if (model.width % model.heads != 0) {
    section.wrong(section.has("heads") ? "heads" : "width",
                  "`width` (" + std::to_string(model.width) + ") is no multiple of `heads` (" +
                      std::to_string(model.heads) + ")",
                  "expected a width that the heads can share evenly");
  }
  section.finish();
}

void read_betas(Section& section, TrainerSection& trainer) {
  const auto* node = section.find("betas");
  if (node == nullptr) return;
  const auto* array = node->as_array();
  const bool two = array != nullptr && array->size() == 2;
  const auto first = two ? array->get(0)->value<double>() : std::nullopt;
  const auto second = two ? array->get(1)->value<double>() : std::nullopt;
  const auto good = [](std::optional<double> beta) { return beta && *beta >= 0 && *beta < 1; };
  if (!good(first) || !good(second)) {
    return section.wrong("betas", "`betas` in [trainer] is not right",
                         "expected two numbers from 0 to below 1, like [0.9, 0.95]");
  }
  trainer.betas = {*first, *second};
}

void read_schedule(Section& section, TrainerSection& trainer) {
  section.whole("warmup_steps", trainer.warmup_steps, 0, kAny);
  section.choice("schedule", trainer.schedule, {"constant", "cosine"});
  section.real("min_learning_rate", trainer.min_learning_rate, 0, kLearningRateMax,
               "a number from 0 to `learning_rate`");
  section.whole("decay_steps", trainer.decay_steps, 1, kAny);
  if (trainer.schedule == "constant") {
    const char* vain = trainer.decay_steps > 0         ? "decay_steps"
                       : trainer.min_learning_rate > 0 ? "min_learning_rate"
                                                       : nullptr;
    if (vain != nullptr) {
      section.wrong(vain,
                    "`" + std::string(vain) + "` in [trainer] has no effect on a constant rate",
                    "expected schedule = \"cosine\"");
    }
    return;
  }
  if (trainer.min_learning_rate > trainer.learning_rate) {
    section.wrong("min_learning_rate", "`min_learning_rate` is above `learning_rate`",
                  "expected at most that");
  }
  const auto decay = trainer.decay_steps == 0 ? trainer.steps : trainer.decay_steps;
  if (decay <= trainer.warmup_steps) {
    section.wrong(section.has("decay_steps") ? "decay_steps" : "warmup_steps",
                  "the learning rate has fallen (" + std::to_string(decay) +
                      " steps) before it has risen (" + std::to_string(trainer.warmup_steps) + ")",
                  "expected `warmup_steps` below `decay_steps`, which are `steps` by default");
  }
}

void read_validation(Section& section, Section& data, TrainerSection& trainer) {
  const auto* node = section.find("validate_every");
  const auto* text = node == nullptr ? nullptr : node->as_string();
  const auto steps = text == nullptr ? std::nullopt : steps_in(text->get());
  if (node != nullptr && !steps && (text == nullptr || text->get() != "off")) {
    section.wrong("validate_every", "`validate_every` in [trainer] is not right",
                  "expected \"off\" or \"100 steps\"");
  }
  trainer.validate_every_steps = steps.value_or(0);
  if (steps) trainer.validation = kValidationDefault;
  data.real("validation", trainer.validation, 0, kValidationMax, "a share from 0 to 0.5");
  const double per_mille = trainer.validation * 1000;
  if (std::abs(per_mille - std::round(per_mille)) > 1e-6) {
    data.wrong("validation", "`validation` is no whole number of thousandths",
               "expected a share like 0.1 or 0.005");
  } else if (steps && trainer.validation == 0) {
    data.wrong("validation", "`validation` is 0, so there is nothing to validate on",
               "expected a share like 0.1, or validate_every = \"off\"");
  }
}

void read_data(Section& section, TrainerSection& trainer, const TrainContext& context,
               bool vocabulary_given) {
  auto data = section.section("data");
  read_path(data, "text", trainer.text, context);
  read_path(data, "tokens", trainer.tokens, context);
  if (data.has("text") && data.has("tokens")) {
    data.wrong("tokens", "`text` and `tokens` in [trainer.data] are both given",
               "expected one of them");
  } else if (!data.has("text") && !data.has("tokens")) {
    auto& place = data.given() ? data : section;
    place.wrong("", "there is nothing to train on",
                "expected [trainer.data] text = \"kjv.txt\" or tokens = \"x.bin\"");
  }
  if (data.has("tokens") && !vocabulary_given) {
    data.wrong("tokens", "`tokens` in [trainer.data] needs `vocabulary` in [trainer.model]",
               "expected the number of ids that the tokenizer has, like 50257 for GPT-2's");
  }
  read_validation(section, data, trainer);
  data.finish();
}

}  // namespace

void read_trainer(Section section, TrainerSection& trainer, const TrainContext& context) {
  section.choice("strategy", trainer.strategy, {"ddp", "fsdp", "hsdp"}, {});
  section.whole("steps", trainer.steps, 1, kAny);
  section.whole("logical_batches", trainer.logical_batches, 1, kLogicalBatchesMax);
  if (trainer.logical_batches != 0 && !std::has_single_bit(trainer.logical_batches)) {
    section.wrong("logical_batches",
                  "`logical_batches` is " + std::to_string(trainer.logical_batches),
                  "expected a power of two, not below the most ranks");
  }
  section.whole("micro_batch", trainer.micro_batch, 1, kMicroBatchMax);
  section.real("learning_rate", trainer.learning_rate, 0, 1e6, "a number from 0 to 1e6");
  section.whole("seed", trainer.seed, 0, kAny);
  read_schedule(section, trainer);
  section.real("weight_decay", trainer.weight_decay, 0, 1e6, "a number from 0 to 1e6");
  section.real("clip", trainer.clip, 0, 1e30, "a number from 0 (no clipping) to 1e30");
  read_betas(section, trainer);
  section.choice("precision", trainer.precision, {"fp32", "bf16"}, {});
  section.choice("device", trainer.device, {"cpu", "cuda"}, {});
  section.flag("activation_checkpointing", trainer.activation_checkpointing);
  section.flag("prefetch", trainer.prefetch);
  section.flag("check_collectives", trainer.check_collectives);
  section.whole("connections", trainer.connections, 1, kConnectionsMax);
  const auto only_with = [&](const char* key, const char* strategies) {
    section.wrong(key,
                  std::string("`") + key + "` in [trainer] has no effect with strategy = \"" +
                      trainer.strategy + "\"",
                  std::string("expected strategy = ") + strategies);
  };
  if (trainer.strategy == "ddp" && !trainer.prefetch) only_with("prefetch", R"("fsdp" or "hsdp")");
  section.whole("shard_size", trainer.shard_size, 1, kShardSizeMax);
  if (trainer.strategy != "hsdp" && section.has("shard_size")) {
    only_with("shard_size", R"("hsdp")");
  } else if (trainer.shard_size != 0 && !std::has_single_bit(trainer.shard_size)) {
    section.wrong("shard_size", "`shard_size` is " + std::to_string(trainer.shard_size),
                  "expected a power of two; \"fsdp\" shares one copy among any number of ranks");
  }
  std::string unused;
  section.choice("reduction", unused, {"ordered"}, {"fast"});
  read_path(section, "weights", trainer.weights, context);
  auto model = section.section("model");
  read_data(section, trainer, context, model.has("vocabulary"));
  read_model(std::move(model), trainer.model, trainer);
  section.finish();
}

}  // namespace dlaunch::launcher::config
