#include "phalanx/inference/inference_model.h"

#include "phalanx/base/threads.h"
#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/ops/elementwise.h"
#include "phalanx/pipeline/saved_plan.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"
#include "phalanx/rank/batch_memory.h"
#include "phalanx/rehearsal/memory_check.h"

namespace phalanx {

std::int64_t InferenceArenas::bytes() const {
  return parameters.high_water() + constants.high_water() + cache.high_water() +
         transient.high_water() + workspace.high_water();
}

InferenceResources InferenceResources::planning(int threads, const DeviceChoice& device) {
  return {nullptr,
          device.make_planning_backend(threads),
          {Arena::planning("parameters"), Arena::planning("constants"),
           Arena::planning("key/value cache"), Arena::planning("transient"),
           Arena::planning("workspace")},
          {}};
}

InferenceResources InferenceResources::allocate(int threads, const DeviceChoice& device,
                                                const InferenceArenas& planned) {
  std::unique_ptr<ArenaMemory> own = device.make_memory();
  ArenaMemory& memory = own ? *own : host_memory();
  const auto like = [&](const Arena& arena) {
    return Arena(arena.name(), arena.high_water(), memory);
  };
  return {std::move(own),
          device.make_backend(threads),
          {like(planned.parameters), like(planned.constants), like(planned.cache),
           like(planned.transient), like(planned.workspace)},
          {}};
}

namespace {

void check_lent(const nn::ParamTable& own, const nn::ParamTable& lent) {
  PHALANX_CHECK(own.size() == lent.size(), "{} parameters are lent to a model of {}", lent.size(),
                own.size());
  for (ParamId id = 0; id < own.size(); ++id) {
    PHALANX_CHECK(own[id].name == lent[id].name && own[id].dtype == lent[id].dtype &&
                      own[id].local_shape == lent[id].local_shape,
                  "{} {} is lent as {} {}", lent[id].name, lent[id].local_shape.to_string(),
                  own[id].name, own[id].local_shape.to_string());
  }
}

}  // namespace

InferenceModel::InferenceModel(const Model& model, InferenceResources resources,
                               Communicator* group)
    : memory_(std::move(resources.memory)),
      own_backend_(std::move(resources.backend)),
      backend_(own_backend_ ? own_backend_.get() : resources.lent.backend),
      arenas_(std::move(resources.arenas)),
      context_{
          .backend = *backend_, .workspace = arenas_.workspace, .queue = {}, .recorder = nullptr},
      region_(model.transformer().tensor, group),
      chunk_(model.build_chunk(model.whole(), table_)),
      constants_(table_.constants(), context_, arenas_.constants),
      padded_vocabulary_(model.vocabulary().padded) {
  if (resources.lent.table == nullptr) {
    own_parameters_.emplace(StateLayout(table_, {.updates = false}), arenas_.parameters,
                            arenas_.parameters);
    weights_ = own_parameters_->weights();
    return;
  }
  check_lent(table_, *resources.lent.table);
  weights_ = {resources.lent.weights};
}

void InferenceModel::load(const CheckpointReader& checkpoint) {
  own_parameters_->clear(context_);
  BackendPieces pieces(context_);
  for (ParamId id = 0; id < table_.size(); ++id) {
    GlobalTensor weight = global_tensor(table_[id], own_parameters_->weight(id));
    weight.memory = &pieces;
    checkpoint.read(weight, DTypeMatch::kConvert);
  }
}

void InferenceModel::initialise(PhiloxKey key) { own_parameters_->initialise(context_, key); }

std::vector<Tensor> InferenceModel::place(const nn::BatchShapes& shapes) {
  const std::vector<std::vector<SavedTensor>> blocks = {chunk_.saved_tensors(shapes, true)};
  const SavedPlan plan(forward_only(1), blocks);
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < blocks[0].size(); ++i) {
    const SavedTensor& block = blocks[0][i];
    // A tensor that is carried past units keeps its place.
    const std::size_t own = block.same_as < 0 ? i : static_cast<std::size_t>(block.same_as);
    tensors.push_back(arenas_.transient.place(plan.offsets(0, 0)[own], block.dtype, block.shape));
  }
  return tensors;
}

