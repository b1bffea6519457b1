#include "message_formulas.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/pipeline/schedule.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {
namespace {

constexpr std::int64_t kAlignment = 64;   // elements: where parameters begin
constexpr std::int64_t kBlock = 4096;     // elements: of the norm, and of what buckets are made of
constexpr std::int64_t kLogitRows = 256;  // at a time

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Placement placement_of(const TrainConfig& c) {
  return schedule_kind(c.layout.pipeline_schedule)
      .placement(schedule_request(c.layout, num_microbatches(c.layout)));
}

// What a chunk of a rank is of the model.
struct ChunkPart {
  std::int64_t first_layer = 0, layers = 0;
  bool embedding = false, head = false;
  int before = 0, behind = 0;  // the pipeline ranks with the neighbouring stages; -1: there is none
};

std::vector<ChunkPart> chunks_of(const TrainConfig& c, int pipeline_rank) {
  const Placement placement = placement_of(c);
  const std::vector<std::int64_t> layers = stage_layers(c, placement);
  std::vector<ChunkPart> parts;
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const int stage = placement.stage(pipeline_rank, chunk);
    const bool embedding = stage == 0, head = stage == placement.stages() - 1;
    parts.push_back(
        {.first_layer = std::accumulate(layers.begin(), layers.begin() + stage, std::int64_t{0}),
         .layers = layers[static_cast<std::size_t>(stage)],
         .embedding = embedding,
         .head = head,
         .before = embedding ? -1 : placement.rank(stage - 1),
         .behind = head ? -1 : placement.rank(stage + 1)});
  }
  return parts;
}

// Whether embedding and head are tied over two ranks of a pipeline.
bool has_copies(const TrainConfig& c) {
  const Placement placement = placement_of(c);
  return !c.model.untie_embeddings_and_output_weights &&
         placement.rank(0) != placement.rank(placement.stages() - 1);
}

std::int64_t word_table_size(const TrainConfig& c, std::int64_t vocabulary) {
  const std::int64_t t = c.layout.tensor_model_parallel_size;
  return round_up(vocabulary, c.model.make_vocab_size_divisible_by * t) / t * c.model.hidden_size;
}

constexpr std::int64_t kLayerParameters = 12;

// Of a parameter: its elements on a rank, and those at its end that other ranks have too.
struct LocalSize {
  std::int64_t elements = 0;
  std::int64_t common = 0;
  bool is_sequence_partial = false;  // with sequence parallelism: each rank has a part of its sum
};

// How many neighbours have the same key and value rows.
std::int64_t holders_of_groups(const TrainConfig& c) {
  return std::max<std::int64_t>(1, c.layout.tensor_model_parallel_size / c.model.num_query_groups);
}

// All parameters of the model, in order.
std::vector<LocalSize> parameter_sizes(const TrainConfig& c, std::int64_t vocabulary) {
  const std::int64_t t = c.layout.tensor_model_parallel_size;
  const std::int64_t h = c.model.hidden_size;
  const std::int64_t f = c.model.ffn_hidden_size;
  const std::int64_t n = c.model.kv_channels;
  const std::int64_t q = c.model.num_attention_heads * n / t;
  const std::int64_t kv = 2 * n * std::max<std::int64_t>(1, c.model.num_query_groups / t);
  const std::int64_t common = holders_of_groups(c) > 1 ? kv : 0;
  const LocalSize table{word_table_size(c, vocabulary)};
  std::vector<LocalSize> sizes = {table, {c.model.max_position_embeddings * h}};
  for (std::int64_t layer = 0; layer < c.model.num_layers; ++layer) {
    const LocalSize vector{.elements = h, .is_sequence_partial = c.layout.sequence_parallel};
    sizes.insert(sizes.end(), {vector,
                               vector,
                               {(q + kv) * h, common * h},
                               {q + kv, common},
                               {h * q},
                               vector,
                               vector,
                               vector,
                               {f * h / t},
                               {f / t},
                               {h * f / t},
                               vector});
  }
  sizes.insert(sizes.end(), 2, {.elements = h, .is_sequence_partial = c.layout.sequence_parallel});
  if (c.model.untie_embeddings_and_output_weights) sizes.push_back(table);
  return sizes;
}

// A parameter of a chunk: its number among those of the model.
struct ChunkParameter {
  std::size_t number = 0;
  bool is_copy = false;  // of a word table that another rank has
};

