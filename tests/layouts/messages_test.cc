// The plan's messages against the closed forms, at sizes that nobody trains here. (That a step
// really begins the planned messages and moves their bytes is checked for every layout of the
// matrix.)

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "message_formulas.h"
#include "phalanx/families/family.h"
#include "phalanx/flag_table/test_support.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/rules/resolve.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::int64_t kVocabulary = 1000;

struct Case {
  int tensor = 1;
  bool sequence = false;
  int data = 1;
  int zero = 0;  // stage
  int copies = 1;
  bool unsharded = false;  // sums of microbatches
  int prefetch = 1;
  std::int64_t stays_below = 0;
  bool reshard = true;
  const char* recompute = "";  // "", "selective", "uniform", "block", "distributed"
  std::int64_t group = 0;
  std::int64_t microbatches = 1;
  bool bf16 = false;
  bool fp32_residual = false;
  std::int64_t bucket = 0;
  std::int64_t layers = 6;
  int pipeline = 1;
  const char* schedule = "";
  int chunks = 0;
  bool untied = false;
  std::int64_t first_layers = 0, last_layers = 0;  // of these ranks of a pipeline; 0: as others
  std::int64_t query_groups = 0;                   // of the 8 heads; 0: each is one
};

TrainConfig config_of(const Case& c) {
  TrainConfig config = with_flags({},
                                  "--hidden-size 128 --num-attention-heads 8 --seq-length 160 "
                                  "--max-position-embeddings 160 --micro-batch-size 2");
  config.model.num_layers = c.layers;
  config.model.group_query_attention = c.query_groups > 0;
  if (c.query_groups > 0) config.model.num_query_groups = c.query_groups;
  config.layout.global_batch_size = 2 * c.data * c.microbatches;
  config.layout.threads_per_rank = 1;
  config.layout.world_size = c.tensor * c.data * c.pipeline;
  config.layout.pipeline_model_parallel_size = c.pipeline;
  config.layout.pipeline_schedule = c.schedule;
  config.layout.num_virtual_stages_per_pipeline_rank = c.chunks;
  config.model.untie_embeddings_and_output_weights = c.untied;
  config.layout.decoder_first_pipeline_num_layers = c.first_layers;
  config.layout.decoder_last_pipeline_num_layers = c.last_layers;
  config.layout.tensor_model_parallel_size = c.tensor;
  config.layout.sequence_parallel = c.sequence;
  config.layout.zero_stage = c.zero;
  config.layout.num_distributed_optimizer_instances = c.copies;
  config.layout.zero_accumulate_unsharded = c.unsharded;
  if (c.zero == 3) {
    config.layout.zero_prefetch_depth = c.prefetch;
    config.layout.zero_persistence_threshold = c.stays_below;
    config.layout.no_zero_reshard_after_forward = !c.reshard;
  }
  config.layout.ddp_bucket_size = c.bucket;
  config.model.bf16 = c.bf16;
  config.model.fp32_residual_connection = c.fp32_residual;
  const std::string recompute = c.recompute;
  if (recompute == "selective") {
    config.layout.recompute_granularity = recompute;
  } else if (!recompute.empty()) {
    config.layout.recompute_granularity = "full";
    config.layout.recompute_method = recompute == "block" ? recompute : "uniform";
    config.layout.recompute_num_layers = c.group;
    config.layout.distribute_saved_activations = recompute == "distributed";
  }
  resolve(config, false);
  return config;
}

MessageTotals planned(const Case& c, int rank = 0) {
  const TrainConfig config = config_of(c);
  return plan_memory(config, *make_model(config, kVocabulary), step_programs(config), rank,
                     {cpu::ProductPrecision::kFp32})
      .messages;
}

void expect_closed_form(const Case& c, const std::vector<int>& ranks) {
  const TrainConfig config = config_of(c);
  for (const int rank : ranks) {
    SCOPED_TRACE(fmt::format("t{} sp{} p{} {} d{} zero{} {}{} m{}, rank {}", c.tensor, c.sequence,
                             c.pipeline, c.schedule, c.data, c.zero, c.recompute, c.group,
                             c.microbatches, rank));
    EXPECT_EQ(describe(planned(c, rank)), describe(step_messages(config, kVocabulary, rank)));
  }
}

