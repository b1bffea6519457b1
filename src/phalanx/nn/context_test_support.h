#pragma once
// Runs a unit on ranks that share the rows of the samples, and their heads: t tensor-parallel ranks
// of each of P ranks of a context, as threads. Joins what they give to whole tensors.

#include "phalanx/mesh/context_cut.h"
#include "phalanx/nn/parallel_test_support.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx::nn {

struct ContextRun {
  UnitRun unit;  // `shape` is of whole samples; `config` has the numbers of ranks
  // By sample, the documents of its rows; empty: those of test_batch().
  std::vector<std::vector<double>> documents = {};
  ContextCut::Kind cut = ContextCut::Kind::kSequence;
  bool recomputes = false;  // the forward pass, from nothing saved
};

// By sample, the rows of a rank.
using CutRows = std::vector<std::vector<std::int64_t>>;
inline CutRows rows_of_rank(const ContextRun& run, int rank) {
  CutRows rows;
  for (std::int64_t b = 0; b < run.unit.shape.micro_batch; ++b) {
    std::vector<std::int32_t> documents;
    if (run.cut == ContextCut::Kind::kDocuments) {
      const Values& of_sample = run.documents[static_cast<std::size_t>(b)];
      documents.assign(of_sample.begin(), of_sample.end());
    }
    const ContextCut cut(run.unit.config.context.size, run.cut);
    auto& own = rows.emplace_back();
    for (const auto& range : cut.rows(run.unit.shape.sequence, documents, rank)) {
      for (std::int64_t i = 0; i < range.count; ++i) own.push_back(range.first + i);
    }
  }
  return rows;
}

// Calls visit(global, local) with the row-major indices of each element of a part [n, b, width].
template <typename Visit>
void for_each_of_rows(const CutRows& rows, std::int64_t width, const Visit& visit) {
  const auto samples = std::ssize(rows);
  for (std::int64_t b = 0; b < samples; ++b) {
    const auto& of_sample = rows[static_cast<std::size_t>(b)];
    for (std::int64_t s = 0; s < std::ssize(of_sample); ++s) {
      for (std::int64_t i = 0; i < width; ++i) {
        visit((of_sample[static_cast<std::size_t>(s)] * samples + b) * width + i,
              (s * samples + b) * width + i);
      }
    }
  }
}

inline Tensor cut_column(ops::Operands& operands, const Tensor& whole, const CutRows& rows) {
  const Values all = values_of(whole);
  const std::int64_t samples = std::ssize(rows);
  Values own(rows[0].size() * rows.size());
  for_each_of_rows(rows, 1, [&](std::int64_t global, std::int64_t local) {
    own[static_cast<std::size_t>(local)] = all[static_cast<std::size_t>(global)];
  });
  return operands.values(whole.dtype, {std::ssize(rows[0]), samples}, own);
}

// The rank's part of the batch of whole samples.
inline Batch context_batch(ops::Operands& operands, const ContextRun& run, int rank) {
  const BatchShape& shape = run.unit.shape;
  const int ranks = run.unit.config.context.size;
  Batch whole = test_batch(operands, shape, run.unit.vocabulary);
  if (!run.documents.empty()) {
    Values documents;
    for (std::int64_t i = 0; i < shape.rows(); ++i) {
      documents.push_back(run.documents[static_cast<std::size_t>(i % shape.micro_batch)]
                                       [static_cast<std::size_t>(i / shape.micro_batch)]);
    }
    whole.rows[0].document =
        operands.values(DType::kI32, {shape.sequence, shape.micro_batch}, documents);
  }
  if (ranks == 1) return whole;
  CutRows all(static_cast<std::size_t>(shape.micro_batch));
  for (int other = 0; other < ranks; ++other) {
    const CutRows rows = rows_of_rank(run, other);
    for (std::size_t b = 0; b < all.size(); ++b) {
      all[b].insert(all[b].end(), rows[b].begin(), rows[b].end());
    }
  }
  const CutRows own = rows_of_rank(run, rank);
  Batch batch = whole;
  for (Tensor& column : batch.columns) column = cut_column(operands, column, own);
  const RowCoordinates& rows = whole.rows[0];
  batch.rows[0] = {.sample = cut_column(operands, rows.sample, own),
                   .position = cut_column(operands, rows.position, own),
                   .document = cut_column(operands, rows.document, own)};
  batch.all_rows = {.sample = {},
                    .position = cut_column(operands, rows.position, all),
                    .document = cut_column(operands, rows.document, all)};
  return batch;
}

