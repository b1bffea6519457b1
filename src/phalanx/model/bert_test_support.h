#pragma once
// A tiny BERT whose weights and batch are formulas, on any number of tensor-parallel ranks, for
// tests. The numbers that it must give were computed by Megatron-core 0.16.1 in double precision.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "phalanx/base/text_batches.h"
#include "phalanx/model/batch_binding.h"
#include "phalanx/model/bert.h"
#include "phalanx/nn/parallel_test_support.h"

namespace phalanx {

// A 32-bit hash of element i of parameter number q.
inline std::uint32_t formula_hash(std::uint64_t i, std::uint64_t q) {
  auto x = static_cast<std::uint32_t>(i * 0x9E3779B1U + q * 0x85EBCA77U);
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  return x ^ (x >> 16);
}

struct TinyBertBatch {
  std::int64_t sequence = 16;
  std::vector<std::vector<int>> tokens, types;
  std::vector<std::int64_t> lengths;  // what follows is padding
  struct Masked {
    std::size_t sample, position;
    int label;
  };
  std::vector<Masked> masked;
  std::vector<int> is_random;

  // The batch of one of its samples.
  TinyBertBatch only(std::size_t sample) const {
    TinyBertBatch batch{.sequence = sequence,
                        .tokens = {tokens[sample]},
                        .types = {types[sample]},
                        .lengths = {lengths[sample]},
                        .masked = {},
                        .is_random = {is_random[sample]}};
    for (const Masked& row : masked) {
      if (row.sample == sample) batch.masked.push_back({0, row.position, row.label});
    }
    return batch;
  }
};

inline TinyBertBatch tiny_bert_batch() {
  return {.tokens = {{2, 13, 23, 4, 49, 6, 24, 3, 7, 31, 4, 26, 56, 29, 63, 3},
                     {2, 24, 34, 46, 3, 4, 35, 55, 18, 42, 3, 0, 0, 0, 0, 0}},
          .types = {{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1},
                    {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}},
          .lengths = {16, 11},
          .masked = {{0, 3, 23}, {0, 10, 17}, {1, 5, 50}},
          .is_random = {0, 1}};
}

inline BertConfig tiny_bert_config() {
  nn::TransformerConfig transformer;
  transformer.num_layers = 2;
  transformer.hidden = 16;
  transformer.ffn_hidden = 64;
  transformer.heads = 4;
  transformer.query_groups = 4;
  transformer.head_size = 4;
  transformer.causal = false;
  transformer.stack = "encoder";
  transformer.dtype = DType::kF64;
  transformer.dropout_key = random_key(11, RandomPurpose::kDropout);
  BertConfig config;
  config.transformer = transformer;
  config.vocabulary = 64;
  config.padded_vocabulary = 64;
  config.max_positions = 16;
  config.sequence = 16;
  return config;
}

// The columns of a batch on the device.
inline nn::Batch bert_batch_of(ops::Operands& operands, const TinyBertBatch& batch) {
  const auto samples = static_cast<std::int64_t>(batch.tokens.size());
  const BatchSchema schema = bert_batch_schema(batch.sequence);
  std::map<std::string, std::vector<double>> columns;
  for (std::int64_t s = 0; s < batch.sequence; ++s) {
    for (std::int64_t b = 0; b < samples; ++b) {
      const auto at = static_cast<std::size_t>(s);
      const auto sample = static_cast<std::size_t>(b);
      columns["sample"].push_back(static_cast<double>(b));
      columns["position"].push_back(static_cast<double>(s));
      columns["position_ids"].push_back(static_cast<double>(s));
      columns["document"].push_back(s < batch.lengths[sample] ? 0.0 : -1.0);
      columns["tokens"].push_back(batch.tokens[sample][at]);
      columns["types"].push_back(batch.types[sample][at]);
      const auto row = std::ranges::find_if(batch.masked, [&](const auto& masked) {
        return masked.sample == sample && masked.position == at;
      });
      columns["loss_mask"].push_back(row == batch.masked.end() ? 0.0 : 1.0);
      columns["labels"].push_back(row == batch.masked.end() ? -1.0 : row->label);
    }
  }
  columns["is_random"].assign(batch.is_random.begin(), batch.is_random.end());
  std::vector<Tensor> tensors;
  for (const BatchColumn& column : schema.columns()) {
    const auto& values = columns.at(column.name);
    const Shape extents =
        column.name == "is_random" ? Shape{1, samples} : Shape{batch.sequence, samples};
    tensors.push_back(operands.values(column.dtype, extents, values));
  }
  return bind_batch(schema, std::move(tensors));
}

// The name by which a parameter has its number: norms of a post-norm layer have the numbers of a
// pre-norm layer's.
inline std::string name_in_formula(std::string name) {
  for (const auto& [from, to] : {std::pair("post_self_attn_layernorm", "input_layernorm"),
                                 std::pair("post_mlp_layernorm", "pre_mlp_layernorm")}) {
    const auto at = name.find(from);
    if (at != std::string::npos) name.replace(at, std::string(from).size(), to);
  }
  return name;
}

// 0.3 sqrt(3) (2 hash / 2^32 - 1), and 1 more for the weights of norms, rounded to float.
// Parameters are numbered by their names in byte order.
inline void set_formula_weights(const nn::ParamTable& table, const std::vector<Tensor>& tensors) {
  std::set<std::string> names;
  for (const ParamSpec& spec : table.specs()) names.insert(name_in_formula(spec.name));
  for (ParamId id = 0; id < table.size(); ++id) {
    const ParamSpec& spec = table[id];
    const auto q = static_cast<std::uint64_t>(
        std::distance(names.begin(), names.find(name_in_formula(spec.name))));
    const bool scale =
        spec.name.ends_with("weight") && (spec.name.find("layernorm") != std::string::npos ||
                                          spec.name.find("layer_norm") != std::string::npos);
    nn::for_each_place(spec, [&](std::int64_t global, std::int64_t local) {
      const double hash = formula_hash(static_cast<std::uint64_t>(global), q);
      const double noise = 0.3 * std::numbers::sqrt3 * (2.0 * hash / 0x1p32 - 1.0);
      nn::write_element(tensors[static_cast<std::size_t>(id)], local,
                        static_cast<float>(noise + (scale ? 1.0 : 0.0)));
    });
  }
}

// Its parameters, gradients and saved tensors lie in the operands' arena.
struct TinyBert {
  TinyBert(ops::Operands& operands, const BertConfig& bert, const TinyBertBatch& batch,
           Communicator* group = nullptr)
      : model(bert), chunk(model.build_chunk(model.whole(), all.table)) {
    const TensorParallel& tensor = bert.transformer.tensor;
    const auto samples = static_cast<std::int64_t>(batch.tokens.size());
    all.region = TensorRegion(tensor, group);
    all.shape = {.sequence = batch.sequence,
                 .micro_batch = samples,
                 .sequence_shards = tensor.sequence_shards()};
    all.allocate(operands, {}, bert.vocabulary);
    all.loss_settings.loss_scale = operands.filled(operands.full(), {1}, 1.0);
    all.batch = bert_batch_of(operands, batch);
    set_formula_weights(all.table, all.parameters);
    for (const double count :
         {static_cast<double>(batch.masked.size()), static_cast<double>(samples)}) {
      losses.push_back({.sum = operands.filled(DType::kF64, {1}, 0.0),
                        .count = operands.filled(DType::kF64, {1}, 0.0),
                        .factor = 1.0 / count});
    }
    for (const auto& saved : chunk.saved_tensors(all.shape, false)) {
      tensors.push_back(operands.output(saved.dtype, saved.shape));
    }
  }
  TinyBert(const TinyBert&) = delete;
  TinyBert& operator=(const TinyBert&) = delete;

