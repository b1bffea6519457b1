#include "phalanx/data_parallel/parameter_store.h"

#include <gtest/gtest.h>

#include "phalanx/data_parallel/test_support.h"
#include "phalanx/nn/embedding.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using nn::values_of;

constexpr Initialiser kNormal{Initialiser::Kind::kNormal, 0.5};

class Stores : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_ref_backend();
  Arena memory_{"memory", 4 << 20};
  Arena workspace_{"workspace", 1 << 20};
  Context context_{.backend = *backend_, .workspace = workspace_};
  PhiloxKey key_ = random_key(5, RandomPurpose::kInitialisation);
};

TEST_F(Stores, OneStorageType) {
  nn::ParamTable table;
  table.add(whole_parameter("a", {2}, DType::kF32, {}));
  table.add(whole_parameter("b", {2}, DType::kBF16, {}));
  EXPECT_THROW(ParameterStore(StateLayout(table), memory_, memory_), InternalError);
}

TEST_F(Stores, FullPrecisionParametersAreTheirOwnMainParameters) {
  nn::ParamTable table;
  table.add(whole_parameter("a", {3, 4}, DType::kF32, kNormal));
  const ParameterStore store(StateLayout(table), memory_, memory_);
  EXPECT_FALSE(store.has_main_parameters());
  EXPECT_EQ(store.main(0).data(), store.weight(0).data());
}

TEST_F(Stores, StorageIsTheRoundedMainParameter) {
  nn::ParamTable table;
  table.add(whole_parameter("a", {3, 4}, DType::kBF16, kNormal));
  table.add(whole_parameter("b", {5}, DType::kBF16, {Initialiser::Kind::kConstant, 1.0}));
  const ParameterStore store(StateLayout(table), memory_, memory_);
  EXPECT_TRUE(store.has_main_parameters());
  store.initialise(context_, key_);
  const auto main = values_of(store.main(0));
  const auto stored = values_of(store.weight(0));
  EXPECT_NE(main, stored);
  for (std::size_t i = 0; i < main.size(); ++i) {
    EXPECT_EQ(stored[i], to_float(to_bfloat16(static_cast<float>(main[i]))));
  }
  EXPECT_EQ(values_of(store.weight(1)), std::vector<double>(5, 1.0));
}

// Initial values depend on the name and the place in the global tensor, not on the number of the
// parameter or its neighbours.
TEST_F(Stores, InitialValuesDependOnNames) {
  nn::ParamTable table;
  table.add(whole_parameter("a", {6, 8}, DType::kF64, kNormal));
  table.add(whole_parameter("b", {6, 8}, DType::kF64, kNormal));
  const ParameterStore store(StateLayout(table), memory_, memory_);
  store.initialise(context_, key_);
  nn::ParamTable swapped;
  swapped.add(whole_parameter("b", {6, 8}, DType::kF64, kNormal));
  swapped.add(whole_parameter("c", {3}, DType::kF64, {}));
  swapped.add(whole_parameter("a", {6, 8}, DType::kF64, kNormal));
  const ParameterStore other(StateLayout(swapped), memory_, memory_);
  other.initialise(context_, key_);
  EXPECT_EQ(values_of(store.main(0)), values_of(other.main(2)));
  EXPECT_EQ(values_of(store.main(1)), values_of(other.main(0)));
  EXPECT_NE(values_of(store.main(0)), values_of(store.main(1)));
  other.initialise(context_, random_key(6, RandomPurpose::kInitialisation));
  EXPECT_NE(values_of(store.main(0)), values_of(other.main(2)));
  // Box-Muller of the first block of the parameter's coordinate (base/philox.h).
  const auto block = normal_block(key_, parameter_coordinate("a"), 0);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_DOUBLE_EQ(values_of(store.main(0))[i], 0.5 * block[i]);
}

// A shard of two boxes (as of a fused QKV), cut by rows or columns, has the initial values of its
// part of the whole.
TEST_F(Stores, ACutParameterHasTheValuesOfTheWhole) {
  ParamSpec rows = whole_parameter("a", {6, 8}, DType::kF64, kNormal);
  rows.local_shape = {3, 8};
  rows.boxes = {{.global_row = 1, .local_row = 0, .rows = 1, .columns = 8},
                {.global_row = 4, .local_row = 1, .rows = 2, .columns = 8}};
  ParamSpec columns = whole_parameter("a", {6, 8}, DType::kF64, kNormal);
  columns.local_shape = {6, 5};
  columns.boxes = {{.global_column = 6, .local_column = 0, .rows = 6, .columns = 2},
                   {.global_column = 1, .local_column = 2, .rows = 6, .columns = 3}};
  nn::ParamTable whole_table;
  whole_table.add(whole_parameter("a", {6, 8}, DType::kF64, kNormal));
  const ParameterStore whole(StateLayout(whole_table), memory_, memory_);
  whole.initialise(context_, key_);
  const ref::Array expected = ref::read(whole.main(0));
  for (const ParamSpec& spec : {rows, columns}) {
    nn::ParamTable table;
    table.add(spec);
    const ParameterStore store(StateLayout(table), memory_, memory_);
    store.initialise(context_, key_);
    const ref::Array actual = ref::read(store.main(0));
    for (const ParamBox& box : spec.boxes) {
      for (std::int64_t r = 0; r < box.rows; ++r) {
        for (std::int64_t c = 0; c < box.columns; ++c) {
          EXPECT_EQ(actual(box.local_row + r, box.local_column + c),
                    expected(box.global_row + r, box.global_column + c));
        }
      }
    }
  }
}