Tensors InferenceModel::placed(const nn::BatchShapes& shapes) {
  const nn::BatchShape& first = shapes.of[0];
  if (first.sequence != 1 || shapes.of[1].sequence != 0) return last_ = place(shapes);
  const auto found = steps_.find(first.micro_batch);
  if (found != steps_.end()) return found->second;
  return steps_.emplace(first.micro_batch, place(shapes)).first->second;
}

void InferenceModel::infer(const nn::Batch& batch, const Results& results) {
  nn::BatchShapes shapes;
  for (std::size_t i = 0; i < batch.rows.size(); ++i) {
    const Tensor& position = batch.rows[i].position;
    if (position) shapes.of[i] = {.sequence = position.shape[0], .micro_batch = position.shape[1]};
  }
  nn::Pass pass{.ops = context_,
                .weights = weights_,
                .batch = batch,
                .shapes = shapes,
                .region = region_,
                .training = false,
                .loss_settings = {},
                .losses = results.losses,
                .constants = constants_.tensors()};
  nn::InferencePass inference{.pass = pass,
                              .caches = results.caches,
                              .logits = results.logits,
                              .row_losses = results.row_losses};
  chunk_.infer(inference, placed(shapes));
}

InferenceModel::Answer InferenceModel::answer(const HostBatch& batch, const Request& request) {
  Arena& workspace = arenas_.workspace;
  const WorkspaceScope scope(workspace);
  const BatchMemory memory(batch.schema(), {}, batch.samples(), 1, workspace);
  memory.upload(context_, 0, batch);
  Results results;
  // The head adds each loss to a sum, which is not read.
  std::vector<nn::LossTerm> terms;
  if (request.losses > 0) {
    const Tensor sums = workspace.allocate(DType::kF64, {2 * request.losses});
    ops::fill(context_, {.x = sums, .value = 0.0});
    for (std::int64_t i = 0; i < request.losses; ++i) {
      terms.push_back({.sum = sums.slice(0, 2 * i, 1), .count = sums.slice(0, 2 * i + 1, 1)});
    }
    results.losses = terms;
  }
  if (request.row_losses > 0) {
    results.row_losses = workspace.allocate(DType::kF32, {request.row_losses});
  }
  if (request.logits.rank() > 0) results.logits = workspace.allocate(DType::kF32, request.logits);
  infer(memory[0], results);
  Answer answer;
  const auto read = [&](const Tensor& tensor, std::vector<float>& values) {
    if (!tensor) return;
    values.resize(static_cast<std::size_t>(tensor.count()));
    read_back(tensor, std::span(values));
  };
  read(results.row_losses, answer.row_losses);
  read(results.logits, answer.logits);
  return answer;
}

RowCoordinates allocate_rows(Arena& arena, std::int64_t rows) {
  return {.sample = arena.allocate(DType::kI64, {rows, 1}),
          .position = arena.allocate(DType::kI32, {rows, 1}),
          .document = arena.allocate(DType::kI32, {rows, 1})};
}

std::unique_ptr<InferenceModel> load_rehearsed(
    const TrainConfig& config, const Model& model, const CheckpointReader& checkpoint,
    const DeviceChoice& device, std::string_view remedy,
    const std::function<void(InferenceModel&)>& rehearse) {
  const auto threads = static_cast<int>(config.layout.threads_per_rank);
  InferenceModel rehearsal(model, InferenceResources::planning(threads, device));
  rehearse(rehearsal);
  const InferenceArenas& planned = rehearsal.arenas();
  check_memory(config.run.allow_overcommit, planned.bytes(), device, remedy);
  expect_threads(threads - 1);
  auto loaded = std::make_unique<InferenceModel>(
      model, InferenceResources::allocate(threads, device, planned));
  loaded->load(checkpoint);
  return loaded;
}

}  // namespace phalanx
