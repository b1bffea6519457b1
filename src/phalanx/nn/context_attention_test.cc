// Attention whose samples' rows lie on 2 and 4 ranks against the same on one rank, with every way
// of exchange: in double on the reference, in fp32 bit by bit where that is promised, and the
// messages that are sent.

#include "phalanx/nn/context_attention.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/nn/context_rows.h"
#include "phalanx/nn/context_test_support.h"
#include "phalanx/nn/language_model_head.h"
#include "phalanx/ops/cpu/cpu_backend.h"

namespace phalanx::nn {
namespace {

std::unique_ptr<Unit> attention_of_a_context(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<SublayerUnit>(table, config, make_test_attention);
}

std::unique_ptr<Backend> cpu_of_a_context() {
  return make_cpu_backend(1, cpu::ProductPrecision::kFp32);
}

// 8 heads in 4 groups, rotated by the positions of the batch, with dropout.
TransformerConfig context_config() {
  TransformerConfig config = test_config();
  config.heads = 8;
  config.query_groups = 4;
  config.head_size = 4;
  config.rotary = ops::Rotary{.dimensions = 4, .base = 100.0};
  config.position_column = kTestEmbeddingColumns.position_ids;
  config.max_positions = 1024;
  config.causal = true;
  return config;
}

struct Layout {
  std::string name;
  ContextParallel context;
};

std::vector<Layout> layouts_of(int size) {
  std::vector<Layout> layouts;
  const auto add = [&](std::string name, ContextExchange exchange, int inner = 1) {
    layouts.push_back({fmt::format("{} on {} ranks", name, size),
                       {.size = size, .inner = inner, .exchanges = {exchange}}});
  };
  add("ring", ContextExchange::kRing);
  add("gather", ContextExchange::kGather);
  add("heads", ContextExchange::kHeads);
  if (size == 4) add("heads and ring", ContextExchange::kHeadsAndRing, 2);
  return layouts;
}

ContextRun context_run(const TransformerConfig& config) {
  return {.unit = {.make = attention_of_a_context,
                   .config = config,
                   .shape = {.sequence = 16, .micro_batch = 2}}};
}

struct ContextCase {
  std::string name;
  ContextRun run;
  friend void PrintTo(const ContextCase& c, std::ostream* out) { *out << c.name; }
};

// Documents of two samples of 16 rows; the second ends in padding.
std::vector<std::vector<double>> two_samples() {
  return {{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 3},
          {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1}};
}

std::vector<ContextCase> context_cases() {
  std::vector<ContextCase> all;
  const auto add = [&](std::string name, const auto& change) {
    ContextRun run = context_run(context_config());
    change(run, run.unit.config);
    all.push_back({std::move(name), std::move(run)});
  };
  add("plain", [](ContextRun&, TransformerConfig& c) {
    c.attention_dropout = c.hidden_dropout = 0.0;
    c.rotary.reset();
  });
  add("dropout", [](ContextRun&, TransformerConfig& c) { c.attention_dropout = 0.1; });
  add("window", [](ContextRun&, TransformerConfig& c) { c.window = 5; });
  add("documents", [](ContextRun& run, TransformerConfig& c) {
    c.mask_documents = true;
    run.documents = two_samples();
  });
  add("documents_in_a_window", [](ContextRun& run, TransformerConfig& c) {
    c.mask_documents = true;
    c.window = 3;
    run.documents = two_samples();
  });
  // Two ranks or all have the same group.
  add("two_groups", [](ContextRun&, TransformerConfig& c) { c.query_groups = 2; });
  add("one_group", [](ContextRun&, TransformerConfig& c) { c.query_groups = 1; });
  add("head_norms", [](ContextRun&, TransformerConfig& c) { c.qk_norm = true; });
  add("head_norms_of_two_groups", [](ContextRun&, TransformerConfig& c) {
    c.qk_norm = true;
    c.query_groups = 2;
  });
  return all;
}

class ContextLayers : public testing::TestWithParam<ContextCase> {};

TEST_P(ContextLayers, AreTheLayerOfOneRank) {
  ContextRun run = GetParam().run;
  const UnitResult expected = context_result_of(run);
  for (const int size : {2, 4}) {
    for (const Layout& layout : layouts_of(size)) {
      SCOPED_TRACE(layout.name);
      run.unit.config.context = layout.context;
      run.unit.fused_backward = false;
      const UnitResult cut = context_result_of(run);
      expect_near(cut, expected, 1e-12);
      run.unit.fused_backward = true;
      EXPECT_EQ(context_result_of(run), cut) << "fused backward";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, ContextLayers, testing::ValuesIn(context_cases()),
                         [](const auto& instance) { return instance.param.name; });

// Heads are cut by tensor parallelism first. With sequence parallelism the rows outside are cut
// again.
TEST(ContextAttention, IsTensorParallelToo) {
  for (const std::int64_t groups : {4, 1}) {
    ContextRun run = context_run(context_config());
    run.unit.config.query_groups = groups;
    const UnitResult expected = context_result_of(run);
    for (const bool sequence : {false, true}) {
      for (const Layout& layout : layouts_of(2)) {
        SCOPED_TRACE(fmt::format("{}, sequence parallel {}", layout.name, sequence));
        run.unit.config.tensor = {.size = 2, .sequence = sequence};
        run.unit.config.context = layout.context;
        expect_near(context_result_of(run), expected, 1e-12);
      }
    }
  }
}

// Each document is cut for itself, so a rank's rows are many chunks.
TEST(ContextAttention, TakesRowsThatAreAnywhere) {
  ContextRun run = context_run(context_config());
  run.unit.shape.sequence = 24;
  run.unit.config.mask_documents = true;
  run.documents.assign(2, {});
  for (int row = 0; row < 24; ++row) {
    run.documents[0].push_back(row < 8 ? 0 : row < 23 ? 1 : -1);
    run.documents[1].push_back(row < 13 ? 0 : row < 16 ? -1 : 1);
  }
  const UnitResult expected = context_result_of(run);
  run.cut = ContextCut::Kind::kDocuments;
  for (const int size : {2, 4}) {
    for (const Layout& layout : layouts_of(size)) {
      SCOPED_TRACE(layout.name);
      run.unit.config.context = layout.context;
      run.unit.config.context.in_chunks = false;
      expect_near(context_result_of(run), expected, 1e-12);
    }
  }
}

// Each layer has its own way; layer 1 is asked for.
TEST(ContextAttention, IsChosenByLayer) {
  ContextRun run = context_run(context_config());
  run.unit.config.context = {.size = 2,
                             .exchanges = {ContextExchange::kRing, ContextExchange::kGather}};
  const auto ranks = run_context(run);
  const MessageTotals messages = ranks[0].messages();
  EXPECT_TRUE(messages.by_key().contains({"cp", "all_gather"}));
  EXPECT_FALSE(messages.by_key().contains({"cp", "send"}));
}

TEST(ContextAttention, IsCausalAndFused) {
  TransformerConfig config = context_config();
  config.context = layouts_of(2)[0].context;
  const auto build = [](const TransformerConfig& c) {
    ParamTable table;
    attention_of_a_context(table, c);
  };
  EXPECT_NO_THROW(build(config));
  TransformerConfig other = config;
  other.causal = false;
  EXPECT_THROW(build(other), Error);
  other = config;
  other.attention = AttentionKernel::kUnfused;
  EXPECT_THROW(build(other), Error);
  other = config;
  other.context = {.size = 3, .exchanges = {ContextExchange::kHeads}};
  EXPECT_THROW(build(other), Error);
}

// ---- bits

ContextRun fp32_run() {
  ContextRun run = context_run(context_config());
  run.unit.config.dtype = DType::kF32;
  run.unit.config.heads = run.unit.config.query_groups = 4;
  // Several blocks of 256 keys, and rows that end in the middle of one.
  run.unit.shape = {.sequence = 592, .micro_batch = 1};
  run.unit.backend = cpu_of_a_context;
  return run;
}

// A saved tensor [n, b, width] of all ranks as one.
Values whole_saved(const ContextRun& run, const std::vector<ContextRank>& ranks,
                   const std::string& name) {
  std::vector<Values> parts;
  for (const ContextRank& rank : ranks) parts.push_back(rank.saved.at(name));
  return join_rows(run, parts);
}

// Of gradients of fused queries, keys and values those of the queries.
Values query_part(const Values& qkv, const TransformerConfig& config) {
  Values queries;
  const std::int64_t head = config.head_size;
  const std::int64_t group = (config.heads / config.query_groups + 2) * head;
  for (std::int64_t i = 0; i < std::ssize(qkv); ++i) {
    if (i % group < group - 2 * head) queries.push_back(qkv[static_cast<std::size_t>(i)]);
  }
  return queries;
}

// With all keys in the order of the sample a row's bits are those of one rank, and so are those of
// its query's gradient; with whole groups on a rank those of keys and values, too.
TEST(ContextAttention, HasTheBitsOfOneRank) {
  for (const bool documents : {false, true}) {
    ContextRun run = fp32_run();
    run.unit.config.mask_documents = documents;
    run.unit.config.window = documents ? 300 : 0;
    const ContextRun one = on_one_rank(run);
    const auto expected = run_context(one);
    const Values outputs = whole_saved(one, expected, "attention context");
    const Values gradients = whole_saved(one, expected, "qkv gradient");
    for (const int size : {2, 4}) {
      for (const ContextExchange exchange : {ContextExchange::kGather, ContextExchange::kHeads}) {
        SCOPED_TRACE(fmt::format("{} ranks, exchange {}", size, static_cast<int>(exchange)));
        run.unit.config.context = {.size = size, .exchanges = {exchange}};
        const auto ranks = run_context(run);
        EXPECT_EQ(whole_saved(run, ranks, "attention context"), outputs);
        const Values own = whole_saved(run, ranks, "qkv gradient");
        EXPECT_EQ(query_part(own, run.unit.config), query_part(gradients, run.unit.config));
        const bool whole_groups = exchange == ContextExchange::kHeads;
        if (whole_groups) {
          EXPECT_EQ(own, gradients);
        }
        const UnitResult joined = join_context(run, ranks);
        EXPECT_EQ(joined.output, expected[0].ranks.output);
      }
    }
  }
}

// fp32 and 16 bits, whose sums are rounded once.
TEST(ContextAttention, RoundsOnce) {
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::kF32, 2e-6), std::pair(DType::kBF16, 1.5e-2)}) {
    for (const std::int64_t groups : {4, 1}) {
      ContextRun run = context_run(context_config());
      run.unit.shape.sequence = 32;
      run.unit.config.query_groups = groups;
      run.unit.config.dtype = dtype;
      run.unit.backend = cpu_of_a_context;
      const UnitResult expected = context_result_of(run);
      for (const int size : {2, 4}) {
        for (const Layout& layout : layouts_of(size)) {
          SCOPED_TRACE(fmt::format("{}, {} groups, {}", layout.name, groups, name_of(dtype)));
          run.unit.config.context = layout.context;
          const UnitResult cut = context_result_of(run);
          EXPECT_LT(relative_error(cut.output, expected.output), tolerance);
          EXPECT_LT(relative_error(cut.input_gradient, expected.input_gradient), tolerance);
          for (const auto& [name, gradient] : expected.gradients) {
            // Every key's gradient of a bias is a sum that is zero but for rounding.
            if (name.ends_with("linear_qkv.bias")) continue;
            EXPECT_LT(relative_error(cut.gradients.at(name), gradient), tolerance) << name;
          }
        }
      }
    }
  }
}

// Parts are merged and added in the order of ranks, whoever is first.
TEST(ContextAttention, HasTheSameBitsOnAnyThreads) {
  for (const Layout& layout : layouts_of(4)) {
    SCOPED_TRACE(layout.name);
    ContextRun run = context_run(context_config());
    run.unit.shape.sequence = 128;
    run.unit.config.dtype = DType::kF32;
    run.unit.config.context = layout.context;
    run.unit.backend = cpu_of_a_context;
    const UnitResult expected = context_result_of(run);
    run.unit.backend = [] { return make_cpu_backend(3, cpu::ProductPrecision::kFp32); };
    EXPECT_EQ(context_result_of(run), expected);
  }
}

// A forward pass again, before backward, changes no bit.
TEST(ContextAttention, IsRecomputed) {
  for (const Layout& layout : layouts_of(4)) {
    SCOPED_TRACE(layout.name);
    ContextRun run = context_run(context_config());
    run.unit.config.context = layout.context;
    const UnitResult once = context_result_of(run);
    run.recomputes = true;
    EXPECT_EQ(context_result_of(run), once);
  }
}

// ---- messages and memory

// What a rank of the context sends with an op.
MessageTotals::Total sent(ContextRun run, const ContextParallel& context, const std::string& op,
                          const std::string& group = "cp") {
  run.unit.config.context = context;
  const auto ranks = run_context(run);
  const MessageTotals totals = ranks[0].messages();
  for (const ContextRank& rank : ranks) EXPECT_EQ(rank.messages(), totals);
  const auto found = totals.by_key().find({group, op});
  return found == totals.by_key().end() ? MessageTotals::Total{} : found->second;
}

TEST(ContextAttention, SendsWhatThePlanCounts) {
  for (const int size : {2, 4}) {
    for (const int t : {1, 2}) {
      for (const std::int64_t groups : {8, 4, 2}) {
        SCOPED_TRACE(fmt::format("{} ranks, tensor {}, {} groups", size, t, groups));
        ContextRun run = context_run(context_config());
        TransformerConfig& config = run.unit.config;
        config.dtype = DType::kF32;
        config.query_groups = groups;
        config.tensor.size = t;
        run.unit.backend = cpu_of_a_context;
        const std::int64_t element = 4;
        const std::int64_t rows = run.unit.shape.rows() / size;  // n b
        const std::int64_t local_groups = std::max<std::int64_t>(1, groups / t);
        const std::int64_t q = config.heads / t * config.head_size;
        const std::int64_t kv = local_groups * config.head_size;
        const std::int64_t pair = 2 * rows * kv;
        const auto expect = [&](ContextExchange exchange, const std::string& op,
                                MessageTotals::Total total) {
          EXPECT_EQ(sent(run, {.size = size, .exchanges = {exchange}}, op), total) << op;
        };
        expect(ContextExchange::kRing, "send",
               {3 * (size - 1), (size - 1) * pair * (2 * element + 4)});
        expect(ContextExchange::kGather, "all_gather", {2, 2 * pair * element});
        expect(ContextExchange::kGather, "reduce_scatter", {1, size * pair * 4});
        const std::int64_t shared = std::max<std::int64_t>(local_groups, size) * config.head_size;
        const bool whole = local_groups >= size;
        const std::int64_t forward = rows * (2 * q + 2 * shared) * element;
        const std::int64_t backward = rows * (2 * q + 2 * shared) * element;
        expect(ContextExchange::kHeads, "all_to_all",
               {whole ? 5 : 6, forward + backward + rows * (config.heads / t) * 4});
      }
    }
  }
}

// Neighbours exchange heads, then each group's rows go round; a second forward pass sends what the
// first sent.
TEST(ContextAttention, SendsAgainWhatIsRecomputed) {
  ContextRun run = context_run(context_config());
  run.unit.config.dtype = DType::kF32;
  run.unit.backend = cpu_of_a_context;
  const std::int64_t rows = run.unit.shape.rows() / 4;
  const std::int64_t q = 8 * 4, kv = 4 * 4;
  for (const int forwards : {1, 2}) {
    run.recomputes = forwards == 2;
    const ContextParallel ring{.size = 4, .exchanges = {ContextExchange::kRing}};
    EXPECT_EQ(sent(run, ring, "send"),
              (MessageTotals::Total{3 * (forwards + 2), 3 * 2 * rows * kv * 4 * (forwards + 2)}));
    const ContextParallel gather{.size = 4, .exchanges = {ContextExchange::kGather}};
    EXPECT_EQ(sent(run, gather, "all_gather"),
              (MessageTotals::Total{forwards + 1, 2 * rows * kv * 4 * (forwards + 1)}));
    const ContextParallel both{
        .size = 4, .inner = 2, .exchanges = {ContextExchange::kHeadsAndRing}};
    EXPECT_EQ(sent(run, both, "all_to_all", "cp heads"),
              (MessageTotals::Total{2 * forwards + 3,
                                    rows * (2 * q + 2 * kv) * 4 * (forwards + 1) + rows * 8 * 4}));
    // Twice the rows, half the groups.
    EXPECT_EQ(sent(run, both, "send", "cp ring"),
              (MessageTotals::Total{forwards + 2, 2 * rows * kv * 4 * (forwards + 2)}));
    EXPECT_EQ(sent(run, both, "send"), MessageTotals::Total{});
  }
}

// The next block is on its way while a rank attends to the present one, and the gradients of a
// block while it computes those of the next.
TEST(ContextAttention, SendsWhileItAttends) {
  ContextRun run = context_run(context_config());
  run.unit.config.context = {.size = 4, .exchanges = {ContextExchange::kRing}};
  const auto ranks = run_context(run);
  for (const ContextRank& rank : ranks) {
    std::vector<int> before;  // each send: the calls of attention
    int calls = 0;
    for (const TraceEvent& event : rank.recorder.events()) {
      if (const auto* ran = std::get_if<OpRun>(&event)) {
        const std::string_view op = ran->cost.name;
        calls += op == "attention_forward" || op == "attention_backward" ? 1 : 0;
      } else if (const auto* message = std::get_if<MessageBegun>(&event)) {
        if (message->op == "send") before.push_back(calls);
      }
    }
    // Forward: three blocks. Backward: three blocks, and three gradients after their steps.
    EXPECT_EQ(before, (std::vector<int>{0, 1, 2, 4, 5, 6, 6, 7, 8}));
  }
}

// What a layer saves, with a rank's rows instead of all.
TEST(ContextAttention, SavesItsRows) {
  const auto bytes = [](const TransformerConfig& config, const BatchShape& shape) {
    ParamTable table;
    const auto unit = attention_of_a_context(table, config);
    std::int64_t sum = 0;
    for (const SavedSlot& slot : unit->saved_slots()) {
      sum += slot.shape(shape).count() * size_of(slot.dtype);
    }
    return sum;
  };
  TransformerConfig config = context_config();
  config.dtype = DType::kBF16;
  const std::int64_t one = bytes(config, {.sequence = 8, .micro_batch = 2});
  const BatchShape cut{.sequence = 8, .micro_batch = 2, .context_shards = 4};
  for (const Layout& layout : layouts_of(4)) {
    config.context = layout.context;
    EXPECT_EQ(bytes(config, cut), one) << layout.name;
  }
  // Ranks that share a group each save its keys and values.
  config.query_groups = 2;
  config.context = {};
  const std::int64_t grouped = bytes(config, {.sequence = 8, .micro_batch = 2});
  config.context = {.size = 4, .exchanges = {ContextExchange::kHeads}};
  EXPECT_EQ(bytes(config, cut), grouped + 16 * 2 * 2 * config.head_size * 2);
}

// ---- rows and losses

TEST(ContextRows, AreInTheOrderOfTheSample) {
  std::vector<std::int64_t> places;
  for (const RowRun& run : row_runs(4, 4, true)) {
    for (std::int64_t i = 0; i < run.count; ++i) places.push_back(run.place + i);
  }
  EXPECT_EQ(places,
            (std::vector<std::int64_t>{0, 1, 14, 15, 2, 3, 12, 13, 4, 5, 10, 11, 6, 7, 8, 9}));
  places.clear();
  for (const RowRun& run : row_runs(2, 3, false)) places.push_back(run.place);
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 3}));
}

