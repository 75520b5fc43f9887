// Settings out of JSON: each key with its range, all problems at once.
#include "trainer/settings.h"

#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "protocol/json_fields.h"
#include "protocol/json_text.h"
#include "trainer/comm/handshake.h"
#include "trainer/comm/lanes.h"

namespace dlaunch::trainer {

using nlohmann::json;
using protocol::JsonFields;

namespace {

constexpr std::uint32_t kLayersMax = 1024;
constexpr std::uint32_t kWidthMax = 1u << 16;
constexpr std::uint32_t kContextMax = 1u << 20;
constexpr std::uint32_t kBytes = 256;
constexpr std::uint32_t kVocabularyMax = 1u << 24;
constexpr std::uint32_t kMicroBatchMax = 1u << 16;
constexpr std::uint32_t kLogicalBatchesMax = 1u << 20;
constexpr std::uint32_t kThreadsMax = 1024;

/// Reads keys one by one and keeps every complaint.
class Reader {
 public:
  Reader(const json& object, std::string prefix, std::vector<std::string>& problems)
      : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

  template <class T>
  void whole(const char* key, T& into, std::uint64_t low, std::uint64_t high) {
    read(key, into, [&](JsonFields& fields) { return fields.whole<T>(key); });
    if (into < low || into > high) {
      complain(key, "must be from " + std::to_string(low) + " to " + std::to_string(high));
    }
  }
  void number(const char* key, double& into, double low, double high) {
    read(key, into, [&](JsonFields& fields) { return fields.number(key); });
    if (!(into >= low && into <= high)) {
      complain(key, "must be from " + json(low).dump() + " to " + json(high).dump());
    }
  }
  void text(const char* key, std::string& into) {
    read(key, into, [&](JsonFields& fields) { return fields.text(key); });
  }
  void flag(const char* key, bool& into) {
    read(key, into, [&](JsonFields& fields) { return fields.boolean(key); });
  }
  /// One of at least two words; without the key the first stands.
  template <class T>
  void choice(const char* key, T& into, std::initializer_list<std::pair<const char*, T>> words) {
    std::string word = words.begin()->first;
    text(key, word);
    std::string known;
    for (const auto& entry : words) {
      if (word == entry.first) {
        into = entry.second;
        return;
      }
      const bool last = &entry == words.end() - 1;
      known += (known.empty() ? "" : !last ? ", " : words.size() == 2 ? " nor " : " and ");
      known += entry.first;
    }
    complain(key, "“" + word + "” is " + (words.size() == 2 ? "neither " : "none of ") + known);
  }
  void complain(const std::string& key, const std::string& trouble) {
    problems_.push_back(prefix_ + key + " " + trouble);
  }
  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  [[nodiscard]] const json& at(const char* key) const { return object_.at(key); }

 private:
  template <class T, class Take>
  void read(const char* key, T& into, Take take) {
    if (!object_.contains(key)) return;  // the default stands
    JsonFields fields(object_);
    const T value = take(fields);
    if (fields.error().empty()) {
      into = value;
    } else {
      problems_.push_back(prefix_ + fields.error());
    }
  }

