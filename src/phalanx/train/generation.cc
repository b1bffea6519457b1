#include "phalanx/train/generation.h"

#include <algorithm>
#include <set>

#include "phalanx/base/text_batches.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/model/gpt.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/meta/meta_backend.h"
#include "phalanx/train/inference_model.h"

namespace phalanx {

// The model with its cache, on one backend.
struct Generator::Engine {
  Engine(const GptConfig& config, std::unique_ptr<Backend> backend, InferenceArenas arenas,
         std::int64_t capacity)
      : model(GptModel(config, capacity), std::move(backend), std::move(arenas)) {
    const auto& t = config.transformer;
    Arena& arena = model.arenas().cache;
    for (std::int64_t layer = 0; layer < t.num_layers; ++layer) {
      const Shape extents{capacity, 1, t.query_groups, t.head_size};
      cache.keys.push_back(arena.allocate(t.dtype, extents));
      cache.values.push_back(arena.allocate(t.dtype, extents));
    }
    cache.rows = allocate_rows(arena, capacity);
    std::vector<std::int64_t> samples(static_cast<std::size_t>(capacity), 0);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(capacity));
    for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    model.upload(cache.rows.sample, samples);
    model.upload(cache.rows.position, positions);
    model.upload(cache.rows.document, std::vector<std::int32_t>(positions.size(), 0));
  }

  // The logits of the last of `fresh` tokens, which begin at position `begin`.
  void forward(std::span<const std::int32_t> fresh, std::int64_t begin, std::span<float> logits) {
    Arena& workspace = model.arenas().workspace;
    const WorkspaceScope scope(workspace);
    const auto count = static_cast<std::int64_t>(fresh.size());
    const Tensor tokens = workspace.allocate(DType::kI32, {count, 1});
    model.upload(tokens, std::vector<std::int32_t>(fresh.begin(), fresh.end()));
    const BatchSchema schema = gpt_batch_schema(count);
    std::vector<Tensor> columns(schema.columns().size());
    columns[schema.index("tokens")] = tokens;
    columns[schema.index("position_ids")] = cache.rows.position.slice(0, begin, count);
    columns[schema.index("sample")] = cache.rows.sample.slice(0, begin, count);
    columns[schema.index("position")] = cache.rows.position.slice(0, begin, count);
    columns[schema.index("document")] = cache.rows.document.slice(0, begin, count);
    const nn::Batch batch = bind_batch(schema, std::move(columns));
    cache.length = begin;
    const Tensor last = workspace.allocate(DType::kF32, {1, model.padded_vocabulary()});
    model.infer(batch, {.cache = &cache, .logits = last});
    model.read_back(last.slice(1, 0, static_cast<std::int64_t>(logits.size())), logits);
  }

  InferenceModel model;
  nn::KeyValueCache cache;
};

Generator::Generator(const TrainConfig& config, const GptConfig& model,
                     const CheckpointReader& checkpoint, cpu::ProductPrecision products,
                     std::span<const std::int64_t> prompt_lengths, std::int64_t capacity,
                     std::string_view remedy)
    : vocabulary_(model.vocabulary), capacity_(std::min(capacity, model.max_positions)) {
  const auto threads = static_cast<int>(config.layout.threads_per_rank);
  Engine rehearsal(model, make_meta_backend(threads, products), InferenceArenas::planning(),
                   capacity_);
  // The prompts, and one token with a full cache.
  std::vector<float> none(static_cast<std::size_t>(vocabulary_));
  for (const std::int64_t length : std::set(prompt_lengths.begin(), prompt_lengths.end())) {
    PHALANX_CHECK(length > 0 && length <= capacity_, "a generator for {} tokens in {} positions",
                  length, capacity_);
    rehearsal.forward(std::vector<std::int32_t>(static_cast<std::size_t>(length), 0), 0, none);
  }
  rehearsal.forward(std::vector<std::int32_t>(1, 0), capacity_ - 1, none);

  expect_room(config, rehearsal.model.arenas(), remedy);
  engine_ = std::make_unique<Engine>(model, make_cpu_backend(threads, products),
                                     rehearsal.model.arenas().sized(), capacity_);
  engine_->model.load(checkpoint);
}

Generator::~Generator() = default;

std::vector<float> Generator::logits(std::span<const std::int32_t> tokens, std::int64_t begin) {
  PHALANX_CHECK(begin < static_cast<std::int64_t>(tokens.size()) &&
                    static_cast<std::int64_t>(tokens.size()) <= capacity_,
                "tokens [{}, {}) of {} positions", begin, tokens.size(), capacity_);
  std::vector<float> result(static_cast<std::size_t>(vocabulary_));
  engine_->forward(tokens.subspan(static_cast<std::size_t>(begin)), begin, result);
  return result;
}

void Generator::generate(std::span<const std::int32_t> prompt, std::int64_t count,
                         const SamplingOptions& options,
                         const std::function<bool(std::int32_t)>& on_token) {
  std::vector<std::int32_t> tokens(prompt.begin(), prompt.end());
  std::int64_t cached = 0;
  for (std::int64_t i = 0; i < count && static_cast<std::int64_t>(tokens.size()) <= capacity_;
       ++i) {
    const auto next = sample_token(logits(tokens, cached), options, tokens.size());
    cached = static_cast<std::int64_t>(tokens.size());
    tokens.push_back(next);
    if (!on_token(next)) return;
  }
}

}  // namespace phalanx
