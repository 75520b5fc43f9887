#include "launcher/config/train_file.h"

#include <gmock/gmock.h>

#include <stdexcept>

#include "tests/launcher/config/config_text.h"

namespace dlaunch::launcher::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TrainFile train(const std::string& text, const std::vector<std::string>& set = {}) {
  const auto parsed = parse_train_text(text, set);
  EXPECT_EQ(problems_of(parsed), "") << text;
  const auto* file = std::get_if<TrainFile>(&parsed);
  return file == nullptr ? throw std::runtime_error("problems in " + text) : *file;
}

std::string problems(const std::string& text, const std::vector<std::string>& set = {}) {
  return problems_of(parse_train_text(text, set));
}

std::string with_trainer(const std::string& text) { return text + "\n" + kTrainer; }

TEST(TrainFile, HasTheDocumentedDefaults) {
  const auto file = train(kTrainer);
  TrainFile expected;
  expected.job.name = "kjv";
  expected.trainer.emplace().text = "/home/ann/kjv/kjv.txt";
  expected.checkpoint.directory = "/home/ann/kjv/checkpoints";
  expected.checkpoint.memory = false;
  EXPECT_EQ(file, expected);
  EXPECT_EQ(file.recovery.wait_for_host, 30min);
  EXPECT_EQ(file.health.heartbeat, 100ms);
}

constexpr const char* kEveryKey = R"(
[job]
name = "kjv-gpt"
hosts = "2..4"
start_timeout = "2 min"
hosts_step = 2
[trainer]
strategy = "ddp"
steps = 500
logical_batches = 16
micro_batch = 4
learning_rate = 1
seed = 7
warmup_steps = 10
weight_decay = 0
clip = 0.5
betas = [0.8, 0.99]
activation_checkpointing = true
weights = "~/gpt2.safetensors"
precision = "bf16"
device = "cuda"
check_collectives = true
connections = 2
reduction = "ordered"
validate_every = "50 steps"
schedule = "cosine"
min_learning_rate = 0.25
decay_steps = 400
[trainer.model]
layers = 2
width = 96
heads = 3
context = 64
vocabulary = 300
[trainer.data]
text = "~/texts/../kjv.txt"
validation = 0.025
[checkpoint]
directory = "../out/"
storage = "shared"
every = "100 steps"
keep = 5
resume = "auto"
memory = false
[recovery]
spare_first = false
wait_for_host = "1 h"
restarts = { process = 0, window = "30 min" }
no_progress_generations = 5
stop_grace = "10 s"
lease = "20 s"
on_lease_end = "keep"
exact = "report"
quarantine = false
partition_grace = "1 min"
readmit = "2 s"
abort_deadline = "5 s"
straggler = "report"
[health]
heartbeat = "50 ms"
lost_after = "400 ms"
hang_floor = "2 s"
start_limit = "1 min"
checkpoint_limit = "2 min"
link_window = "250 ms"
)";

TEST(TrainFile, PrefetchBelongsToASharedState) {
  std::string text = kEveryKey;
  text.replace(text.find("\"ddp\""), 5, "\"fsdp\"\nprefetch = false");
  EXPECT_FALSE(train(text).trainer->prefetch);
  text.replace(text.find("fsdp"), 4, "ddp");
  EXPECT_THAT(problems_of(parse_train_text(text)), HasSubstr("`prefetch` in [trainer] has no "
                                                             "effect with strategy = \"ddp\""));
}