TEST(Messages, ThePlanIsTheClosedForm) {
  for (const Case& c : {
           Case{},
           Case{.microbatches = 7},
           Case{.tensor = 2, .microbatches = 3},
           Case{.tensor = 4, .data = 3, .microbatches = 2, .bf16 = true},
           Case{.tensor = 8, .sequence = true, .microbatches = 2},
           Case{.tensor = 8, .sequence = true, .data = 16, .bf16 = true, .fp32_residual = true},
           Case{.tensor = 2, .bf16 = true, .fp32_residual = true},
           Case{.data = 64, .microbatches = 4},
           Case{.data = 64, .zero = 1, .bucket = 300000},
           Case{.data = 5, .zero = 1, .bf16 = true, .bucket = 100000},
           Case{.data = 6, .bucket = 100000},
           Case{.tensor = 4, .sequence = true, .data = 8, .zero = 1, .microbatches = 5},
           Case{.tensor = 4, .recompute = "selective"},
           Case{.tensor = 4, .recompute = "uniform", .group = 1, .microbatches = 3},
           Case{.tensor = 4, .recompute = "uniform", .group = 4, .bf16 = true},
           Case{.tensor = 4, .sequence = true, .recompute = "uniform", .group = 2},
           Case{.tensor = 2, .sequence = true, .recompute = "block", .group = 5, .bf16 = true},
           Case{.tensor = 8, .recompute = "distributed", .group = 3, .microbatches = 2},
           Case{.tensor = 8,
           .recompute = "distributed",
           .group = 1,
           .bf16 = true,
           .fp32_residual = true},
           Case{.tensor = 4, .query_groups = 4},
           Case{.tensor = 8, .data = 2, .microbatches = 2, .query_groups = 2},
           Case{.tensor = 4, .sequence = true, .data = 3, .zero = 1, .query_groups = 1},
       }) {
    expect_closed_form(c, {0, c.tensor * c.data - 1});
  }
}

TEST(Messages, ThePlanOfSharedStatesIsTheClosedForm) {
  for (const Case& c : {
           Case{.data = 4, .zero = 2, .microbatches = 3},
           Case{.data = 64, .zero = 2, .microbatches = 2, .bf16 = true, .untied = true},
           Case{.data = 3, .zero = 2, .unsharded = true, .microbatches = 4},
           Case{.data = 4, .zero = 3},
           Case{.data = 5, .zero = 3, .microbatches = 6, .bf16 = true},
           Case{.data = 8, .zero = 3, .prefetch = 0, .microbatches = 2, .untied = true},
           Case{.data = 8, .zero = 3, .prefetch = 2, .microbatches = 2, .bucket = 100000},
           Case{.data = 4, .zero = 3, .stays_below = 512, .microbatches = 2},
           Case{.data = 4, .zero = 3, .stays_below = 1 << 20, .microbatches = 2},
           Case{.data = 4, .zero = 3, .reshard = false, .microbatches = 3},
           Case{.data = 4, .zero = 3, .unsharded = true, .microbatches = 3, .untied = true},
           Case{.tensor = 4, .sequence = true, .data = 2, .zero = 3, .microbatches = 2},
           Case{.tensor = 4, .data = 2, .zero = 3, .microbatches = 2, .query_groups = 2},
           Case{.tensor = 2, .data = 3, .zero = 2, .microbatches = 2, .query_groups = 1},
           Case{.data = 2, .zero = 3, .recompute = "selective", .microbatches = 2},
           Case{.data = 2, .zero = 3, .recompute = "uniform", .group = 1, .microbatches = 2},
           Case{.data = 2, .zero = 3, .recompute = "uniform", .group = 4, .microbatches = 2},
           Case{.data = 2, .zero = 3, .recompute = "block", .group = 5, .microbatches = 2},
           Case{.tensor = 2, .data = 2, .zero = 3, .recompute = "distributed", .group = 3},
           Case{.data = 8, .zero = 1, .copies = 2, .microbatches = 2},
           Case{.data = 8, .zero = 2, .copies = 4, .microbatches = 2, .bf16 = true},
           Case{.data = 8, .zero = 3, .copies = 2, .microbatches = 3, .bf16 = true},
           Case{.data = 8, .zero = 3, .copies = 8, .microbatches = 3},
           Case{.tensor = 2, .sequence = true, .data = 6, .zero = 3, .copies = 3, .bucket = 1},
       }) {
    expect_closed_form(c, {0, c.tensor * c.data - 1});
  }
}

