#include "trainer/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dlaunch::trainer {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json good() {
  return {{"strategy", "ddp"},
          {"steps", 2000},
          {"logical_batches", 16},
          {"micro_batch", 4},
          {"learning_rate", 1e-3},
          {"seed", 5},
          {"warmup_steps", 10},
          {"weight_decay", 0.2},
          {"clip", 0.5},
          {"betas", {0.8, 0.99}},
          {"check_collectives", true},
          {"connections", 8},
          {"model", {{"layers", 2}, {"width", 64}, {"heads", 2}, {"context", 32}}},
          {"data", {{"text", "/data/kjv.txt"}, {"validation", 0.025}}},
          {"validate_every_steps", 50},
          {"schedule", "cosine"},
          {"min_learning_rate", 1e-4},
          {"decay_steps", 1500},
          {"checkpoint_every_steps", 100},
          {"threads", 3}};
}
std::string why_refused(const json& settings) {
  const auto parsed = parse_settings(settings.dump());
  return parsed ? "not refused" : parsed.error().text();
}
template <class Value>
std::string why_refused(const char* key, Value value) {
  auto settings = good();
  settings[key] = value;
  return why_refused(settings);
}

TEST(Settings, EveryKeyIsRead) {
  const auto settings = parse_settings(good().dump()).value();
  EXPECT_EQ(settings.steps, 2000u);
  EXPECT_EQ(settings.logical_batches, 16u);
  EXPECT_EQ(settings.micro_batch, 4u);
  EXPECT_EQ(settings.learning_rate, 1e-3);
  EXPECT_EQ(settings.seed, 5u);
  EXPECT_EQ(settings.warmup_steps, 10u);
  EXPECT_EQ(settings.weight_decay, 0.2);
  EXPECT_EQ(settings.clip, 0.5);
  EXPECT_EQ(settings.beta1, 0.8);
  EXPECT_EQ(settings.beta2, 0.99);
  EXPECT_TRUE(settings.check_collectives);
  EXPECT_EQ(settings.connections, 8U);
  EXPECT_EQ(settings.model, (ModelSettings{2, 64, 2, 32}));
  EXPECT_EQ(settings.data.text, "/data/kjv.txt");
  EXPECT_EQ(settings.data.validation_per_mille, 25u);
  EXPECT_EQ(settings.validate_every_steps, 50u);
  EXPECT_EQ(settings.schedule, Schedule::cosine);
  EXPECT_EQ(settings.min_learning_rate, 1e-4);
  EXPECT_EQ(settings.decay_steps, 1500u);
  EXPECT_EQ(settings.checkpoint_every_steps, 100u);
  EXPECT_EQ(settings.threads, 3u);
  EXPECT_EQ(settings.tokens_per_step(), 16u * 4 * 32);
}

TEST(Settings, LeftOutKeysHaveTheirDefaults) {
  const json few{
      {"steps", 1}, {"model", json::object()}, {"data", {{"text", "/t"}}}, {"new_key", 1}};
  const auto settings = parse_settings(few.dump()).value();
  EXPECT_EQ(settings.beta2, 0.95);
  EXPECT_EQ(settings.model.context, 128u);
  EXPECT_EQ(settings.threads, 1u);
  EXPECT_EQ(settings.model.vocabulary, 256u);
  EXPECT_EQ(settings.schedule, Schedule::constant);
  EXPECT_EQ(settings.data.validation_per_mille, 0u);
}

TEST(Settings, TokensComeFromAFileOfIdsWithItsVocabulary) {
  auto settings = good();
  settings["data"] = {{"tokens", "/data/x.bin"}, {"validation", 0.1}};
  settings["model"]["vocabulary"] = 50257;
  const auto parsed = parse_settings(settings.dump()).value();
  EXPECT_EQ(parsed.data.tokens, "/data/x.bin");
  EXPECT_EQ(parsed.model.vocabulary, 50257u);
  settings["data"]["text"] = "/data/kjv.txt";
  EXPECT_THAT(why_refused(settings), HasSubstr("data.text or data.tokens, one of them"));
}

TEST(Settings, AllProblemsAreNamedAtOnce) {
  auto settings = good();
  settings["steps"] = 0;
  settings["betas"] = {0.9, 1.0};
  settings["logical_batches"] = 12;
  settings["model"]["width"] = "wide";
  settings["data"]["text"] = "";
  const auto why = why_refused(settings);
  for (const char* part : {"steps must be from 1", "betas must be two numbers",
                           "logical_batches must be a power of two", "model.key \"width\"",
                           "data.text or data.tokens"}) {
    EXPECT_THAT(why, HasSubstr(part));
  }
}

TEST(Settings, WhatCannotBeIsRefused) {
  EXPECT_THAT(why_refused("strategy", "zero"), HasSubstr("none of ddp, fsdp and hsdp"));
  EXPECT_THAT(why_refused("precision", "fp8"), HasSubstr("neither fp32 nor bf16"));
  EXPECT_THAT(why_refused("device", "gpu"), HasSubstr("neither cpu nor cuda"));
  EXPECT_THAT(why_refused("shard_size", 5000), HasSubstr("shard_size must be"));
  EXPECT_THAT(why_refused("clip", -1), HasSubstr("clip must be"));
  EXPECT_THAT(why_refused("threads", 0), HasSubstr("threads must be"));
  EXPECT_THAT(why_refused("steps", -5), HasSubstr("steps"));
  EXPECT_THAT(why_refused("model", 3), HasSubstr("model is no object"));
  EXPECT_THAT(why_refused("betas", "x"), HasSubstr("betas"));
  EXPECT_THAT(why_refused("schedule", "linear"), HasSubstr("neither"));
  EXPECT_THAT(why_refused("decay_steps", 10), HasSubstr("must be more than warmup_steps"));
  EXPECT_THAT(why_refused("data", json{{"text", "/t"}}), HasSubstr("data.validation must be"));
  auto small = good();
  small["model"]["vocabulary"] = 255;
  EXPECT_THAT(why_refused(small), HasSubstr("model.vocabulary must be 256 or more"));
  auto uneven = good();
  uneven["model"]["heads"] = 3;
  EXPECT_THAT(why_refused(uneven), HasSubstr("multiple of model.heads"));
  EXPECT_THAT(why_refused(json::object()), HasSubstr("steps is missing; model is missing"));
  EXPECT_FALSE(parse_settings("nonsense"));
}

}  // namespace
}  // namespace dlaunch::trainer