TEST(TrainFile, ReadsEveryKeyOfTheTrainer) {
  const auto file = train(kEveryKey);
  EXPECT_EQ(file.job, (JobSection{"kjv-gpt", 2, 4, 2min, 2, "numa"}));
  EXPECT_EQ(*file.trainer, (TrainerSection{"ddp",
                                           500,
                                           16,
                                           4,
                                           1.0,
                                           7,
                                           10,
                                           0.0,
                                           0.5,
                                           {0.8, 0.99},
                                           "bf16",
                                           "cuda",
                                           true,
                                           true,
                                           true,
                                           2,
                                           0,
                                           {2, 96, 3, 64, 300},
                                           "/home/ann/gpt2.safetensors",
                                           "/home/ann/kjv.txt",
                                           "",
                                           0.025,
                                           50,
                                           "cosine",
                                           0.25,
                                           400}));
  EXPECT_EQ(file.checkpoint, (CheckpointSection{"/home/ann/out", EverySteps{100}, 5, false}));
  EXPECT_EQ(file.recovery,
            (RecoverySection{false, 1h, 0, 30min, 5, 10s, 20s, false, false, 1min, 2s, 5s}));
  EXPECT_EQ(file.health, (HealthSection{50ms, 400ms, 2s, 1min, 2min, 250ms}));
  EXPECT_THAT(file.notices, ElementsAre());
}