  nn::Pass pass(Context& context) {
    nn::Pass pass = all.pass(context);
    pass.losses = losses;
    return pass;
  }
  void forward(Context& context) {
    for (const nn::LossTerm& term : losses) {
      ops::fill(context, {.x = term.sum, .value = 0.0});
      ops::fill(context, {.x = term.count, .value = 0.0});
    }
    nn::Pass of_chunk = pass(context);
    chunk.forward(of_chunk, tensors, hooks, 0);
  }
  void backward(Context& context, bool fused) {
    nn::Pass of_chunk = pass(context);
    if (fused) {
      chunk.backward(of_chunk, tensors, all.gradients, hooks, 0);
    } else {
      chunk.backward_input(of_chunk, tensors, hooks, 0);
      chunk.backward_weight(of_chunk, tensors, all.gradients, hooks, 0);
    }
    all.join(context);
  }
  // The parameter of that name.
  Tensor parameter(const std::string& name) const {
    for (ParamId id = 0; id < all.table.size(); ++id) {
      if (all.table[id].name == name) return all.parameters[static_cast<std::size_t>(id)];
    }
    throw InternalError("no parameter {}", name);
  }

  nn::LayerFixture all;
  BertModel model;
  Chunk chunk;
  std::vector<nn::LossTerm> losses;
  std::vector<Tensor> tensors;
  nn::UnitHooks hooks;
};

struct BertLoss {
  double sum = 0.0, count = 0.0;
  double mean() const { return sum / count; }
  friend bool operator==(const BertLoss&, const BertLoss&) = default;
};

// Losses, and the gradient of "lm loss" + "sop loss", each a mean.
struct BertResult {
  std::array<BertLoss, 2> losses;  // the second stays empty without a binary head
  std::map<std::string, nn::Values> gradients;