// One rank's results; `ranks` has what joins the tensor-parallel ranks.
struct ContextRank {
  RankResult ranks;
  std::map<std::string, Values> saved;
  Recorder recorder;  // of the passes

  MessageTotals messages() const {
    MessageTotals totals;
    totals.add(recorder.messages());
    return totals;
  }
};

// The groups of a rank.
struct ContextGroups {
  std::unique_ptr<Communicator> tensor, context, heads, ring;
};

// Rank k + t * (a + A * g) of the world is tensor-parallel rank k, rank a of its heads' exchange
// and rank g of its ring.
inline ContextGroups split_world(Communicator& world, const TransformerConfig& config) {
  const auto split = [&](const auto& key, std::string name) {
    std::map<int, std::vector<int>> members;
    for (int rank = 0; rank < world.size(); ++rank) members[key(rank)].push_back(rank);
    std::vector<std::vector<int>> groups;
    for (auto& [number, ranks] : members) groups.push_back(ranks);
    return world.split(groups, std::move(name));
  };
  const int t = config.tensor.size;
  const int a = config.context.inner;
  return {.tensor = split([=](int rank) { return rank / t; }, "tp"),
          .context = split([=](int rank) { return rank % t; }, "cp"),
          .heads = split([=](int rank) { return rank % t + rank / (t * a) * t; }, "cp heads"),
          .ring = split([=](int rank) { return rank % (t * a); }, "cp ring")};
}

inline ContextRank run_on_context_rank(const ContextRun& all_ranks, Communicator& world) {
  const UnitRun& run = all_ranks.unit;
  TransformerConfig config = run.config;
  const ContextGroups groups = split_world(world, config);
  const auto backend = run.backend();
  Arena memory("operands", 24 << 20);
  Arena workspace("workspace", 24 << 20);
  Context context{.backend = *backend, .workspace = workspace};
  ops::Operands operands(memory, config.dtype, context);
  const auto alone = [](const std::unique_ptr<Communicator>& group) {
    return group->size() == 1 ? nullptr : group.get();
  };
  config.tensor.rank = groups.tensor->rank();
  const int rank = groups.context->rank();
  LayerFixture all;
  all.region = TensorRegion(config.tensor, alone(groups.tensor));
  all.shape = run.shape;
  all.shape.sequence /= config.context.size;
  all.shape.context_shards = config.context.size;
  all.shape.sequence_shards = config.tensor.sequence_shards();
  const auto unit = run.make(all.table, config);
  all.allocate(operands, unit->saved_slots(), run.vocabulary);
  // With random numbers of its own, so that all ranks cut the same batch.
  ops::Operands whole(memory, config.dtype, context);
  all.batch = context_batch(whole, all_ranks, rank);
  all.loss_settings.mean_of_microbatch = run.mean_of_microbatch;
  all.losses.factor = 1.0 / static_cast<double>(run.shape.rows());
  set_parameters(all.table, all.parameters);

  std::vector<Tensor> in, din, out, dout;
  const std::int64_t stream_rows = all.shape.stream_rows();
  const std::int64_t first = config.tensor.sequence ? config.tensor.rank * stream_rows : 0;
  const auto stream = [&](const StreamSpec& spec) {
    return operands.output(spec.dtype,
                           {all.shape.stream_sequence(), all.shape.micro_batch, spec.width});
  };
  const auto set = [&](const Tensor& tensor, const std::string& name) {
    const std::int64_t width = tensor.shape.back();
    for_each_of_rows(rows_of_rank(all_ranks, rank), width,
                     [&](std::int64_t global, std::int64_t local) {
                       const std::int64_t place = local - first * width;
                       if (place < 0 || place >= tensor.count()) return;
                       write_element(tensor, place, noise_at(name, global));
                     });
  };
  for (const auto& spec : unit->inputs()) {
    in.push_back(stream(spec));
    din.push_back(stream(spec));
    set(in.back(), "input");
  }
  for (const auto& spec : unit->outputs()) {
    out.push_back(stream(spec));
    dout.push_back(stream(spec));
    set(dout.back(), "output gradient");
  }
  Pass pass = all.pass(context);
  pass.training = run.training;
  if (config.context.is_parallel()) {
    pass.context = ContextRegion(groups.context.get(), alone(groups.heads), alone(groups.ring));
  }
  ContextRank result;
  context.recorder = &result.recorder;
  unit->forward(pass, in, out, all.saved());
  if (all_ranks.recomputes) {
    for (const Tensor& saved : all.saved_tensors) operands.poison(saved);
    unit->recompute(pass, in, all.saved());
  }
  if (run.fused_backward) {
    unit->backward(pass, in, dout, din, all.saved(), all.gradients);
  } else {
    unit->backward_input(pass, in, dout, din, all.saved());
    unit->backward_weight(pass, in, all.saved(), all.gradients);
  }
  context.recorder = nullptr;
  all.join(context);
  if (!out.empty()) result.ranks.output = values_of(out[0]);
  if (!din.empty()) result.ranks.input_gradient = values_of(din[0]);
  result.ranks.loss = values_of(all.losses.sum)[0];
  result.ranks.tokens = values_of(all.losses.count)[0];
  result.ranks.table = all.table;
  for (const Tensor& gradient : all.gradient_tensors) {
    result.ranks.gradients.push_back(values_of(gradient));
  }
  for (std::size_t i = 0; i < all.saved_tensors.size(); ++i) {
    result.saved[unit->saved_slots()[i].name] = values_of(all.saved_tensors[i]);
  }
  return result;
}

