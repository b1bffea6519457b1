#pragma once
// A tiny GPT with everything its passes are given, for tests.

#include <memory>

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
          .tied_embedding = tied};
}

// Its parameters, gradients and saved blocks lie in the operands' arena.
struct GptFixture {
  GptFixture(ops::Operands& operands, const GptConfig& gpt)
      : config(gpt),
        chunk(build_gpt_chunk(gpt, {0, gpt.transformer.num_layers, true, true}, all.table)) {
    all.allocate(operands, {}, config.vocabulary);
    if (config.tied_embedding) {
      all.gradients.embedding = nn::empty_sparse_gradient(
          operands, config.padded_vocabulary, 2 * all.shape.rows(), config.transformer.hidden);
    }
    for (const auto& block : chunk.saved_blocks(all.shape, false)) {
      blocks.push_back(operands.output(block.dtype, block.shape));
    }
  }
  GptFixture(const GptFixture&) = delete;
  GptFixture& operator=(const GptFixture&) = delete;

  void forward(Context& context) {
    nn::Pass pass = all.pass(context);
    chunk.forward(pass, blocks, hooks, 0);
  }
  void backward(Context& context) {
    nn::Pass pass = all.pass(context);
    chunk.backward(pass, blocks, all.gradients, hooks, 0);
  }
  void join(Context& context) const {
    if (!config.tied_embedding) return;
    const nn::SparseGradient& sparse = all.gradients.embedding;
    ops::sparse_embedding_join(context, {.dtable = all.gradient_tensors[0],
                                         .slots = sparse.slots,
                                         .rows = sparse.rows,
                                         .count = sparse.count,
                                         .values = sparse.values});
  }

  GptConfig config;
  nn::LayerFixture all;
  Chunk chunk;
  std::vector<Tensor> blocks;
  nn::UnitHooks hooks;
};

}  // namespace phalanx