TEST(Messages, ThePlanOfAPipelineIsTheClosedForm) {
  for (const Case& c : {
           Case{.microbatches = 7, .pipeline = 3, .schedule = "1f1b"},
           Case{.tensor = 2,
           .microbatches = 4,
           .layers = 8,
           .pipeline = 4,
           .schedule = "1f1b",
           .first_layers = 1,
           .last_layers = 3},
           Case{.microbatches = 12, .layers = 13, .pipeline = 6, .schedule = "zb-h1"},
           Case{.data = 4,
           .microbatches = 8,
           .layers = 9,
           .pipeline = 4,
           .schedule = "gpipe",
           .untied = true},
           Case{.tensor = 4,
           .sequence = true,
           .data = 3,
           .zero = 1,
           .microbatches = 16,
           .bf16 = true,
           .bucket = 100000,
           .layers = 19,
           .pipeline = 8,
           .schedule = "zb-v"},
           Case{.tensor = 2,
           .data = 2,
           .recompute = "uniform",
           .group = 2,
           .microbatches = 8,
           .bf16 = true,
           .fp32_residual = true,
           .layers = 13,
           .pipeline = 4,
           .schedule = "interleaved",
           .chunks = 2},
           Case{.tensor = 2,
           .sequence = true,
           .recompute = "block",
           .group = 2,
           .microbatches = 8,
           .layers = 21,
           .pipeline = 4,
           .schedule = "zb-interleaved",
           .chunks = 3},
           Case{.tensor = 8,
           .recompute = "distributed",
           .group = 2,
           .microbatches = 4,
           .layers = 7,
           .pipeline = 2,
           .schedule = "dualpipe-v"},
           Case{.data = 4,
           .zero = 2,
           .copies = 2,
           .unsharded = true,
           .microbatches = 8,
           .pipeline = 3,
           .schedule = "1f1b"},
           Case{.data = 64,
           .zero = 1,
           .microbatches = 16,
           .bucket = 300000,
           .layers = 96,
           .pipeline = 16,
           .schedule = "hanayo",
           .chunks = 4},
       }) {
    std::vector<int> ranks;
    // One of each stage, and of each the last but for its stage.
    const int of_a_stage = c.tensor * c.data;
    for (int stage = 0; stage < c.pipeline; ++stage) {
      ranks.push_back(stage * of_a_stage);
      ranks.push_back(stage * of_a_stage + of_a_stage - 1);
    }
    expect_closed_form(c, ranks);
  }
}

// Chunks cost messages: each stage hands an activation on and a gradient back.
TEST(Messages, APipelineSendsAnActivationAndAGradientForEachCut) {
  const auto sent = [](Case c) {
    std::int64_t bytes = 0;
    for (int rank = 0; rank < c.pipeline; ++rank) {
      bytes += planned(c, rank).by_key().at({"pp", "send"}).bytes;
    }
    return bytes / c.microbatches;
  };
  constexpr std::int64_t kBytes = 160 * 2 * 128 * 4;
  EXPECT_EQ(sent({.microbatches = 8, .pipeline = 3, .schedule = "1f1b"}), 2 * 2 * kBytes);
  EXPECT_EQ(sent({.microbatches = 8, .pipeline = 3, .schedule = "interleaved", .chunks = 2}),
            2 * 5 * kBytes);
  // A V turns at the last rank without a message.
  EXPECT_EQ(sent({.microbatches = 8, .pipeline = 3, .schedule = "zb-v"}), 2 * 4 * kBytes);
  EXPECT_EQ(sent({.microbatches = 8, .bf16 = true, .pipeline = 3, .schedule = "1f1b"}), 2 * kBytes);
}

// Of t ranks that hold the same each sends a t-th, whether or not the stream is cut, so that t
// ranks together send it once; where it is not cut, the receivers gather.
TEST(Messages, TensorParallelRanksSendSharesThatTheirReceiversGather) {
  constexpr std::int64_t kStream = 160 * 2 * 128 * 4;
  constexpr int kMicrobatches = 8;
  const auto of_middle_stage = [](int tensor, bool sequence, int pipeline) {
    // A stage of two layers with a neighbour on either side.
    const Case c{.tensor = tensor,
                 .sequence = sequence,
                 .microbatches = kMicrobatches,
                 .layers = 2 * pipeline,
                 .pipeline = pipeline,
                 .schedule = "1f1b"};
    return planned(c, tensor).by_key();
  };
  for (const int tensor : {2, 4, 8}) {
    for (const bool sequence : {false, true}) {
      const auto messages = of_middle_stage(tensor, sequence, 3);
      EXPECT_EQ(messages.at({"pp", "send"}).count, 2 * kMicrobatches);
      EXPECT_EQ(messages.at({"pp", "send"}).bytes, 2 * kMicrobatches * kStream / tensor);
    }
    // Two layers, no head: all that is gathered has been received.
    const auto gathered = of_middle_stage(tensor, false, 3).at({"tp", "all_gather"});
    EXPECT_EQ(gathered.count, 2 * kMicrobatches);
    EXPECT_EQ(gathered.bytes, 2 * kMicrobatches * kStream / tensor);
  }
}