TEST(TrainFile, TokensNeedTheirVocabulary) {
  const auto with = [](const std::string& model, const std::string& data) {
    return "[trainer]\n[trainer.model]\n" + model + "\n[trainer.data]\n" + data + "\n";
  };
  const auto file = train(with("vocabulary = 50257", "tokens = \"x.bin\""));
  EXPECT_EQ(file.trainer->tokens, "/home/ann/kjv/x.bin");
  EXPECT_EQ(file.trainer->model.vocabulary, 50'257U);
  EXPECT_THAT(problems(with("", "tokens = \"x.bin\"")),
              HasSubstr("train.toml:5:10: `tokens` in [trainer.data] needs `vocabulary` in "
                        "[trainer.model]; expected the number of ids"));
  EXPECT_THAT(problems(with("vocabulary = 100", "text = \"x.txt\"")),
              HasSubstr("`vocabulary` is 100; expected 256 or more"));
  EXPECT_THAT(problems(with("vocabulary = 300", "text = \"x.txt\"\ntokens = \"x.bin\"")),
              HasSubstr("`text` and `tokens` in [trainer.data] are both given"));
}

TEST(TrainFile, ValidationHasAShareOfTheDataUnlessItIsOff) {
  const auto with = [](const std::string& every, const std::string& share) {
    return "[trainer]\nvalidate_every = " + every + "\n[trainer.data]\ntext = \"x\"\n" + share;
  };
  EXPECT_EQ(train(with("\"off\"", "")).trainer->validation, 0);
  EXPECT_EQ(train(with("\"10 steps\"", "")).trainer->validation, 0.1);
  EXPECT_EQ(train(with("\"off\"", "validation = 0.2")).trainer->validation, 0.2);
  EXPECT_THAT(problems(with("\"10 min\"", "")), HasSubstr("\"off\" or \"100 steps\""));
  EXPECT_THAT(problems(with("\"10 steps\"", "validation = 0.0")), HasSubstr("nothing to validate"));
  EXPECT_THAT(problems(with("\"off\"", "validation = 0.00015")), HasSubstr("thousandths"));
  EXPECT_THAT(problems(with("\"off\"", "validation = 0.6")), HasSubstr("from 0 to 0.5"));
}

TEST(TrainFile, ACosineFallsAfterTheWarmUpAndNotBelowItsEnd) {
  const auto with = [](const std::string& keys) {
    return "[trainer]\n" + keys + "\n[trainer.data]\ntext = \"x\"\n";
  };
  EXPECT_EQ(problems(with("schedule = \"cosine\"")), "");
  EXPECT_THAT(problems(with("decay_steps = 10")), HasSubstr("no effect on a constant rate"));
  EXPECT_THAT(problems(with("schedule = \"cosine\"\nmin_learning_rate = 1")),
              HasSubstr("above `learning_rate`"));
  EXPECT_THAT(problems(with("schedule = \"cosine\"\nwarmup_steps = 2000")),
              HasSubstr("the learning rate has fallen (2000 steps) before it has risen (2000)"));
}

TEST(TrainFile, ReadsEveryKeyOfAProgram) {
  const auto file = train(R"(
[program]
command = ["python3", "train.py", "--rank", "${rank}", "$HOME"]
directory = "exp1"
environment = { NCCL_DEBUG = "WARN", EMPTY = "" }
inherit = ["PATH", "MY_*"]
wrap = ["apptainer", "exec", "${host}.sif"]
step_pattern = 'step[ =:]+(\d+)'
checkpoint_glob = "ckpt/step-*/done"
[checkpoint]
directory = "/data/ckpt"
)");
  const auto& program = *file.program;
  EXPECT_THAT(program.command, ElementsAre("python3", "train.py", "--rank", "${rank}", "$HOME"));
  EXPECT_EQ(program.directory, "/home/ann/kjv/exp1");
  EXPECT_EQ(program.environment,
            (std::map<std::string, std::string>{{"EMPTY", ""}, {"NCCL_DEBUG", "WARN"}}));
  EXPECT_THAT(program.inherit, ElementsAre("PATH", "MY_*"));
  EXPECT_THAT(program.wrap, ElementsAre("apptainer", "exec", "${host}.sif"));
  EXPECT_EQ(program.step_pattern, R"(step[ =:]+(\d+))");
  EXPECT_EQ(program.checkpoint_glob, "/home/ann/kjv/ckpt/step-*/done");
  EXPECT_EQ(file.checkpoint.directory, "/data/ckpt");
  EXPECT_EQ(file.trainer, std::nullopt);
}

TEST(TrainFile, AProgramRunsWhereItsFileIsAndInheritsThePaths) {
  const auto file = train(kProgram);
  EXPECT_EQ(file.program->directory, "/home/ann/kjv");
  EXPECT_THAT(file.program->inherit,
              ElementsAre("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_*"));
  EXPECT_EQ(file.checkpoint.directory, "") << "a program need not have one";
}

TEST(TrainFile, TakesHostsAsANumberOrARange) {
  for (const char* text : {"hosts = 3", "hosts = \"3\"", "hosts = \"3..3\""}) {
    const auto file = train(with_trainer(std::string("[job]\n") + text));
    EXPECT_EQ(file.job.hosts_min, 3U) << text;
    EXPECT_EQ(file.job.hosts_max, 3U) << text;
  }
}

TEST(TrainFile, TakesCheckpointsBySteps) {
  const auto every = [](const std::string& text) {
    return train(with_trainer("[checkpoint]\nevery = \"" + text + "\"")).checkpoint.every;
  };
  EXPECT_EQ(every("auto"), CheckpointEvery(EveryAuto{}));
  EXPECT_EQ(every("100 steps"), CheckpointEvery(EverySteps{100}));
  EXPECT_EQ(every("1 step"), CheckpointEvery(EverySteps{1}));
  EXPECT_EQ(every("20steps"), CheckpointEvery(EverySteps{20}));
  EXPECT_EQ(every("10 min"), CheckpointEvery(EveryTime{10min}));
}

TEST(TrainFile, NamesAllProblemsAtOnceWithTheirPlaces) {
  EXPECT_EQ(
      problems(R"([job]
name = "a b"
hosts = "4..2"
[trainer]
stepps = 10
logical_batches = 12
micro_batch = "8"
strategy = "zero"
[trainer.model]
width = 100
heads = 3
[recovery]
stop_grace = "30"
restarts = { proces = 3 }
)"),
      R"(train.toml:2:8: `name` is "a b"; expected at most 64 letters, digits, '-', '_' and '.', no '-' or '.' first
train.toml:3:9: `hosts` is "4..2"; expected a number, or "2..4" for at least 2 and at most 4
train.toml:4:1: there is nothing to train on; expected [trainer.data] text = "kjv.txt" or tokens = "x.bin"
train.toml:5:1: unknown key `stepps` in [trainer]; did you mean `steps`?
train.toml:6:19: `logical_batches` is 12; expected a power of two, not below the most ranks
train.toml:7:15: `micro_batch` in [trainer] is a string; expected a whole number from 1 to 65536
train.toml:8:12: `strategy` in [trainer] is "zero"; expected "ddp", "fsdp" or "hsdp"
train.toml:11:9: `width` (100) is no multiple of `heads` (3); expected a width that the heads can share evenly
train.toml:13:14: `stop_grace` in [recovery] is "30"; expected a duration with a unit, like "30 s"
train.toml:14:14: unknown key `proces` in [recovery.restarts]; did you mean `process`?
)");
}

TEST(TrainFile, RefusesWhatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "train.toml:1:1: there is nothing to run; expected [trainer] or [program]"},
      {std::string(kTrainer) + kProgram, "train.toml:3:1: [trainer] and [program] are both given"},
      {"trainer = 1\n", "expected a table [trainer]"},
      {"[trainr]\n", "unknown section [trainr]; did you mean `trainer`?"},
      {"[trainer]\n", "there is nothing to train on"},
      {with_trainer("[job]\nhosts = 0"), "from 1 to 65536"},
      {with_trainer("[job]\nhosts = \"2-4\""), "expected a number, or \"2..4\""},
      {with_trainer("[job]\nhosts = 3\nhosts_step = 2"), "no multiple of `hosts_step`"},
      {with_trainer("[job]\nname = \"\""), "`name` is \"\""},
      {with_trainer("[job]\nname = \"-x\""), "no '-' or '.' first"},
      {with_trainer("[job]\nname = \"../x\""), "`name` is"},
      {with_trainer("[job]\nbind = \"none\""), "not available yet"},
      {with_trainer("[job]\nstart_timeout = \"400 days\""), "1 s to 30 days"},
      {with_trainer("[job]\nstart_timeout = \"-1 s\""), "expected a duration"},
      {with_trainer("[checkpoint]\nevery = 100"), "is a whole number; expected \"auto\""},
      {with_trainer("[checkpoint]\nevery = \"0 steps\""), "`every` is \"0 steps\""},
      {with_trainer("[checkpoint]\nevery = \"100\""), "`every` is \"100\""},
      {with_trainer("[checkpoint]\nevery = \"1 ms\""), "at least 1 s"},
      {with_trainer("[checkpoint]\nkeep = 0"), "from 1 to"},
      {with_trainer("[checkpoint]\ndirectory = \"\""), "expected a path"},
      {with_trainer("[checkpoint]\ndirectory = \"~bob/x\""), "only ~/ stands for a home"},
      {with_trainer("[checkpoint]\nstorage = \"local\""), "not available yet"},
      {with_trainer("[checkpoint]\nreplicas = 2"), "not available yet"},
      {with_trainer("[checkpoint]\nreplicas = 0"), "not available yet"},
      {with_trainer("[recovery]\nexact = \"require\""), "not available yet"},
      {with_trainer("[recovery]\nstraggler = \"replace\""), "not available yet"},
      {with_trainer("[recovery]\non_lease_end = \"wait\""), "expected \"stop\" or \"keep\""},
      {with_trainer("[recovery]\nlease = \"10 ms\""), "1 s to 30 days"},
      {with_trainer("[health]\nheartbeat = \"auto\""), "expected a duration"},
      {with_trainer("[health]\nheartbeat = \"1 ms\""), "10 ms to 30 days"},
      {with_trainer("[health]\nevaluation_limit = \"1 h\""), "not available yet"},
      {with_trainer("[health]\nlink_window = 1"), "`link_window` in [health]"},
      {with_trainer("[trainer]\nreduction = \"fast\""), "not available yet"},
      {with_trainer("[trainer]\nshard_size = 8"), "has no effect with strategy"},
      {with_trainer("[trainer]\nstrategy = \"hsdp\"\nshard_size = 3"), "expected a power of two"},
      {with_trainer("[trainer]\nvalidate_every = true"), "expected \"off\" or"},
      {with_trainer("[trainer]\nlearning_rate = \"3e-4\""), "expected a number"},
      {with_trainer("[trainer]\nlearning_rate = nan"), "out of range"},
      {with_trainer("[trainer]\nlearning_rate = inf"), "out of range"},
      {with_trainer("[trainer]\nweight_decay = -0.1"), "out of range"},
      {with_trainer("[trainer]\nbetas = [0.9]"), "expected two numbers"},
      {with_trainer("[trainer]\nbetas = [0.9, 1.0]"), "expected two numbers"},
      {with_trainer("[trainer]\nsteps = 0"), "expected a whole number from 1"},
      {with_trainer("[trainer]\nsteps = 1.5"), "is a number with a fraction"},
      {with_trainer("[trainer]\nseed = -1"), "expected a whole number from 0"},
      {"[trainer.data]\ntokens = \"x.bin\"\n", "needs `vocabulary`"},
      {"[trainer.model]\nheads = 0\n[trainer.data]\ntext = \"a\"\n", "from 1 to 65536"},
      {"[program]\n", "[program] has no `command`"},
      {"[program]\ncommand = []\n", "`command` names no program"},
      {"[program]\ncommand = [\"\"]\n", "`command` names no program"},
      {"[program]\ncommand = \"python3 train.py\"\n", "no shell reads it"},
      {"[program]\ncommand = [\"a\", 1]\n",
       "train.toml:2:17: `command` in [program] holds a whole"},
      {"[program]\ncommand = [\"a\", \"${rnk}\"]\n", "the unknown ${rnk}; expected one of ${rank}"},
      {"[program]\ncommand = [\"a\", \"b\\u0000c\"]\n", "NUL"},
      {std::string(kProgram) + "wrap = [\"${HOME}\"]\n", "`wrap` holds the unknown ${HOME}"},
      {std::string(kProgram) + "environment = { A = 1 }\n", "`A` in [program.environment] is a"},
      {std::string(kProgram) + "environment = { \"A=B\" = \"x\" }\n", "without '='"},
      {std::string(kProgram) + "inherit = [\"*PATH\"]\n", "* only at the end"},
      {std::string(kProgram) + "inherit = \"PATH\"\n", "expected an array of strings"},
      {std::string(kProgram) + "step_pattern = \"step (\"\n", "is no pattern"},
      {std::string(kProgram) + "step_pattern = \"step\"\n", "has no group"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(problems(text), HasSubstr(why)) << text;
  }
}