std::vector<ChunkParameter> parameters_of(const TrainConfig& c, const ChunkPart& part,
                                          std::size_t parameters_of_model) {
  std::vector<ChunkParameter> found;
  const auto add = [&](std::int64_t from, std::int64_t to) {
    for (; from < to; ++from) found.push_back({static_cast<std::size_t>(from)});
  };
  const auto of_layer = [](std::int64_t layer) { return 2 + kLayerParameters * layer; };
  if (part.embedding) add(0, 2);
  add(of_layer(part.first_layer), of_layer(part.first_layer + part.layers));
  if (part.head) add(of_layer(c.model.num_layers), static_cast<std::int64_t>(parameters_of_model));
  if (part.head && has_copies(c)) found.push_back({.number = 0, .is_copy = true});
  return found;
}

bool is_sharded(const TrainConfig& c) { return ranks_of_copy(c) > 1; }

bool cuts_weights(const TrainConfig& c) {
  return c.layout.zero_stage == 3 && (is_sharded(c) || !c.layout.offload_parameters_to.empty());
}

// Parameters that are reduced and gathered together, in order.
struct Group {
  std::vector<ChunkParameter> parameters;
  std::int64_t gathers = 0;  // of a microbatch
  bool stays = true;         // whole on every rank, or gathered once a step
  bool has_no_files = false;
};

// Of a chunk without a pipeline: the groups of its units.
std::vector<Group> unit_groups(const TrainConfig& c, const std::vector<LocalSize>& sizes) {
  const bool tied = !c.model.untie_embeddings_and_output_weights;
  const bool reshards = !c.layout.no_zero_reshard_after_forward;
  const std::int64_t stays_below = cuts_weights(c) ? c.layout.zero_persistence_threshold : -1;
  const bool has_state_files = !c.layout.offload_optimizer_to.empty();
  std::vector<Group> groups;
  const auto add = [&](std::size_t from, std::size_t to, std::int64_t gathers) {
    Group cut{.parameters = {}, .gathers = gathers, .stays = !cuts_weights(c)};
    Group stays{.parameters = {}, .has_no_files = true};
    for (; from < to; ++from) {
      const LocalSize& size = sizes[from];
      const bool is_summed_again = size.is_sequence_partial || size.common > 0;
      const bool it_stays =
          size.elements <= stays_below || (is_summed_again && cuts_gradients(c) && has_state_files);
      (it_stays ? stays : cut).parameters.push_back({from});
    }
    for (const Group& group : {cut, stays}) {
      if (!group.parameters.empty()) groups.push_back(group);
    }
  };
  // A tied table is the head's too, which is done forward just before its backward.
  if (tied) add(0, 1, reshards ? 2 : 1);
  add(tied ? 1 : 0, 2, 1);
  const std::size_t behind_layers = 2 + kLayerParameters * c.model.num_layers;
  for (std::size_t layer = 2; layer < behind_layers; layer += kLayerParameters) {
    add(layer, layer + kLayerParameters, reshards ? 2 : 1);
  }
  add(behind_layers, sizes.size(), 1);
  return groups;
}

// The last one's region is the first.
std::vector<Group> groups_of(const TrainConfig& c, int pipeline_rank,
                             const std::vector<LocalSize>& sizes) {
  if (cuts_gradients(c) || cuts_weights(c)) return unit_groups(c, sizes);
  std::vector<Group> groups;
  for (const ChunkPart& part : chunks_of(c, pipeline_rank)) {
    groups.push_back({.parameters = parameters_of(c, part, sizes.size())});
  }
  return groups;
}

std::int64_t storage_size(const TrainConfig& c) { return c.model.bf16 || c.model.fp16 ? 2 : 4; }

// Adds up messages.
class Adder {
 public:
  explicit Adder(MessageTotals& totals) : totals_(totals) {}
  void operator()(const char* group, std::string_view op, std::int64_t bytes,
                  std::int64_t times = 1) {
    if (times <= 0) return;
    MessageTotals one;
    one.add({{group, op, bytes}});
    totals_.add(one, times);
  }

 private:
  MessageTotals& totals_;
};

// Layers of each group of a chunk that is recomputed together.
std::vector<std::int64_t> recompute_groups(const TrainConfig& c, std::int64_t layers) {
  std::vector<std::int64_t> groups;
  if (c.layout.recompute_granularity != "full") return groups;
  if (c.layout.recompute_method == "block") {
    groups.assign(static_cast<std::size_t>(std::min(layers, c.layout.recompute_num_layers)), 1);
    return groups;
  }
  for (std::int64_t left = layers; left > 0; left -= c.layout.recompute_num_layers) {
    groups.push_back(std::min(left, c.layout.recompute_num_layers));
  }
  return groups;
}