// What one more layer adds to one microbatch of a plan.
std::map<MessageTotals::Key, MessageTotals::Total> of_a_layer(Case c) {
  const MessageTotals with = planned(c);
  --c.layers;
  std::map<MessageTotals::Key, MessageTotals::Total> difference;
  const MessageTotals without = planned(c);
  for (const auto& [key, total] : with.by_key()) {
    const auto& less = without.by_key().at(key);
    difference[key] = {total.count - less.count, total.bytes - less.bytes};
  }
  return difference;
}

constexpr std::int64_t kActivation = 160 * 2 * 128 * 4;  // s b h, fp32
const MessageTotals::Key kAllReduce{"tp", "all_reduce"}, kAllGather{"tp", "all_gather"},
    kReduceScatter{"tp", "reduce_scatter"};
// What the norm adds: 8 bytes for each of a layer's 12 parameters.
constexpr std::int64_t kNorm = 12 * 8;

TEST(Messages, ALayerAllReducesFourActivations) {
  const auto layer = of_a_layer({.tensor = 4});
  EXPECT_EQ(layer.at(kAllReduce).count, 4);
  EXPECT_EQ(layer.at(kAllReduce).bytes, 4 * kActivation + kNorm);
  EXPECT_EQ(layer.at(kAllGather).count, 0);
}

TEST(Messages, WithSequenceParallelismItGathersSixAndScattersFour) {
  const auto layer = of_a_layer({.tensor = 4, .sequence = true});
  EXPECT_EQ(layer.at(kAllGather).count, 6);
  EXPECT_EQ(layer.at(kAllGather).bytes, 6 * kActivation / 4);
  EXPECT_EQ(layer.at(kReduceScatter).count, 4);
  EXPECT_EQ(layer.at(kReduceScatter).bytes, 4 * kActivation);
  EXPECT_EQ(layer.at(kAllReduce).bytes, 4 * 6 * 128 + kNorm);
}

TEST(Messages, RecomputationRepeatsTheForwardButTheLastReduction) {
  const auto plain = of_a_layer({.tensor = 4, .sequence = true});
  const auto again =
      of_a_layer({.tensor = 4, .sequence = true, .recompute = "uniform", .group = 1});
  EXPECT_EQ(again.at(kAllGather).count - plain.at(kAllGather).count, 2);
  EXPECT_EQ(again.at(kReduceScatter).count - plain.at(kReduceScatter).count, 1);
  EXPECT_EQ(of_a_layer({.tensor = 4, .recompute = "uniform", .group = 1}).at(kAllReduce).count, 5);
  EXPECT_EQ(describe(planned({.tensor = 4, .recompute = "selective"})),
            describe(planned({.tensor = 4})));
}

// The volumes of the literature, in bytes that a rank sends.
TEST(Messages, RingVolumesAreThePublishedOnes) {
  const int t = 4;
  const auto ring = [](const auto& layer, const MessageTotals::Key& key, int size) {
    return ring_bytes(key.second, static_cast<double>(layer.at(key).bytes), size);
  };
  const double published = 8.0 * kActivation * (t - 1) / t;
  const double norm = ring_bytes("all_reduce", kNorm, t);
  const auto tensor = of_a_layer({.tensor = t});
  EXPECT_DOUBLE_EQ(ring(tensor, kAllReduce, t), published + norm);
  const auto sequence = of_a_layer({.tensor = t, .sequence = true});
  const double gathered_again = 2.0 * kActivation * (t - 1) / t;
  EXPECT_DOUBLE_EQ(ring(sequence, kAllGather, t) + ring(sequence, kReduceScatter, t),
                   published + gathered_again);

  // Data parallelism: 2 P (d - 1) / d elements, sharded or not.
  const int d = 8;
  const TrainConfig config = config_of({.data = d, .zero = 1});
  const auto elements = static_cast<double>(flat_sizes(config, kVocabulary).elements);
  const double volume = 4.0 * 2.0 * elements * (d - 1) / d;
  const auto sharded = planned({.data = d, .zero = 1}).by_key();
  const auto bytes = [&](const char* op) {
    return ring_bytes(op, static_cast<double>(sharded.at({"dp", op}).bytes), d);
  };
  EXPECT_DOUBLE_EQ(bytes("reduce_scatter") + bytes("all_gather"), volume);
  const auto plain_elements =
      static_cast<double>(flat_sizes(config_of({.data = d}), kVocabulary).elements);
  const auto plain = planned({.data = d}).by_key();
  EXPECT_DOUBLE_EQ(
      ring_bytes("all_reduce", static_cast<double>(plain.at({"dp", "all_reduce"}).bytes) - 16.0, d),
      4.0 * 2.0 * plain_elements * (d - 1) / d);
}