TEST(TrainFile, WithAProgramOnlyTheDirectoryOfCheckpointsHasAnEffect) {
  for (const char* line : {"storage = \"shared\"", "every = \"auto\"", "keep = 3",
                           "resume = \"auto\"", "memory = true", "replicas = 1"}) {
    EXPECT_THAT(problems(std::string(kProgram) + "[checkpoint]\n" + line + "\n"),
                HasSubstr("has no effect with [program]"))
        << line;
  }
  EXPECT_THAT(problems(std::string(kProgram) + "[checkpoint]\nevry = \"auto\"\n"),
              HasSubstr("did you mean `every`?"));
}

TEST(TrainFile, MemoryIsOffWithANotice) {
  const auto file = train(with_trainer("[checkpoint]\nmemory = true"));
  EXPECT_FALSE(file.checkpoint.memory);
  ASSERT_EQ(file.notices.size(), 1U);
  EXPECT_THAT(file.notices[0], HasSubstr("not available yet; it is off"));
}

TEST(TrainFile, TheJobIsNamedAsItsFolderWhereItCanBe) {
  const auto name = [](const std::string& directory) {
    const auto parsed = parse_train(kTrainer, {"train.toml", directory, "/home/ann", {}});
    return std::get<TrainFile>(parsed).job.name;
  };
  EXPECT_EQ(name("/work/my run"), "my-run");
  EXPECT_EQ(name("/work/"), "job");
  EXPECT_EQ(name("/"), "job");
  EXPECT_EQ(name("/work/.hidden"), "job");
  EXPECT_EQ(name("/work/" + std::string(100, 'x')), std::string(64, 'x'));
}