  const BertLoss& lm() const { return losses[0]; }
  const BertLoss& sop() const { return losses[1]; }
  double norm(const std::string& name) const {
    double sum = 0.0;
    for (const double value : gradients.at(name)) sum += value * value;
    return std::sqrt(sum);
  }
  friend bool operator==(const BertResult&, const BertResult&) = default;
};

struct BertRun {
  BertConfig config = tiny_bert_config();
  TinyBertBatch batch = tiny_bert_batch();
  bool fused = true;                                // the order of the backward passes
  std::function<void(TinyBert&)> change = nullptr;  // of what is computed with
  std::function<std::unique_ptr<Backend>()> backend = make_ref_backend;
};

inline BertResult run_bert(const BertRun& run) {
  const int size = run.config.transformer.tensor.size;
  std::vector<nn::RankResult> ranks(static_cast<std::size_t>(size));
  std::vector<std::array<BertLoss, 2>> losses(ranks.size());
  run_local_ranks(size, {}, [&](Communicator& world) {
    const auto place = static_cast<std::size_t>(world.rank());
    const auto backend = run.backend();
    Arena memory("operands", 32 << 20);
    Arena workspace("workspace", 8 << 20);
    Context context{.backend = *backend, .workspace = workspace};
    ops::Operands operands(memory, run.config.transformer.dtype, context);
    BertConfig config = run.config;
    config.transformer.tensor.rank = world.rank();
    TinyBert bert(operands, config, run.batch, size == 1 ? nullptr : &world);
    if (run.change) run.change(bert);
    bert.forward(context);
    bert.backward(context, run.fused);
    for (std::size_t i = 0; i < bert.losses.size(); ++i) {
      losses[place][i] = {nn::values_of(bert.losses[i].sum)[0],
                          nn::values_of(bert.losses[i].count)[0]};
    }
    ranks[place].table = bert.all.table;
    for (const auto& gradient : bert.all.gradient_tensors) {
      ranks[place].gradients.push_back(nn::values_of(gradient));
    }
  });
  BertResult result{.losses = losses[0], .gradients = {}};
  for (const auto& of_rank : losses) EXPECT_EQ(of_rank, losses[0]);
  for (ParamId id = 0; id < ranks[0].table.size(); ++id) {
    result.gradients[ranks[0].table[id].name] = nn::whole_gradient(ranks, id);
  }
  return result;
}

}  // namespace phalanx