// The rows of a microbatch that a rank has.
std::int64_t own_rows(const TrainConfig& c) {
  return c.data.seq_length / c.layout.context_parallel_size * c.layout.micro_batch_size;
}

// Bytes of an activation and of the residual stream, both of all rows of a rank.
struct StreamBytes {
  explicit StreamBytes(const TrainConfig& c)
      : activation(storage_size(c) * own_rows(c) * c.model.hidden_size),
        residual(c.model.fp32_residual_connection ? activation / storage_size(c) * 4 : activation) {
  }
  std::int64_t activation, residual;
};

// A microbatch on a chunk.
void add_tensor_parallel(const TrainConfig& c, const ChunkPart& part, Adder& add) {
  const std::int64_t t = c.layout.tensor_model_parallel_size;
  const std::int64_t rows = own_rows(c);
  const auto [e, r] = StreamBytes(c);
  const bool sequence = c.layout.sequence_parallel;
  const char* leave = sequence ? "reduce_scatter" : "all_reduce";

  if (part.embedding) {
    add("tp", leave, r);
    if (sequence) add("tp", "all_gather", e / t);
  }
  add("tp", leave, e, 4 * part.layers);
  if (sequence) add("tp", "all_gather", e / t, 6 * part.layers);
  if (part.head) {
    add("tp", leave, e);
    if (sequence) add("tp", "all_gather", e / t, 2);
    const std::int64_t piece = storage_size(c) == 4 ? rows : kLogitRows;
    add("tp", "all_gather", 12 * piece, rows / piece);
    if (rows % piece > 0) add("tp", "all_gather", 12 * (rows % piece));
  }
  for (const std::int64_t layers : recompute_groups(c, part.layers)) {
    add("tp", leave, e, 2 * layers - 1);
    if (sequence) add("tp", "all_gather", e / t, 2 * layers);
    if (c.layout.distribute_saved_activations) add("tp", "all_gather", r / t);
  }
}

// What one layer's attention sends of its own keys and values, or of more heads than it has.
struct ContextBytes {
  explicit ContextBytes(const TrainConfig& c)
      : size(c.layout.context_parallel_size),
        inner(c.layout.cp_comm_type[0] == "a2a" ? size
              : c.layout.hierarchical_context_parallel_sizes.empty()
                  ? 1
                  : c.layout.hierarchical_context_parallel_sizes[0]) {
    const std::int64_t t = c.layout.tensor_model_parallel_size;
    const std::int64_t groups = std::max<std::int64_t>(1, c.model.num_query_groups / t);
    heads = own_rows(c) * c.model.num_attention_heads / t;
    queries = heads * c.model.kv_channels;
    keys = 2 * own_rows(c) * groups * c.model.kv_channels;
    shares_groups = groups < inner;
    sent_keys = 2 * own_rows(c) * std::max(groups, inner) * c.model.kv_channels;
    // Between the levels each rank has the rows of `inner` ranks, and 1 / inner of the heads.
    ring_keys =
        inner * 2 * own_rows(c) * std::max<std::int64_t>(1, groups / inner) * c.model.kv_channels;
  }

  std::int64_t size, inner;
  std::int64_t heads, queries;              // numbers of a statistic, of queries
  std::int64_t keys, sent_keys, ring_keys;  // of keys and values together
  bool shares_groups = false;
};

// A microbatch on a chunk: the exchange of attention, in each layer forward (again where it is
// recomputed) and backward.
void add_context_parallel(const TrainConfig& c, const ChunkPart& part, Adder& add) {
  const ContextBytes bytes(c);
  const std::int64_t e = storage_size(c);
  const bool is_mean_of_means = c.optimizer.loss_average == "microbatch";
  if (is_mean_of_means && part.head) add("cp", "all_reduce", 8);
  std::int64_t forwards = part.layers;
  for (const std::int64_t layers : recompute_groups(c, part.layers)) forwards += layers;
  if (c.layout.cp_comm_type[0] == "all_gather") {
    add("cp", "all_gather", bytes.keys * e, forwards + part.layers);
    add("cp", "reduce_scatter", bytes.size * bytes.keys * 4, part.layers);
    return;
  }
  const std::int64_t outer = bytes.size / bytes.inner;
  const char* const heads = outer == 1 ? "cp" : "cp-heads";
  const char* const ring = bytes.inner == 1 ? "cp" : "cp-ring";
  if (bytes.inner > 1) {
    add(heads, "all_to_all", (bytes.queries + bytes.sent_keys) * e, forwards);
    add(heads, "all_to_all", bytes.queries * e, forwards + part.layers);
    add(heads, "all_to_all", bytes.heads * 4, part.layers);
    if (bytes.shares_groups) {
      add(heads, "all_to_all", bytes.queries * e, part.layers);
      add(heads, "all_to_all", bytes.sent_keys * 4, part.layers);
    } else {
      add(heads, "all_to_all", (bytes.queries + bytes.sent_keys) * e, part.layers);
    }
  }
  if (outer == 1) return;
  add(ring, "send", bytes.ring_keys * e, (outer - 1) * (forwards + part.layers));
  add(ring, "send", bytes.ring_keys * 4, (outer - 1) * part.layers);
  add(ring, "receive", 0, (outer - 1) * (forwards + 2 * part.layers));
}