TEST(TrainFile, OverridesOfTheCommandLineWin) {
  const auto file =
      train(with_trainer("[job]\nname = \"a\"\n[trainer]\nsteps = 5"),
            {"job.name=b", "job.hosts=2..4", "trainer.steps=9", "trainer.betas=[0.5, 0.6]",
             "trainer.model.layers=1", "recovery.wait_for_host=5 min", "checkpoint.directory=/x=y",
             "recovery.restarts={ process = 1 }", "trainer.seed = 3"});
  EXPECT_EQ(file.job.name, "b");
  EXPECT_EQ(file.job.hosts_min, 2U);
  EXPECT_EQ(file.trainer->steps, 9U);
  EXPECT_EQ(file.trainer->betas[1], 0.6);
  EXPECT_EQ(file.trainer->model.layers, 1U);
  EXPECT_EQ(file.recovery.wait_for_host, 5min);
  EXPECT_EQ(file.checkpoint.directory, "/x=y");
  EXPECT_EQ(file.recovery.restarts, 1U);
  EXPECT_EQ(file.trainer->seed, 3U);
}

TEST(TrainFile, AProblemOfAnOverrideNamesIt) {
  EXPECT_EQ(problems(kTrainer, {"trainer.steps=many", "job.nme=x", "nothing", "=x", "a..b=1",
                                "trainer.data.text.x=1", "job.name=7"}),
            "--set =x: not an override; expected --set job.name=x\n"
            "--set a..b=1: not an override; expected --set job.name=x\n"
            "--set job.name=7: `name` in [job] is a whole number; expected a string in quotes\n"
            "--set job.nme=x: unknown key `nme` in [job]; did you mean `name`?\n"
            "--set nothing: not an override; expected --set job.name=x\n"
            "--set trainer.data.text.x=1: `text` is no table\n"
            "--set trainer.steps=many: `steps` in [trainer] is a string; expected a whole number "
            "from 1 to 9223372036854775807\n");
}