// By rank of the world.
inline std::vector<ContextRank> run_context(const ContextRun& run) {
  const TransformerConfig& config = run.unit.config;
  const int size = config.tensor.size * config.context.size;
  std::vector<ContextRank> ranks(static_cast<std::size_t>(size));
  run_local_ranks(size, {}, [&](Communicator& world) {
    ranks[static_cast<std::size_t>(world.rank())] = run_on_context_rank(run, world);
  });
  return ranks;
}

// Joins a part [n, b, width] of each rank of the context to [S, b, width].
inline Values join_rows(const ContextRun& run, const std::vector<Values>& parts) {
  Values whole;
  for (const Values& part : parts) whole.resize(whole.size() + part.size());
  const std::int64_t width = std::ssize(whole) / run.unit.shape.rows();
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    for_each_of_rows(rows_of_rank(run, static_cast<int>(rank)), width,
                     [&](std::int64_t global, std::int64_t local) {
                       whole[static_cast<std::size_t>(global)] =
                           parts[rank][static_cast<std::size_t>(local)];
                     });
  }
  return whole;
}

inline UnitResult join_context(const ContextRun& run, const std::vector<ContextRank>& ranks) {
  const TransformerConfig& config = run.unit.config;
  UnitResult result;
  std::vector<Values> outputs, input_gradients;
  for (int part = 0; part < config.context.size; ++part) {
    std::vector<RankResult> group;
    for (int k = 0; k < config.tensor.size; ++k) {
      group.push_back(ranks[static_cast<std::size_t>(part * config.tensor.size + k)].ranks);
    }
    const bool sequence = config.tensor.sequence;
    outputs.push_back(whole_stream(group, &RankResult::output, sequence));
    input_gradients.push_back(whole_stream(group, &RankResult::input_gradient, sequence));
    result.loss += group[0].loss;
    result.tokens += group[0].tokens;
    for (ParamId id = 0; id < group[0].table.size(); ++id) {
      const Values gradient = whole_gradient(group, id);
      Values& sum = result.gradients[group[0].table[id].name];
      sum.resize(gradient.size());
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += gradient[i];
    }
  }
  if (!outputs[0].empty()) result.output = join_rows(run, outputs);
  if (!input_gradients[0].empty()) result.input_gradient = join_rows(run, input_gradients);
  return result;
}

inline UnitResult context_result_of(const ContextRun& run) {
  return join_context(run, run_context(run));
}

// The same on one rank.
inline ContextRun on_one_rank(ContextRun run) {
  run.unit.config.tensor = {};
  run.unit.config.context = {};
  return run;
}

}  // namespace phalanx::nn
