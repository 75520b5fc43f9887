// From an assignment to the first step.
#include "trainer/member.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/content_hash.h"
#include "protocol/json_text.h"
#include "trainer/checkpoint/io/loader.h"
#include "trainer/checkpoint/io/weights_file.h"
#include "trainer/checkpoint/layout.h"
#include "trainer/comm/lanes.h"
#include "trainer/io/machine.h"
#include "trainer/model/definition.h"
#include "trainer/model/io/device.h"
#include "trainer/model/library.h"

namespace dlaunch::trainer {

using protocol::worker::FailingCategory;

namespace {

tl::unexpected<Member::Trouble> trouble(FailingCategory category, std::string reason) {
  return tl::unexpected<Member::Trouble>(Failed{category, std::move(reason)});
}

/// A file that is wrong stays so; one that cannot be read just now may be read later.
tl::unexpected<Member::Trouble> data_trouble(const Error& error) {
  const bool wrong = error.code == std::errc::invalid_argument;
  return trouble(wrong ? FailingCategory::config_error : FailingCategory::user_error,
                 wrong ? error.doing : error.text());
}

tl::unexpected<Member::Trouble> device_trouble(const Error& error) {
  const bool unprepared = error.code == std::errc::no_such_device;
  return tl::unexpected<Member::Trouble>(
      Failed{unprepared ? FailingCategory::config_error : FailingCategory::user_error, error.doing,
             error.code == std::errc::io_error});
}

/// That there is something to validate on, where that is wanted.
Result<void> check_validation(const TrainerSettings& settings, const TrainingData& data) {
  const DataSplit split((data.tokens().size() - 1) / settings.model.context,
                        settings.data.validation_per_mille);
  if (settings.validate_every_steps == 0 || split.validation_windows() >= settings.micro_batch) {
    return {};
  }
  return failure(std::errc::invalid_argument,
                 data.path() + ": of its " + std::to_string(data.tokens().size()) +
                     " tokens only " + std::to_string(split.validation_windows()) +
                     " sequences are for validation, and " + std::to_string(settings.micro_batch) +
                     " are needed; a larger [trainer.data] validation, "
                     "a smaller [trainer] micro_batch, or validate_every = \"off\"");
}

}  // namespace

tl::expected<std::unique_ptr<Member>, Member::Trouble> Member::prepare(
    const Assigned& assigned, std::uint32_t local_world_size) {
  const auto& assign = assigned.assign;
  auto settings = parse_settings(assign.trainer);
  if (!settings) return trouble(FailingCategory::config_error, settings.error().text());
  if (settings->shard_size == 0) settings->shard_size = local_world_size;
  if (assign.world_size == 0 || assign.world_size > comm::kWorldSizeMax ||
      assign.rank.value >= assign.world_size) {
    return trouble(FailingCategory::config_error, "the assignment names rank " +
                                                      std::to_string(assign.rank.value) + " of " +
                                                      std::to_string(assign.world_size));
  }
  if (!comm::logical_batches_fit(settings->logical_batches, assign.world_size)) {
    return trouble(FailingCategory::config_error,
                   "[trainer] logical_batches is " + std::to_string(settings->logical_batches) +
                       ", and " + std::to_string(assign.world_size) + " ranks need at least " +
                       std::to_string(comm::lanes_for(assign.world_size)));
  }
  auto data = TrainingData::open(settings->data, std::uint64_t{settings->model.context} + 1);
  if (!data) return data_trouble(data.error());
  if (auto enough = check_validation(*settings, *data); !enough) {
    return data_trouble(enough.error());
  }
  auto placement =
      Placement::make(*settings, layout_of(settings->model), assign.world_size, assign.rank);
  if (!placement) {
    const bool memory = placement.error().code == std::errc::not_enough_memory;
    return trouble(memory ? FailingCategory::out_of_memory : FailingCategory::config_error,
                   placement.error().text());
  }
  set_threads(settings->threads);
  if (const auto used = use_device(settings->device, assign.local_rank); !used) {
    return device_trouble(used.error());
  }
  try {
    return std::unique_ptr<Member>(
        new Member(assigned, *settings, std::move(*data), std::move(*placement)));
  } catch (const std::exception& error) {  // the first memory of a device
    return device_trouble({std::make_error_code(std::errc::io_error),
                           "making the model: " + first_line(error.what())});
  }
}

Member::Member(const Assigned& assigned, TrainerSettings settings, TrainingData data,
               Placement placement)
    : assigned_(assigned),
      settings_(std::move(settings)),
      data_(std::move(data)),
      placement_(std::move(placement)),
      order_(settings_, data_.tokens().size()),
      state_(placement_.kept().count),
      model_(make_model(settings_, placement_.whole(),
                        placement_.model_values(state_.values.values()))) {}

tl::expected<void, Member::Trouble> Member::connect(comm::MeshListener& listener,
                                                    std::shared_ptr<comm::AbortFlag> abort) {
  const auto& assign = assigned_.assign;
  auto token = comm::token_from_hex(assign.token);
  if (!token) return trouble(FailingCategory::config_error, "the assignment's token is no token");
  comm::MeshSettings mesh;
  mesh.rank = assign.rank;
  mesh.world_size = assign.world_size;
  for (const auto& endpoint : assign.endpoints) {
    mesh.endpoints.push_back({endpoint.rank, endpoint.address, endpoint.port});
  }
  mesh.token = std::move(*token);
  mesh.generation = assigned_.generation;
  mesh.group = assign.group;
  mesh.connect_limit = kConnectLimit;
  mesh.check_collectives = settings_.check_collectives;
  mesh.connections = settings_.connections;
  abort_ = std::move(abort);
  auto connected = comm::connect_mesh(listener, mesh, abort_);
  if (!connected) return tl::unexpected<Trouble>(connected.error());
  communicator_ = std::move(*connected);
  return settings_.strategy == Strategy::hsdp ? form_copies() : tl::expected<void, Trouble>();
}

tl::expected<void, Member::Trouble> Member::form_copies() {
  const auto& sharing = placement_.sharing();
  comm::Scalars sizes;
  sizes.any_flags = sizes.all_flags = sharing.shard_size;
  const auto all = communicator_->all_reduce_scalars(sizes);
  if (!all) return tl::unexpected<Trouble>(all.error());
  if (all->any_flags != all->all_flags) {
    return trouble(FailingCategory::config_error,
                   "the hosts have different numbers of ranks, so that they cannot keep a copy "
                   "each; set [trainer] shard_size, or the same `workers` for all hosts");
  }
  groups_ = split_into_copies(*communicator_, sharing);
  return {};
}

/// This rank's part of the ids, so that all ranks together look at all of them. A run that goes on
/// has had it: its data are the same, by their hash.
Result<void> Member::check_ids() const {
  const auto& tokens = data_.tokens();
  const std::uint64_t ranks = assigned_.assign.world_size;
  const std::uint64_t rank = assigned_.assign.rank.value;
  const auto first = tokens.size() / ranks * rank;
  const auto end = rank + 1 == ranks ? tokens.size() : tokens.size() / ranks * (rank + 1);
  return data_.check_ids(settings_.model.vocabulary, first, end - first);
}

std::string Member::numerics() const {
  const auto& device = device_name();
  return numeric_library() + ", " + (device.empty() ? "" : device + ", ") + processor_name() +
         ", " + std::to_string(settings_.threads) +
         (settings_.threads == 1 ? " thread" : " threads");
}

tl::expected<void, Member::Trouble> Member::restore(CheckpointSaver::Written written,
                                                    KnownData& known) {
  const auto& assign = assigned_.assign;
  const bool writes_manifest = assign.rank.value == 0;
  const auto& file = data_.file();
  checkpoint::ManifestData data{file.bytes().size(), {}};
  if (writes_manifest) {
    if (known.hash.empty() || known.marks != file.marks()) {
      known = {file.marks(), content_hash(file.bytes())};
    }
    data.hash = known.hash;
  }
  if (!assign.restore) {
    if (const auto good = check_ids(); !good) return data_trouble(good.error());
    if (auto made = make_first_values(); !made) return made;
  } else {
    const auto loaded = checkpoint::load_checkpoint(assign.restore->directory,
                                                    destinations_in(placement_.kept(), state_));
    if (!loaded) {
      return trouble(checkpoint::is_damage(loaded.error()) ? FailingCategory::checkpoint_damaged
                                                           : FailingCategory::storage,
                     loaded.error().text());
    }
    if (loaded->manifest.step != assign.restore->step) {
      return trouble(FailingCategory::checkpoint_damaged,
                     assign.restore->directory + " holds step " +
                         std::to_string(loaded->manifest.step.value) + ", not " +
                         std::to_string(assign.restore->step.value));
    }
    if (writes_manifest && loaded->manifest.data != data) {
      return trouble(FailingCategory::config_error,
                     data_.path() + " is not the " + (data_.format() == "text" ? "text" : "file") +
                         " that " + assign.restore->directory + " was trained on");
    }
    state_.step = assign.restore->step.value;
    const auto& before = loaded->manifest.numerics;
    if (!before.empty() && before != numerics()) {
      differs_ = "step " + std::to_string(state_.step) + " was computed with " + before +
                 ", rank " + std::to_string(assign.rank.value) + " goes on with " + numerics() +
                 ": the result may differ in the last bits from that of an undisturbed run";
    }
  }
  checkpoint::SaveRequest request;
  request.directory = assign.checkpoint_directory;
  request.generation = assigned_.generation;
  request.rank = placement_.sharing().part_of(assign.rank);
  request.world_size = assign.world_size;
  request.config = protocol::read_json(assign.trainer);
  request.data = std::move(data);
  request.numerics = numerics();
  std::optional<std::uint64_t> restored;
  if (assign.restore) restored = state_.step;
  saver_ = std::make_unique<CheckpointSaver>(placement_.kept(), std::move(request), restored,
                                             std::move(written));
  return {};
}

tl::expected<void, Member::Trouble> Member::make_first_values() {
  const auto& kept = placement_.kept();
  fill_first_values(kept, settings_.seed, state_.values.values());
  if (settings_.weights.empty()) return {};
  auto wanted = destinations_in(kept, state_);
  std::erase_if(wanted, [](const auto& destination) {
    return destination.spec.name.starts_with(checkpoint::kMomentPrefix) ||
           destination.spec.name.starts_with(checkpoint::kSecondMomentPrefix);
  });
  const auto loaded = checkpoint::load_weights(settings_.weights, wanted);
  if (!loaded) return data_trouble(loaded.error());
  return {};
}

Outcome Member::train(Mailbox& mailbox, Observer& observer) {
  Training training{
      settings_,           placement_, order_,  data_.tokens(), state_,   *model_,
      *communicator_,      *abort_,    mailbox, *saver_,        observer, groups_.copy.get(),
      groups_.copies.get()};
  return trainer::train(training);
}

Outcome Member::stop(bool with_checkpoint) {
  Result<void> saved;
  if (with_checkpoint && saver_->newest() != state_.step) saved = saver_->start(state_);
  if (saved) saved = saver_->finish();
  if (!saved) return Failed{FailingCategory::storage, saved.error().text()};
  return Finished{state_.step};
}

comm::TreeNode Member::micro_batches() const {
  const auto& assign = assigned_.assign;
  return comm::micro_batches_of_rank(settings_.logical_batches, assign.world_size, assign.rank);
}

void Member::abandon_model() { static_cast<void>(model_.release()); }

double Member::flops_per_step() const {
  const auto tokens =
      std::uint64_t{micro_batches().count} * settings_.micro_batch * settings_.model.context;
  return static_cast<double>(tokens) * model_->flops_per_token();
}

std::string Member::sentence() const {
  const auto& assign = assigned_.assign;
  const auto mine = micro_batches();
  std::size_t parameters = 0;
  for (const auto& parameter : placement_.whole().parameters) parameters += parameter.count;
  return "rank " + std::to_string(assign.rank.value) + " of " + std::to_string(assign.world_size) +
         ": micro-batches " + std::to_string(mine.first) + " to " +
         std::to_string(mine.first + mine.count - 1) + " of " +
         std::to_string(settings_.logical_batches) + ", " + std::to_string(parameters) +
         " parameters, " + std::to_string(data_.tokens().size()) + " tokens (" + data_.format() +
         "), " + numeric_library() + (device_sentence().empty() ? "" : ", " + device_sentence());
}

}  // namespace dlaunch::trainer