TEST_F(Stores, PaddedRowsAreZero) {
  nn::ParamTable table;
  table.add(whole_parameter("a", {5, 4}, DType::kBF16, kNormal, 8));
  const ParameterStore store(StateLayout(table), memory_, memory_);
  ops::fill(context_, {.x = store.main(0), .value = 3.0});
  store.initialise(context_, key_);
  for (const Tensor& tensor : {store.main(0), store.weight(0)}) {
    for (const double value : values_of(tensor.slice(0, 0, 5))) EXPECT_NE(value, 0.0);
    for (const double value : values_of(tensor.slice(0, 5, 3))) EXPECT_EQ(value, 0.0);
  }
}

// A rank's main parameters are its part of the whole, and it has all weights.
TEST_F(Stores, AShardHasTheValuesOfTheWhole) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const StoreRank whole(uneven_table(dtype));
    for (int rank = 0; rank < 3; ++rank) {
      const StoreRank part(uneven_table(dtype),
                           {.domains = {{.rank = rank, .ranks = 3}}, .bucket_size = 20000});
      EXPECT_TRUE(part.parameters.states().is_sharded());
      EXPECT_EQ(part.parameters.has_main_parameters(), dtype == DType::kBF16);
      for (ParamId id = 0; id < part.table.size(); ++id) {
        EXPECT_EQ(values_of(part.parameters.weight(id)), values_of(whole.parameters.weight(id)));
      }
      for (const Segment& segment : part.parameters.states().segments()) {
        const Tensor parameter = whole.parameters.main(segment.id);
        EXPECT_EQ(
            values_of(part.parameters.main(segment)),
            values_of(
                parameter.reshape({parameter.count()}).slice(0, segment.begin, segment.count)));
      }
      if (dtype == DType::kBF16) {
        EXPECT_THROW(part.parameters.main(0), InternalError);
      }
    }
  }
}

constexpr std::int64_t kVocabulary = 13;

// The word table's gradient after two microbatches of an embedding; a head has already added 0.25
// everywhere. For two steps of the same batch; the second starts from a clear store.
std::vector<std::vector<double>> word_gradients(bool tied, Context& context) {
  Arena memory("operands", 4 << 20);
  ops::Operands operands(memory, DType::kF64, context);
  const nn::TransformerConfig config = nn::test_config();
  nn::LayerFixture all;
  const nn::Embedding embedding(all.table, kVocabulary, 16, 5, {.words = tied},
                                nn::kTestEmbeddingColumns, config);
  if (tied) {
    all.table.add_shared(nn::word_table_parameter(kVocabulary, 16, config), {.order = kHeadRole});
  }
  all.allocate(operands, embedding.saved_slots(), kVocabulary);
  const StateLayout states(all.table);
  GradientStore store(states, DType::kF64, 2 * all.shape.rows(), memory);
  store.initialise(context);
  const std::vector<Tensor> dout = {all.stream(operands, config.hidden)};
  std::vector<std::vector<double>> results;
  for (int step = 0; step < 2; ++step) {
    store.clear(context);
    ops::fill(context, {.x = store.gradient(0), .value = 0.25});
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      nn::Pass pass = all.pass(context);
      embedding.backward_input(pass, {}, dout, {}, all.saved());
      embedding.backward_weight(pass, {}, all.saved(), store.gradients());
    }
    store.join_all(context);
    results.push_back(values_of(store.gradient(0)));
  }
  return results;
}

TEST_F(Stores, JoinedTiedEmbeddingIsTheDenseGradient) {
  const auto dense = word_gradients(false, context_);
  const auto joined = word_gradients(true, context_);
  EXPECT_EQ(joined[0], joined[1]);
  double largest = 0.0;
  for (std::size_t i = 0; i < dense[0].size(); ++i) {
    EXPECT_NEAR(joined[0][i], dense[0][i], 1e-13);
    largest = std::max(largest, std::abs(dense[0][i] - 0.25));
  }
  EXPECT_GT(largest, 0.1);
}

// The accumulator holds at most the rows that can occur in a step.
TEST_F(Stores, SparseAccumulatorIsBoundedByTheTokens) {
  nn::ParamTable table;
  nn::TransformerConfig config = nn::test_config();
  const nn::Embedding embedding(table, 1000, 1024, 5, {.words = true}, nn::kTestEmbeddingColumns,
                                config);
  const StateLayout states(table);
  GradientStore few(states, DType::kF64, 10, memory_);
  EXPECT_EQ(few.gradients().roles[0].rows.values.shape, (Shape{10, config.hidden}));
  GradientStore many(states, DType::kF64, 5000, memory_);
  EXPECT_EQ(many.gradients().roles[0].rows.values.shape, (Shape{1024, config.hidden}));
}

}  // namespace
}  // namespace phalanx