// A microbatch on a chunk: activations forward, gradients back, over either of its ends.
void add_pipeline(const TrainConfig& c, const ChunkPart& part, int pipeline_rank, Adder& add) {
  const std::int64_t share = StreamBytes(c).residual / c.layout.tensor_model_parallel_size;
  for (const int neighbour : {part.before, part.behind}) {
    if (neighbour < 0 || neighbour == pipeline_rank) continue;
    add("pp", "send", share);
    add("pp", "receive", 0);
    if (c.layout.tensor_model_parallel_size > 1 && !c.layout.sequence_parallel)
      add("tp", "all_gather", share);
  }
}

void add_data_parallel(const TrainConfig& c, const FlatSizes& flat, Adder& add) {
  const std::int64_t n = ranks_of_copy(c);
  const std::int64_t copies = data_and_context_size(c.layout) / n;
  const char* const all = c.layout.context_parallel_size > 1 ? "dp-cp" : "dp";
  const char* const group = n > 1 && copies > 1 ? "dp-shard" : all;
  const std::int64_t microbatches = num_microbatches(c.layout);
  for (const FlatSizes::Region& region : flat.regions) {
    for (const std::int64_t elements : buckets_of(c, region.elements)) {
      if (n == 1) {
        add(group, "all_reduce", 4 * elements);
        continue;
      }
      add(group, "reduce_scatter", 4 * elements, cuts_gradients(c) ? microbatches : 1);
      add(group, "all_gather", storage_size(c) * elements / n,
          region.stays ? 1 : microbatches * region.gathers);
      if (copies > 1) add("dp-replica", "all_reduce", 4 * elements / n);
    }
  }
  add(all, "all_reduce", 16);
  if (n > 1) add(group, "all_reduce", 8 * flat.blocks);
}

// Once a step, over the ranks of one copy of the model.
void add_model_parallel(const TrainConfig& c, const std::vector<ChunkPart>& chunks,
                        std::int64_t parameters, std::int64_t word_table, Adder& add) {
  std::int64_t sequence_partial = 0;
  bool has_end = false;
  for (const ChunkPart& part : chunks) {
    sequence_partial += c.model.hidden_size * (6 * part.layers + (part.head ? 2 : 0));
    has_end = has_end || part.embedding || part.head;
  }
  if (c.layout.sequence_parallel) add("tp", "all_reduce", 4 * sequence_partial);
  if (holders_of_groups(c) > 1) {
    for (const ChunkPart& part : chunks) {
      add("kv", "all_reduce", 8 * c.model.kv_channels * c.model.hidden_size, part.layers);
      add("kv", "all_reduce", 8 * c.model.kv_channels, part.layers);
    }
  }
  const bool is_pipeline = c.layout.pipeline_model_parallel_size > 1;
  if (is_pipeline) add("pp", "all_reduce", 16);
  if (has_end && has_copies(c)) add("embd", "all_reduce", 4 * word_table);
  if (is_pipeline || c.layout.tensor_model_parallel_size > 1) {
    add(is_pipeline ? "mp" : "tp", "all_reduce", 8 * parameters);
  }
}

template <typename Totals>
std::string lines_of(const Totals& totals, std::string_view what) {
  std::string text;
  for (const auto& [key, total] : totals.by_key()) {
    text += fmt::format("{} {}: {} {}, {} bytes\n", key.first, key.second, total.count, what,
                        total.bytes);
  }
  return text;
}

}  // namespace

std::int64_t ranks_of_copy(const TrainConfig& c) {
  if (c.layout.zero_stage == 0) return 1;
  return data_and_context_size(c.layout) / c.layout.num_distributed_optimizer_instances;
}