  const json& object_;
  std::string prefix_;
  std::vector<std::string>& problems_;
};

void read_betas(Reader& reader, TrainerSettings& settings) {
  if (!reader.has("betas")) return;
  const auto& betas = reader.at("betas");
  const auto good = [](const json& beta) {
    return beta.is_number() && beta.get<double>() >= 0 && beta.get<double>() < 1;
  };
  if (!betas.is_array() || betas.size() != 2 || !good(betas[0]) || !good(betas[1])) {
    reader.complain("betas", "must be two numbers from 0 to below 1");
    return;
  }
  settings.beta1 = betas[0];
  settings.beta2 = betas[1];
}

void read_model(const json& model, ModelSettings& settings, std::vector<std::string>& problems) {
  Reader reader(model, "model.", problems);
  reader.whole("layers", settings.layers, 1, kLayersMax);
  reader.whole("width", settings.width, 1, kWidthMax);
  reader.whole("heads", settings.heads, 1, kWidthMax);
  reader.whole("context", settings.context, 1, kContextMax);
  reader.whole("vocabulary", settings.vocabulary, 2, kVocabularyMax);
  if (settings.heads > 0 && settings.width % settings.heads != 0) {
    reader.complain("width", "(" + std::to_string(settings.width) +
                                 ") must be a multiple of model.heads (" +
                                 std::to_string(settings.heads) + ")");
  }
}

void read_schedule(Reader& reader, TrainerSettings& settings) {
  std::string schedule = "constant";
  reader.text("schedule", schedule);
  if (schedule == "cosine") {
    settings.schedule = Schedule::cosine;
  } else if (schedule != "constant") {
    reader.complain("schedule", "is neither “constant” nor “cosine”");
  }
  reader.number("min_learning_rate", settings.min_learning_rate, 0, 1e30);
  settings.decay_steps = settings.steps;
  reader.whole("decay_steps", settings.decay_steps, 1, std::numeric_limits<std::uint64_t>::max());
  if (settings.schedule == Schedule::cosine && settings.decay_steps <= settings.warmup_steps) {
    reader.complain("decay_steps", "must be more than warmup_steps");
  }
}

void read_data(const json& data, TrainerSettings& settings, std::vector<std::string>& problems) {
  Reader reader(data, "data.", problems);
  reader.text("text", settings.data.text);
  reader.text("tokens", settings.data.tokens);
  if (settings.data.text.empty() == settings.data.tokens.empty()) {
    reader.complain("text", "or data.tokens, one of them, must be the path of a file");
  }
  if (!settings.data.text.empty() && settings.model.vocabulary < kBytes) {
    problems.push_back("model.vocabulary must be 256 or more: the bytes of a text");
  }
  double validation = 0;
  reader.number("validation", validation, 0, 0.5);
  settings.data.validation_per_mille = static_cast<std::uint32_t>(std::lround(validation * 1000));
  if (settings.validate_every_steps > 0 && settings.data.validation_per_mille == 0) {
    reader.complain("validation", "must be 0.001 or more: validate_every_steps is not 0");
  }
}

void read_top(const json& object, TrainerSettings& settings, std::vector<std::string>& problems) {
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  Reader reader(object, "", problems);
  reader.choice<Strategy>(
      "strategy", settings.strategy,
      {{"ddp", Strategy::ddp}, {"fsdp", Strategy::fsdp}, {"hsdp", Strategy::hsdp}});
  reader.text("weights", settings.weights);
  reader.choice<Precision>("precision", settings.precision,
                           {{"fp32", Precision::fp32}, {"bf16", Precision::bf16}});
  reader.choice<Device>("device", settings.device, {{"cpu", Device::cpu}, {"cuda", Device::cuda}});
  reader.whole("shard_size", settings.shard_size, 0, comm::kWorldSizeMax);
  reader.whole("steps", settings.steps, 1, kAny);
  reader.whole("logical_batches", settings.logical_batches, 1, kLogicalBatchesMax);
  if (!std::has_single_bit(settings.logical_batches)) {
    reader.complain("logical_batches", "must be a power of two");
  }
  reader.whole("micro_batch", settings.micro_batch, 1, kMicroBatchMax);
  reader.number("learning_rate", settings.learning_rate, 0, 1e30);
  reader.whole("seed", settings.seed, 0, kAny);
  reader.whole("warmup_steps", settings.warmup_steps, 0, kAny);
  read_schedule(reader, settings);
  reader.whole("validate_every_steps", settings.validate_every_steps, 0, kAny);
  reader.number("weight_decay", settings.weight_decay, 0, 1e6);
  reader.number("clip", settings.clip, 0, 1e30);
  read_betas(reader, settings);
  reader.flag("activation_checkpointing", settings.activation_checkpointing);
  reader.flag("prefetch", settings.prefetch);
  reader.flag("check_collectives", settings.check_collectives);
  reader.whole("connections", settings.connections, 0, comm::kConnectionsMax);
  reader.whole("checkpoint_every_steps", settings.checkpoint_every_steps, 0, kAny);
  reader.whole("threads", settings.threads, 1, kThreadsMax);
  for (const char* key : {"steps", "model", "data"}) {
    if (!reader.has(key)) reader.complain(key, "is missing");
  }
}

}  // namespace

Result<TrainerSettings> parse_settings(std::string_view text) {
  std::vector<std::string> problems;
  TrainerSettings settings;
  const auto object = protocol::read_json(text);
  if (!object.is_object()) {
    problems.emplace_back("no JSON object");
  } else {
    read_top(object, settings, problems);
    const auto nested = [&](const char* key) {
      const bool good = object.contains(key) && object[key].is_object();
      if (object.contains(key) && !good) problems.push_back(std::string(key) + " is no object");
      return good;
    };
    if (nested("model")) read_model(object["model"], settings.model, problems);
    if (nested("data")) read_data(object["data"], settings, problems);
  }
  if (problems.empty()) return settings;
  std::string all;
  for (const auto& problem : problems) all += (all.empty() ? "" : "; ") + problem;
  return failure(std::errc::invalid_argument, "reading the trainer's settings: " + all);
}

}  // namespace dlaunch::trainer
