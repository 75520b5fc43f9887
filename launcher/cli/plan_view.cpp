#include "launcher/cli/plan_view.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "launcher/views/table.h"
#include "protocol/json_text.h"

namespace dlaunch::launcher::cli {
namespace {

/// The shortest text that reads back to the same number.
std::string number(double value) { return nlohmann::json(value).dump(); }

std::string settings_text(const config::TrainerSection& trainer) {
  const auto& model = trainer.model;
  std::string text = "model: " + std::to_string(model.layers) + " layers of width " +
                     std::to_string(model.width) + ", " + std::to_string(model.heads) +
                     " heads, context " + std::to_string(model.context) + ", vocabulary " +
                     std::to_string(model.vocabulary) + "\ndata: " + trainer.text + trainer.tokens +
                     (trainer.tokens.empty() ? " (text)" : " (token ids)");
  if (trainer.validation > 0) text += ", " + number(trainer.validation) + " kept for validation";
  if (trainer.validate_every_steps > 0) {
    text += " every " + std::to_string(trainer.validate_every_steps) + " steps";
  }
  text += "\nlearning rate: " + number(trainer.learning_rate);
  if (trainer.warmup_steps > 0) {
    text += " after " + std::to_string(trainer.warmup_steps) + " steps of warm-up";
  }
  if (trainer.schedule == "cosine") {
    const auto end = trainer.decay_steps == 0 ? trainer.steps : trainer.decay_steps;
    text += ", cosine to " + number(trainer.min_learning_rate) + " at step " + std::to_string(end);
  }
  return text + "\n";
}

nlohmann::json settings_json(const config::TrainerSection& trainer) {
  const auto& model = trainer.model;
  return {{"model",
           {{"layers", model.layers},
            {"width", model.width},
            {"heads", model.heads},
            {"context", model.context},
            {"vocabulary", model.vocabulary}}},
          {"data", trainer.text + trainer.tokens},
          {"validation", trainer.validation},
          {"validate_every_steps", trainer.validate_every_steps},
          {"learning_rate", trainer.learning_rate},
          {"schedule", trainer.schedule}};
}

}  // namespace

std::string plan_text(const config::HostsFile& hosts, const config::TrainFile& train,
                      bool as_json) {
  std::vector<std::vector<std::string>> rows{{"HOST", "ADDRESS", "RANKS", "TRANSPORT", "ROLE"}};
  auto list = nlohmann::json::array();
  std::size_t next_rank = 0;
  std::size_t members = 0;
  bool known = true;
  for (const auto& host : hosts.hosts) {
    const bool full = train.job.hosts_max > 0 && members >= train.job.hosts_max;
    const bool trains = !host.spare && !full;
    std::string ranks;
    auto numbers = nlohmann::json::array();
    if (trains) {
      ++members;
      known = known && host.workers.has_value();
      if (known) {
        std::vector<std::size_t> own;
        for (std::uint32_t i = 0; i < *host.workers; ++i) own.push_back(next_rank++);
        ranks = views::ranges(own);
        numbers = own;
      } else {
        ranks = host.workers ? std::to_string(*host.workers) + " workers" : "one per GPU, else 1";
      }
    }
    const std::string transport = host.transport == config::Transport::local ? "local" : "ssh";
    rows.push_back({host.name, host.address, ranks, transport, trains ? "trains" : "spare"});
    list.push_back({{"name", host.name},
                    {"address", host.address},
                    {"ranks", numbers},
                    {"transport", transport},
                    {"spare", !trains}});
  }
  const std::string what = train.trainer ? "trainer " + train.trainer->strategy + ", " +
                                               std::to_string(train.trainer->steps) + " steps"
                                         : "program " + train.program->command.front();
  if (as_json) {
    nlohmann::json plan{{"job", train.job.name}, {"runs", what}, {"hosts", list}};
    if (train.trainer) plan["trainer"] = settings_json(*train.trainer);
    return protocol::json_text(plan) + "\n";
  }
  return "job " + train.job.name + ": " + what + "\n" +
         (train.trainer ? settings_text(*train.trainer) : "") + "\n" + views::table(rows);
}

}  // namespace dlaunch::launcher::cli
