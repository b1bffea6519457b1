#include "phalanx/rank/rank_states.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/families/family.h"
#include "phalanx/settings/config_views.h"
#include "phalanx/settings/trained_parameters.h"

namespace phalanx {
namespace {

std::int64_t reduction_bucket_size(const LayoutConfig& layout) {
  if (layout.ddp_bucket_size > 0) return layout.ddp_bucket_size;
  return layout.overlap_grad_reduce
             ? default_bucket_size(static_cast<int>(data_and_context_size(layout)))
             : 0;
}

std::shared_ptr<const WholeModel> whole_model(const TrainConfig& config, const Model& model,
                                              const Placement& placement,
                                              const RankCommunicators& ranks, WholeModels* known) {
  const ExpertParallel experts = ranks.expert_parallel();
  const auto make = [&] {
    const auto with_all_experts = model.placed(
        {.tensor_rank = ranks.coordinates.tensor,
         .experts = {.tensor_rank = experts.tensor_rank, .tensor_size = experts.tensor_size}});
    auto made = std::make_shared<const WholeModel>(
        *with_all_experts, placement, model_stages(config, placement), frozen_parameters(config));
    check_trained_parameters(config.optimizer, made->table);
    return made;
  };
  if (known == nullptr) return make();
  std::shared_ptr<const WholeModel>& whole =
      (*known)[{ranks.coordinates.tensor, experts.tensor_rank}];
  if (!whole) whole = make();
  return whole;
}

}  // namespace

RankStates::RankStates(const TrainConfig& config, const Model& model, const StepPrograms& programs,
                       const RankCommunicators& ranks,
                       const std::vector<std::int64_t>& tokens_per_step, Context& context,
                       RankArenas& arenas, WholeModels* whole_models)
    : config_(config),
      ranks_(ranks),
      model_(model, programs.placement(),
             whole_model(config, model, programs.placement(), ranks, whole_models),
             ranks.coordinates.pipeline) {
  for (const SharedParameter& parameter : model_.whole->shared) {
    shared_.push_back(ranks.pipeline_group(parameter.holders, parameter.shared_by));
  }
  box_holders_ = ranks.tensor_neighbours(model_.whole->most_holders, "kv");
  const LayoutConfig& layout = config.layout;
  if (layout.num_distributed_optimizer_instances > 1) {
    sharding_ = ranks.sharding(static_cast<int>(layout.num_distributed_optimizer_instances));
  }
  StateLayout states(model_.table, model_.places, state_cut());
  const StateFiles files = open_files(states, model.transformer().dtype, arenas);
  activations_ = open_storage(layout.offload_activations_to, arenas);
  parameters_ = std::make_unique<ParameterStore>(std::move(states), arenas["parameters"],
                                                 arenas["main_parameters"], files);
  constants_ = nn::Constants(model_.table.constants(), context, arenas["constants"]);
  gradients_ = std::make_unique<GradientStore>(
      parameters_->states(),
      shared_sums(model_.table, model_.whole->shared, ranks.coordinates.pipeline),
      nn::full_precision(model.transformer().dtype), tokens_per_step, arenas["gradients"], files);
  data_parallel_ = std::make_unique<DataParallel>(
      *parameters_, *gradients_, gradient_uses(), reduction_groups(),
      TensorRegion(model.transformer().tensor, ranks.tensor.get()),
      DataParallelOptions{.overlap_grad_reduce = layout.overlap_grad_reduce,
                          .overlap_param_gather = layout.overlap_param_gather},
      arenas["communication"], unit_orders());
  if (parameters_->states().cuts_weights()) {
    gathers_ = std::make_unique<WeightGathers>(
        *parameters_, unit_orders(), shard_groups(),
        GatherOptions{.prefetch = static_cast<int>(layout.zero_prefetch_depth),
                      .reshard_after_forward = !layout.no_zero_reshard_after_forward});
  }
  const bool is_stage_alone = is_asynchronous(layout);
  const nn::ExpertSettings& experts = model.transformer().experts;
  // These tensors live as long as the run, so they lie at the bottom of the workspace.
  numbers_ = std::make_unique<StepNumbers>(
      StepNumbers::Sizes{.losses = std::ssize(model.losses()),
                         .auxiliary_losses = std::ssize(model.auxiliary_losses()),
                         .updates = programs.most_updates(),
                         .full = nn::full_precision(model.transformer().dtype),
                         .routers = std::ssize(model_.whole->table.routers()),
                         .experts = experts.experts,
                         .expert_bias = experts.bias,
                         .counts_zeros = config.optimizer.log_num_zeros_in_grad,
                         .parameters_norm = config.optimizer.log_params_norm},
      arenas["workspace"]);
  routers_ = std::make_unique<RouterStates>(model_, experts, *parameters_, *numbers_, ranks,
                                            arenas["workspace"]);
  optimizer_ = std::make_unique<Optimizer>(
      *parameters_, *gradients_, optimizer_settings(config.optimizer),
      OptimizerGroups{.data = shard_groups(),
                      .model = is_stage_alone ? ranks.stage_of_domains() : ranks.model_of_domains(),
                      .is_stage_alone = is_stage_alone},
      arenas["optimizer"], arenas["workspace"], files, numbers_->of_optimizer());
  optimizer_->prepare(context);
}

std::int64_t RankStates::file_bytes() const {
  std::vector<const TileFile*> files = {parameters_->weight_file()};
  const auto add = [&](const StateColumn* column) {
    if (column != nullptr) files.push_back(column->file());
  };
  add(parameters_->accesses(true, false)[0].column);
  add(gradients_->access(true, false).column);
  for (const std::string_view name : optimizer_->state_names()) add(&optimizer_->state(name));
  std::int64_t bytes = 0;
  for (const TileFile* file : files) bytes += file != nullptr ? file->bytes() : 0;
  return bytes;
}

void RankStates::time_with(StepTimers* timers) const {
  data_parallel_->time_with(timers);
  optimizer_->time_with(timers);
  for (const auto& [directory, storage] : storages_) storage->time_with(timers);
}

Storage* RankStates::open_storage(const std::string& directory, RankArenas& arenas) {
  if (directory.empty()) return nullptr;
  if (arenas["parameters"].space() == MemorySpace::kDevice) {
    throw ConfigError(
        "{}: states in files come through memory of the host, and this run computes on a device: "
        "leave out --offload-optimizer-to, --offload-parameters-to and --offload-activations-to",
        directory);
  }
  std::unique_ptr<TimedStorage>& storage = storages_[directory];
  if (storage) return storage.get();
  StorageOptions options{.block_bytes = config_.layout.aio_block_size,
                         .queue_depth = static_cast<int>(config_.layout.aio_queue_depth)};
  if (staging_) options.staging.push_back(staging_->memory());
  if (arenas["staging"].space() == MemorySpace::kNone) {
    storage = std::make_unique<TimedStorage>(make_meta_storage(options, arenas["staging"]));
  } else {
    PHALANX_CHECK(arenas.folders.contains(directory), "{} was not opened", directory);
    storage = std::make_unique<TimedStorage>(
        make_disk_storage(*arenas.folders.at(directory), options, arenas["staging"]));
  }
  return storage.get();
}

StateFiles RankStates::open_files(const StateLayout& layout, DType storage, RankArenas& arenas) {
  if (!layout.has_files()) return {};
  const LayoutConfig& flags = config_.layout;
  const DType full = nn::full_precision(storage);
  // What an update needs for every element that lies in a file.
  std::int64_t bytes = 0;
  std::size_t tensors = 0;
  const auto add = [&](DType dtype) {
    bytes += size_of(dtype);
    ++tensors;
  };
  if (!flags.offload_optimizer_to.empty()) {
    if (storage != full) add(full);
    if (layout.cuts_gradients()) add(full);
    for (std::size_t i = 0; i < state_names(optimizer_settings(config_.optimizer).rule).size(); ++i)
      add(full);
  }
  if (!flags.offload_parameters_to.empty()) add(storage);
  staging_ = std::make_unique<TileStaging>(layout.largest_tile_in_file(), bytes, tensors,
                                           arenas["staging"]);
  return {.states = open_storage(flags.offload_optimizer_to, arenas),
          .weights = open_storage(flags.offload_parameters_to, arenas),
          .staging = staging_.get()};
}

PerDomain<Communicator*> RankStates::shard_groups() const {
  if (!config_.layout.use_distributed_optimizer) return {};
  if (config_.layout.num_distributed_optimizer_instances == 1) return ranks_.data_of_domains();
  Communicator* const dense = sharding_.dense.shards.get();
  return {dense, has_expert_grid(config_.layout) ? sharding_.expert.shards.get() : dense};
}

PerDomain<Communicator*> RankStates::replicas() const {
  Communicator* const dense = sharding_.dense.replicas.get();
  return {dense, has_expert_grid(config_.layout) ? sharding_.expert.replicas.get() : dense};
}

ReductionGroups RankStates::reduction_groups() const {
  const PerDomain<Communicator*> shards = shard_groups();
  const PerDomain<Communicator*> all = ranks_.data_of_domains();
  ReductionGroups groups{.box_holders = box_holders_.get()};
  for (const ReductionDomain domain : kReductionDomains) {
    const bool is_sharded = shards[domain] != nullptr;
    groups.data[domain] = is_sharded ? shards[domain] : all[domain];
    // A domain that is not cut may have copies too: where gradients are cut they are summed last.
    if (is_sharded || parameters_->states().cuts_gradients()) {
      groups.replicas[domain] = replicas()[domain];
    }
  }
  for (const auto& holders : shared_) groups.shared.push_back(holders.get());
  return groups;
}

PerDomain<DomainCut> RankStates::domain_cuts() const {
  const PerDomain<Communicator*> shards = shard_groups();
  const PerDomain<Communicator*> all = ranks_.data_of_domains();
  PerDomain<DomainCut> cuts = {
      .dense = {.first_tensor_rank = ranks_.coordinates.tensor == 0},
      .expert = {.first_tensor_rank = ranks_.expert_coordinates.tensor == 0}};
  for (const ReductionDomain domain : kReductionDomains) {
    DomainCut& cut = cuts[domain];
    if (all[domain] != nullptr) {
      cut.replica = all[domain]->rank();
      cut.replicas = all[domain]->size();
    }
    if (shards[domain] == nullptr) continue;
    cut.rank = shards[domain]->rank();
    cut.ranks = shards[domain]->size();
    cut.replica /= cut.ranks;
    cut.replicas /= cut.ranks;
  }
  return cuts;
}

StateCut RankStates::state_cut() const {
  const LayoutConfig& layout = config_.layout;
  StateCut cut{.domains = domain_cuts(), .bucket_size = reduction_bucket_size(layout)};
  // Where every rank has its own copy nothing is shared, but a file may still hold the weights.
  const bool is_alone = shard_groups().dense == nullptr && ranks_.data != nullptr;
  cut.gradients = layout.zero_stage >= 2 && !layout.zero_accumulate_unsharded && !is_alone;
  cut.weights = layout.zero_stage == 3 && (!is_alone || !layout.offload_parameters_to.empty());
  if (!layout.offload_optimizer_to.empty()) cut.states_in_files = layout.offload_fraction;
  cut.weights_in_files = !layout.offload_parameters_to.empty();
  if (!cut.gradients && !cut.weights) return cut;
  std::vector<UnitList> chunks;
  for (const Chunk& chunk : model_.chunks) chunks.emplace_back(chunk.units());
  const std::int64_t small = cut.weights ? layout.zero_persistence_threshold : -1;
  cut.groups = unit_groups(model_.table, chunks, [&](const ParamSpec& spec) {
    // Gradients with a second sum, over another group of ranks, are summed in memory.
    const bool sums_again = spec.summed_over.has(Axis::kTensor) || common_count(spec) > 0;
    return spec.local_shape.count() <= small ||
           (cut.gradients && cut.states_in_files > 0.0 && sums_again);
  });
  // All parameters of a unit are one message, unless --ddp-bucket-size is given.
  cut.bucket_size = layout.ddp_bucket_size;
  return cut;
}

std::vector<UnitOrder> RankStates::unit_orders() const {
  std::vector<UnitOrder> orders;
  for (const Chunk& chunk : model_.chunks) {
    std::vector<int> recomputed_until;
    for (int u = 0; u < chunk.num_units(); ++u) {
      recomputed_until.push_back(chunk.recomputed_until(u));
    }
    orders.push_back(unit_order(chunk.units(), recomputed_until, parameters_->states().groups(),
                                chunk.first_backward()));
  }
  return orders;
}

std::vector<int> RankStates::gradient_uses() const {
  std::vector<int> uses(model_.table.specs().size(), 0);
  for (const Chunk& chunk : model_.chunks) {
    for (const auto& unit : chunk.units()) {
      for (const ParamId id : unit->parameters()) ++uses[static_cast<std::size_t>(id)];
    }
  }
  return uses;
}

std::vector<ChunkTables> RankStates::tables() const {
  std::vector<ChunkTables> tables;
  for (const Chunk& chunk : model_.chunks) {
    ChunkTables& of_chunk = tables.emplace_back(ChunkTables{
        &chunk, gathers_ ? gathers_->weights() : parameters_->weights(), gradients_->gradients()});
    if (gathers_) of_chunk.states.push_back(gathers_.get());
    if (parameters_->states().cuts_gradients()) of_chunk.states.push_back(data_parallel_.get());
  }
  return tables;
}

nn::HooksInTurn RankStates::hooks(std::initializer_list<nn::UnitHooks*> last_hooks) const {
  std::vector<nn::UnitHooks*> hooks;
  if (gathers_) hooks.push_back(gathers_.get());
  hooks.push_back(data_parallel_.get());
  std::ranges::copy_if(last_hooks, std::back_inserter(hooks),
                       [](const auto* h) { return h != nullptr; });
  return nn::HooksInTurn(std::move(hooks));
}

void RankStates::begin_passes(Context& context, int last_microbatch) const {
  data_parallel_->begin(context, last_microbatch);
  if (gathers_) gathers_->begin(context);
}

void RankStates::observe_with(StateObserver* observer) const {
  data_parallel_->observe_with(observer);
  if (gathers_) gathers_->observe_with(observer);
}

std::vector<std::pair<ParamId, Communicator*>> RankStates::shared_parameters() const {
  std::vector<std::pair<ParamId, Communicator*>> found;
  for (std::size_t p = 0; p < shared_.size(); ++p) {
    const auto& specs = model_.table.specs();
    const auto spec = std::ranges::find(specs, model_.whole->shared[p].name, &ParamSpec::name);
    if (spec == specs.end()) continue;
    found.emplace_back(static_cast<ParamId>(spec - specs.begin()), shared_[p].get());
  }
  return found;
}

void RankStates::draw_weights(Context& context) const {
  parameters_->initialise(context, random_key(static_cast<std::uint64_t>(config_.run.seed),
                                              RandomPurpose::kInitialisation));
}

}  // namespace phalanx
