#include "message_formulas.h"

#include <fmt/core.h>

#include <algorithm>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {
namespace {

constexpr std::int64_t kAlignment = 64;   // elements: where parameters begin
constexpr std::int64_t kBlock = 4096;     // elements: of the norm, and of what buckets are made of
constexpr std::int64_t kLogitRows = 256;  // at a time

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Local sizes of all parameters, in order.
std::vector<std::int64_t> parameter_sizes(const TrainConfig& c, std::int64_t vocabulary) {
  const std::int64_t t = c.tensor_model_parallel_size;
  const std::int64_t h = c.hidden_size;
  const std::int64_t f = c.ffn_hidden_size;
  const std::int64_t table = round_up(vocabulary, c.make_vocab_size_divisible_by * t) / t * h;
  std::vector<std::int64_t> sizes = {table, c.max_position_embeddings * h};
  for (std::int64_t layer = 0; layer < c.num_layers; ++layer) {
    sizes.insert(sizes.end(), {h, h, 3 * h * h / t, 3 * h / t, h * h / t, h, h, h, f * h / t, f / t,
                               h * f / t, h});
  }
  sizes.insert(sizes.end(), {h, h});
  if (c.untie_embeddings_and_output_weights) sizes.push_back(table);
  return sizes;
}

bool is_sharded(const TrainConfig& c) {
  return c.use_distributed_optimizer && data_parallel_size(c) > 1;
}

std::int64_t storage_size(const TrainConfig& c) { return c.bf16 || c.fp16 ? 2 : 4; }

// Adds up messages.
class Adder {
 public:
  explicit Adder(MessageTotals& totals) : totals_(totals) {}
  void operator()(const char* group, std::string_view op, std::int64_t bytes,
                  std::int64_t times = 1) {
    if (times > 0) totals_.add({{group, op, bytes}}, times);
  }

 private:
  MessageTotals& totals_;
};

// Layers of each group that is recomputed together.
std::vector<std::int64_t> recompute_groups(const TrainConfig& c) {
  std::vector<std::int64_t> groups;
  if (c.recompute_granularity != "full") return groups;
  if (c.recompute_method == "block") {
    groups.assign(static_cast<std::size_t>(c.recompute_num_layers), 1);
    return groups;
  }
  for (std::int64_t left = c.num_layers; left > 0; left -= c.recompute_num_layers) {
    groups.push_back(std::min(left, c.recompute_num_layers));
  }
  return groups;
}

void add_microbatch(const TrainConfig& c, bool is_first, Adder& add) {
  const std::int64_t t = c.tensor_model_parallel_size;
  const std::int64_t rows = c.seq_length * c.micro_batch_size;
  const std::int64_t e = storage_size(c) * rows * c.hidden_size;
  const std::int64_t r = (c.fp32_residual_connection ? 4 : storage_size(c)) * rows * c.hidden_size;
  const bool sequence = c.sequence_parallel;
  const char* leave = sequence ? "reduce_scatter" : "all_reduce";

  add("tp", "broadcast", is_first ? 32 * rows : 0);
  const std::int64_t piece = storage_size(c) == 4 ? rows : kLogitRows;
  add("tp", "all_gather", 12 * piece, rows / piece);
  if (rows % piece > 0) add("tp", "all_gather", 12 * (rows % piece));

  add("tp", leave, r);
  add("tp", leave, e, 4 * c.num_layers + 1);
  if (sequence) add("tp", "all_gather", e / t, 6 * c.num_layers + 3);
  for (const std::int64_t layers : recompute_groups(c)) {
    add("tp", leave, e, 2 * layers - 1);
    if (sequence) add("tp", "all_gather", e / t, 2 * layers);
    if (c.distribute_saved_activations) add("tp", "all_gather", r / t);
  }
}

void add_data_parallel(const TrainConfig& c, const FlatSizes& flat, Adder& add) {
  const std::int64_t d = data_parallel_size(c);
  const std::int64_t grain = is_sharded(c) ? d * kBlock : kBlock;
  const std::int64_t bucket =
      c.ddp_bucket_size > 0 ? round_up(c.ddp_bucket_size, grain) : flat.elements;
  std::int64_t left = flat.elements;
  for (; left > 0; left -= std::min(bucket, left)) {
    const std::int64_t elements = std::min(bucket, left);
    if (is_sharded(c)) {
      add("dp", "reduce_scatter", 4 * elements);
      add("dp", "all_gather", storage_size(c) * elements / d);
    } else {
      add("dp", "all_reduce", 4 * elements);
    }
  }
  add("dp", "all_reduce", 16);
  if (is_sharded(c)) add("dp", "all_reduce", 8 * flat.blocks);
}

}  // namespace

FlatSizes flat_sizes(const TrainConfig& config, std::int64_t vocabulary) {
  const auto sizes = parameter_sizes(config, vocabulary);
  FlatSizes flat{.parameters = std::ssize(sizes)};
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    flat.blocks += ceil_divide(flat.elements % kBlock + *size, kBlock);
    flat.elements = round_up(flat.elements + *size, kAlignment);
  }
  if (is_sharded(config)) {
    flat.elements = round_up(flat.elements, data_parallel_size(config) * kBlock);
  }
  return flat;
}

MessageTotals step_messages(const TrainConfig& config, std::int64_t vocabulary, int rank) {
  MessageTotals totals;
  Adder add(totals);
  const FlatSizes flat = flat_sizes(config, vocabulary);
  const std::int64_t h = config.hidden_size;
  if (config.tensor_model_parallel_size > 1) {
    const bool is_first = rank % config.tensor_model_parallel_size == 0;
    for (std::int64_t m = 0; m < num_microbatches(config); ++m) {
      add_microbatch(config, is_first, add);
    }
    add("tp", "all_reduce", 8 * flat.parameters);
    if (config.sequence_parallel) {
      add("tp", "all_reduce", 4 * (6 * h * config.num_layers + 2 * h));
    }
  }
  if (data_parallel_size(config) > 1) add_data_parallel(config, flat, add);
  return totals;
}

double ring_bytes(std::string_view op, double payload, int size) {
  const double others = size - 1;
  if (op == "all_reduce") return 2.0 * payload * others / size;
  if (op == "reduce_scatter") return payload * others / size;
  PHALANX_CHECK(op == "all_gather", "no ring for {}", op);
  return payload * others;
}

std::string describe(const MessageTotals& totals) {
  std::string text;
  for (const auto& [key, total] : totals.by_key()) {
    text += fmt::format("{} {}: {} messages, {} bytes\n", key.first, key.second, total.count,
                        total.bytes);
  }
  return text;
}

std::int64_t payload(const MessageTotals& totals) {
  std::int64_t bytes = 0;
  for (const auto& [key, total] : totals.by_key()) bytes += total.bytes;
  return bytes;
}

}  // namespace phalanx