TEST(TrainFile, AnOverrideCannotBringFurtherKeysAlong) {
  EXPECT_THAT(problems(kTrainer, {"job.name=\"a\"\nhosts = 1"}), HasSubstr("`name` is"));
}

TEST(TrainFile, InheritsByNameAndByBeginning) {
  const std::map<std::string, std::string> shell = {
      {"PATH", "/bin"}, {"PATHS", "x"}, {"CONDA_PREFIX", "/c"}, {"CONDA", "y"}, {"SECRET", "z"}};
  EXPECT_EQ(inherited(shell, default_inherit()),
            (std::map<std::string, std::string>{{"PATH", "/bin"}, {"CONDA_PREFIX", "/c"}}));
  EXPECT_EQ(inherited(shell, {"*"}), shell);
  EXPECT_TRUE(inherited(shell, {}).empty());
}

TEST(TrainFile, SaysWhenTheHeartbeatIsShortened) {
  const auto notices = [](const std::string& health) {
    const auto parsed = parse_train_text("[health]\n" + health + "\n" + kTrainer);
    EXPECT_EQ(problems_of(parsed), "");
    return std::get<TrainFile>(parsed).notices;
  };
  EXPECT_THAT(notices("heartbeat = \"120 ms\""), testing::IsEmpty());
  EXPECT_THAT(notices("lost_after = \"200 ms\""), testing::IsEmpty()) << "it was not wished for";
  EXPECT_THAT(
      notices("heartbeat = \"200 ms\""),
      testing::ElementsAre("[health] heartbeat: 200 ms becomes 120 ms, a fifth of lost_after "
                           "(600 ms)"));
}

}  // namespace
}  // namespace dlaunch::launcher::config