std::unique_ptr<Unit> head_of_a_context(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<LanguageModelHead>(table, LanguageModelHead::Output::kOwn, 11, 16,
                                             kTestTargetColumns, config);
}

std::unique_ptr<Unit> layer_of_a_context(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<TransformerLayer>(table, 1, 0, llama_config(config));
}

std::unique_ptr<Unit> embedding_of_a_context(ParamTable& table, const TransformerConfig& config) {
  return std::make_unique<Embedding>(table, 11, 16, 8, EmbeddingSharing{}, kTestEmbeddingColumns,
                                     config);
}

// Dropout outside of attention has the coordinates of the rows, too.
TEST(ContextUnits, AreThoseOfOneRank) {
  for (const auto& make : {layer_of_a_context, embedding_of_a_context}) {
    ContextRun run = context_run(context_config());
    run.unit.make = make;
    run.unit.config.hidden_dropout = 0.25;
    run.unit.config.ffn_hidden = 16;
    const UnitResult expected = context_result_of(run);
    for (const bool sequence : {false, true}) {
      run.unit.config.context = layouts_of(2)[0].context;
      run.unit.config.tensor = {.size = sequence ? 2 : 1, .sequence = sequence};
      expect_near(context_result_of(run), expected, 1e-12);
    }
  }
}

// The mean of a microbatch is over the unmasked tokens of all ranks.
TEST(ContextLosses, AreThoseOfOneRank) {
  for (const bool mean : {false, true}) {
    ContextRun run = context_run(context_config());
    run.unit.make = head_of_a_context;
    run.unit.mean_of_microbatch = mean;
    const UnitResult expected = context_result_of(run);
    for (const int size : {2, 4}) {
      for (const bool sequence : {false, true}) {
        SCOPED_TRACE(fmt::format("{} ranks, mean {}, sequence {}", size, mean, sequence));
        run.unit.config.context = layouts_of(size)[0].context;
        run.unit.config.tensor = {.size = sequence ? 2 : 1, .sequence = sequence};
        expect_near(context_result_of(run), expected, 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace phalanx::nn