// Elements that a rank sends to share states, over the elements of the model and without
// (d - 1) / d: of gradients that are summed, and of parameters that are gathered.
struct Volume {
  double gradients = 0.0, parameters = 0.0;
};

Volume volume_of(Case c) {
  c.data = 8;
  c.untied = true;
  const TrainConfig config = config_of(c);
  const auto elements = static_cast<double>(flat_sizes(config, kVocabulary).elements);
  const auto messages = planned(c).by_key();
  const auto bytes = [&](const char* op) {
    const auto found = messages.find({"dp", op});
    return found == messages.end() ? 0.0 : static_cast<double>(found->second.bytes);
  };
  if (c.zero == 0) return {.gradients = 2 * (bytes("all_reduce") - 16) / 4 / elements};
  return {.gradients = bytes("reduce_scatter") / 4 / elements,
          .parameters = bytes("all_gather") * c.data / 4 / elements};
}

// The published volumes, with P elements of the model and M microbatches: 2 P without sharing and
// at stage 1, M P + P at stage 2, 3 M P at stage 3, M P + M P where what forward gathered stays,
// and P once where gradients stay whole.
TEST(Messages, VolumesOfSharedStatesAreThePublishedOnes) {
  for (const int m : {1, 4}) {
    SCOPED_TRACE(fmt::format("{} microbatches", m));
    const auto expect = [&](const Case& c, double gradients, double parameters) {
      const Volume volume = volume_of(c);
      EXPECT_DOUBLE_EQ(volume.gradients, gradients) << "stage " << c.zero;
      EXPECT_DOUBLE_EQ(volume.parameters, parameters) << "stage " << c.zero;
    };
    expect({.microbatches = m}, 2, 0);
    expect({.zero = 1, .microbatches = m}, 1, 1);
    expect({.zero = 2, .microbatches = m}, m, 1);
    expect({.zero = 2, .unsharded = true, .microbatches = m}, 1, 1);
    expect({.zero = 3, .reshard = false, .microbatches = m}, m, m);
    expect({.zero = 3, .unsharded = true, .reshard = false, .microbatches = m}, 1, m);
    // But for what is gathered once, first and last: the embedding, which backward does not read,
    // and the head, whose backward comes directly behind its forward pass.
    const TrainConfig config = config_of({.data = 8, .zero = 3, .untied = true});
    const FlatSizes flat = flat_sizes(config, kVocabulary);
    double once = 0.0;
    for (const FlatSizes::Region& region : flat.regions) {
      if (region.gathers == 1) once += static_cast<double>(region.elements);
    }
    const double twice = 2.0 - once / static_cast<double>(flat.elements);
    EXPECT_GT(twice, 1.7);
    for (const char* recompute : {"", "uniform"}) {
      expect({.zero = 3, .recompute = recompute, .group = 1, .microbatches = m}, m, m * twice);
    }
  }
}

// Copies of shared states: the sums over copies are of a shard, once a step, however often those
// over its ranks are.
TEST(Messages, CopiesOfSharedStatesSumTheirShardsOnce) {
  for (const int m : {1, 4}) {
    const Case c{.data = 8, .zero = 3, .copies = 2, .microbatches = m, .untied = true};
    const FlatSizes flat = flat_sizes(config_of(c), kVocabulary);
    const auto messages = planned(c).by_key();
    EXPECT_EQ(messages.at({"dp-replica", "all_reduce"}).count, std::ssize(flat.regions));
    EXPECT_EQ(messages.at({"dp-replica", "all_reduce"}).bytes, 4 * flat.elements / 4);
    EXPECT_EQ(messages.at({"dp-shard", "reduce_scatter"}).bytes, m * 4 * flat.elements);
  }
}

}  // namespace
}  // namespace phalanx
