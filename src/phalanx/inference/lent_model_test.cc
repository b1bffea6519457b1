#include "phalanx/inference/lent_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "phalanx/inference/cached_model.h"
#include "phalanx/inference/inference_model.h"

namespace phalanx {
namespace {

GptConfig tiny() {
  GptConfig config;
  config.vocabulary = 49;
  config.padded_vocabulary = 64;
  config.max_positions = 320;
  nn::TransformerConfig& t = config.transformer;
  t.num_layers = 2;
  t.hidden = 32;
  t.ffn_hidden = 64;
  t.heads = 4;
  t.query_groups = 2;
  t.head_size = 8;
  t.init_deviation = 0.2;
  return config;
}

// A model whose weights can be lent.
struct Lender {
  explicit Lender(const GptConfig& config)
      : model(config, 8),
        backend(DeviceChoice{}.make_backend(1)),
        workspace("workspace", 1 << 20),
        context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = nullptr},
        chunk(model.build_chunk(model.whole(), table)),
        arena("parameters", 1 << 20),
        parameters(StateLayout(table, {.updates = false}), arena, arena) {
    parameters.initialise(context, config.transformer.init_key);
  }

  GptModel model;
  std::unique_ptr<Backend> backend;
  Arena workspace;
  Context context;
  nn::ParamTable table;
  Chunk chunk;
  Arena arena;
  ParameterStore parameters;
};

std::vector<std::int32_t> text(std::size_t length) {
  std::vector<std::int32_t> tokens(length);
  for (std::size_t i = 0; i < length; ++i) tokens[i] = static_cast<std::int32_t>(i * 7 % 48);
  return tokens;
}

TEST(LentModel, HasTheBitsOfAModelWithItsOwnWeights) {
  const GptConfig config = tiny();
  Lender lender(config);
  const std::int64_t bytes = LentModel::bytes(config, 300, DeviceChoice{}, 1);
  Arena memory("answers", bytes);
  LentModel lent(config, 300, DeviceChoice{}, 1,
                 {.backend = *lender.backend,
                  .table = lender.table,
                  .weights = lender.parameters.weights().tensors},
                 memory.allocate(DType::kU8, {bytes}));
  CachedModel::Sizes sizes{.reads = {}, .capacity = 300, .sequences = 1};
  sizes.reads.resize(300);
  std::iota(sizes.reads.begin(), sizes.reads.end(), 1);
  CachedModel own(config, DeviceChoice{}, 1, sizes);
  own.initialise();

  // In pieces, to the last position, and once more from the beginning.
  for (const std::size_t length : {290U, 3U}) {
    const auto tokens = text(length);
    lent.truncate(0, 0);
    own.truncate(0, 0);
    EXPECT_EQ(lent.read(0, tokens), own.read(0, tokens));
    for (std::int32_t token = 0; lent.length(0) < 300 && token < 20; ++token) {
      const SequenceModel::Next next{.sequence = 0, .token = token};
      EXPECT_EQ(lent.step(std::span(&next, 1)), own.step(std::span(&next, 1)));
    }
  }
  // What the lender changes is read: nothing was copied.
  const auto before = lent.read(0, text(2));
  ops::fill(lender.context, {.x = lender.parameters.flat(), .value = 0.0});
  lent.truncate(0, 0);
  const auto after = lent.read(0, text(2));
  EXPECT_NE(before, after);
  EXPECT_TRUE(std::ranges::all_of(after, [](float x) { return x == 0.0F; }));
}

TEST(LentModel, TakesTheWeightsOfItsModelAlone) {
  const GptConfig config = tiny();
  Lender lender(config);
  GptConfig other = config;
  other.transformer.ffn_hidden = 96;
  const std::int64_t bytes = LentModel::bytes(other, 20, DeviceChoice{}, 1);
  Arena memory("answers", bytes);
  const Tensor all = memory.allocate(DType::kU8, {bytes});
  EXPECT_THROW(LentModel(other, 20, DeviceChoice{}, 1,
                         {.backend = *lender.backend,
                          .table = lender.table,
                          .weights = lender.parameters.weights().tensors},
                         all),
               InternalError);
}

}  // namespace
}  // namespace phalanx