bool cuts_gradients(const TrainConfig& c) {
  const bool is_alone = data_and_context_size(c.layout) > 1 && !is_sharded(c);
  return c.layout.zero_stage >= 2 && !c.layout.zero_accumulate_unsharded && !is_alone;
}

std::vector<std::int64_t> buckets_of(const TrainConfig& c, std::int64_t region) {
  const std::int64_t size = c.layout.ddp_bucket_size > 0
                                ? round_up(c.layout.ddp_bucket_size, ranks_of_copy(c) * kBlock)
                                : region;
  std::vector<std::int64_t> buckets;
  for (; region > 0; region -= buckets.back()) buckets.push_back(std::min(size, region));
  return buckets;
}

FlatSizes flat_sizes(const TrainConfig& config, std::int64_t vocabulary, int rank) {
  const auto sizes = parameter_sizes(config, vocabulary);
  FlatSizes flat{.parameters = std::ssize(sizes), .regions = {}};
  // In the layout of the whole model.
  std::vector<std::int64_t> offsets(sizes.size(), 0);
  for (std::size_t i = sizes.size() - 1; i > 0; --i) {
    offsets[i - 1] = round_up(offsets[i] + sizes[i].elements, kAlignment);
  }
  const std::int64_t shards = ranks_of_copy(config);
  const GridCoordinates at = rank_grid(config.layout).coordinates(rank);
  const auto groups = groups_of(config, at.pipeline, sizes);
  // Of rows that several ranks have the first one counts.
  const bool is_first_holder = at.tensor % holders_of_groups(config) == 0;
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
    const std::int64_t begin = flat.elements;
    for (auto p = group->parameters.rbegin(); p != group->parameters.rend(); ++p) {
      const std::int64_t place = offsets[p->number] % kBlock;
      const std::int64_t gap = (place - flat.elements % kBlock + kBlock) % kBlock;
      const LocalSize& size = sizes[p->number];
      const std::int64_t counted = size.elements - (is_first_holder ? 0 : size.common);
      if (!p->is_copy) flat.blocks += ceil_divide(place + counted, kBlock);
      flat.elements = round_up(flat.elements + gap + size.elements, kAlignment);
    }
    const bool is_last = group + 1 == groups.rend();
    if (!is_last || shards > 1) flat.elements = round_up(flat.elements, shards * kBlock);
    flat.regions.push_back(
        {flat.elements - begin, group->gathers, group->stays, group->has_no_files});
  }
  return flat;
}

MessageTotals step_messages(const TrainConfig& config, std::int64_t vocabulary, int rank) {
  MessageTotals totals;
  Adder add(totals);
  const FlatSizes flat = flat_sizes(config, vocabulary, rank);
  const GridCoordinates at = rank_grid(config.layout).coordinates(rank);
  const auto chunks = chunks_of(config, at.pipeline);
  const std::int64_t whole_rows = config.data.seq_length * config.layout.micro_batch_size;
  for (std::int64_t m = 0; m < num_microbatches(config.layout); ++m) {
    if (config.layout.tensor_model_parallel_size > 1) {
      const std::int64_t batch = 24 * own_rows(config) + 8 * whole_rows;
      add("tp", "broadcast", at.tensor == 0 ? batch : 0);
      for (const ChunkPart& part : chunks) add_tensor_parallel(config, part, add);
    }
    for (const ChunkPart& part : chunks) {
      if (config.layout.context_parallel_size > 1) add_context_parallel(config, part, add);
      add_pipeline(config, part, at.pipeline, add);
    }
  }
  add_model_parallel(config, chunks, flat.parameters, word_table_size(config, vocabulary), add);
  if (config.layout.context_parallel_size > 1 && config.optimizer.loss_average == "microbatch") {
    add("cp", "all_reduce", 16 * num_microbatches(config.layout));
  }
  if (data_and_context_size(config.layout) > 1) add_data_parallel(config, flat, add);
  return totals;
}

double ring_bytes(std::string_view op, double payload, int size) {
  const double others = size - 1;
  if (op == "all_reduce") return 2.0 * payload * others / size;
  if (op == "reduce_scatter") return payload * others / size;
  PHALANX_CHECK(op == "all_gather", "no ring for {}", op);
  return payload * others;
}

std::string describe(const MessageTotals& totals) { return lines_of(totals, "messages"); }
std::string describe(const TransferTotals& totals) { return lines_of(totals, "transfers"); }

std::int64_t payload(const MessageTotals& totals) {
  std::int64_t bytes = 0;
  for (const auto& [key, total] : totals.by_key()) bytes += total.bytes;
  return bytes;
}

}  // namespace phalanx
