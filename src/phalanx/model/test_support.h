#pragma once
// A tiny GPT with everything its passes are given, for tests.

#include <memory>

#include "phalanx/base/text_batches.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/model/gpt.h"
#include "phalanx/nn/test_support.h"

namespace phalanx {

inline GptConfig test_gpt_config(bool tied) {
  nn::TransformerConfig transformer = nn::test_config();
  transformer.hidden = 6;
  transformer.ffn_hidden = 8;
  transformer.heads = 2;
  transformer.query_groups = tied ? 2 : 1;
  return {.transformer = transformer,
          .vocabulary = 11,
          .padded_vocabulary = 12,
          .max_positions = 7,
          .tied_embedding = tied,
          .recompute = {}};
}

// Four experts in every layer but the second, two for a token, with all losses of routers.
inline GptConfig test_expert_config() {
  using Kind = nn::RouterLoss::Kind;
  GptConfig config = test_gpt_config(true);
  nn::TransformerConfig& transformer = config.transformer;
  transformer = nn::llama_config(transformer);
  transformer.num_layers = 4;
  transformer.experts = {
      .experts = 4,
      .chosen = 2,
      .ffn_hidden = 5,
      .layers = {true, false, true, true},
      .losses = {{Kind::kBalance, 0.5}, {Kind::kSequenceBalance, 0.25}, {Kind::kLogits, 0.125}},
      .shared_ffn_hidden = 6,
      .shared_gate = true};
  return config;
}

// The batch of layers' tests with the columns of a GPT.
inline nn::Batch gpt_test_batch(const nn::Batch& batch) {
  const BatchSchema schema = gpt_batch_schema(1);
  const RowCoordinates& rows = batch.rows[0];
  std::vector<Tensor> columns(schema.columns().size());
  columns[schema.index("sample")] = rows.sample;
  columns[schema.index("loss_mask")] = batch[nn::kTestTargetColumns.loss_mask];
  columns[schema.index("tokens")] = batch[nn::kTestEmbeddingColumns.tokens];
  columns[schema.index("position_ids")] = batch[nn::kTestEmbeddingColumns.position_ids];
  columns[schema.index("labels")] = batch[nn::kTestTargetColumns.labels];
  columns[schema.index("position")] = rows.position;
  columns[schema.index("document")] = rows.document;
  return bind_batch(schema, std::move(columns));
}

// Its parameters, gradients and saved tensors lie in the operands' arena.
struct GptFixture {
  // `group` is null for one rank.
  GptFixture(ops::Operands& operands, const GptConfig& gpt, Communicator* group = nullptr)
      : config(gpt),
        chunk(build_gpt_chunk(gpt, {0, gpt.transformer.num_layers, true, true}, all.table)) {
    const TensorParallel& tensor = gpt.transformer.tensor;
    all.region = TensorRegion(tensor, group);
    if (group != nullptr) all.shape.sequence = 8;
    all.shape.sequence_shards = tensor.sequence_shards();
    all.allocate(operands, {}, config.vocabulary);
    all.batch = gpt_test_batch(all.batch);
    for (const auto& saved : chunk.saved_tensors(all.shape, false)) {
      tensors.push_back(saved.same_as < 0 ? operands.output(saved.dtype, saved.shape)
                                          : tensors[static_cast<std::size_t>(saved.same_as)]);
    }
    all.add_auxiliary(operands, gpt.transformer.experts.losses.size());
  }
  GptFixture(const GptFixture&) = delete;
  GptFixture& operator=(const GptFixture&) = delete;

  void forward(Context& context) {
    nn::Pass pass = all.pass(context);
    chunk.forward(pass, tensors, hooks, 0);
  }
  void backward(Context& context) {
    nn::Pass pass = all.pass(context);
    chunk.backward(pass, tensors, all.gradients, hooks, 0);
  }
  GptConfig config;
  nn::LayerFixture all;
  Chunk chunk;
  std::vector<Tensor> tensors;
  nn::UnitHooks hooks;
};

}  // namespace phalanx
