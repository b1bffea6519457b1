#pragma once
// Runs a unit on any number of tensor-parallel ranks, as threads, and joins the results of its
// passes to whole tensors, which must be the same under every layout.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::nn {

using Values = std::vector<double>;

// A number in [-0.5, 0.5) for an index in a named whole tensor: a multiple of 1 / 128, which is
// exact in 16-bit types.
inline double noise_at(const std::string& name, std::int64_t index) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  hash = (hash ^ static_cast<std::uint64_t>(index)) * 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<double>(hash >> 57) / 128.0 - 0.5;
}

// Calls visit(global, local) with row-major indices of every element that a rank holds.
template <typename Visit>
void for_each_place(const ParamSpec& spec, const Visit& visit) {
  const std::int64_t global_columns = matrix_columns(spec.global_shape);
  const std::int64_t local_columns = matrix_columns(spec.local_shape);
  for (const ParamBox& box : spec.boxes) {
    for (std::int64_t r = 0; r < box.rows; ++r) {
      for (std::int64_t c = 0; c < box.columns; ++c) {
        visit((box.global_row + r) * global_columns + box.global_column + c,
              (box.local_row + r) * local_columns + box.local_column + c);
      }
    }
  }
}

inline void write_element(const Tensor& tensor, std::int64_t index, double value) {
  ref::store(tensor.data() + index * size_of(tensor.dtype), tensor.dtype, value);
}

// Norm weights around 1, everything else around 0; padding is not zero.
inline void set_parameters(const ParamTable& table, const std::vector<Tensor>& tensors) {
  for (ParamId id = 0; id < table.size(); ++id) {
    const ParamSpec& spec = table[id];
    const Tensor& tensor = tensors[static_cast<std::size_t>(id)];
    for (std::int64_t i = 0; i < tensor.count(); ++i) write_element(tensor, i, 0.75);
    const double centre = spec.name.ends_with("norm.weight") ? 1.0 : 0.0;
    for_each_place(spec, [&](std::int64_t global, std::int64_t local) {
      write_element(tensor, local, centre + noise_at(spec.name, global));
    });
  }
}

// Sets a stream [s, b, width] by name, or this rank's rows of it.
inline void set_stream(const TensorRegion& region, const Tensor& stream, const std::string& name) {
  const std::int64_t first = region.layout().sequence ? region.layout().rank * stream.count() : 0;
  for (std::int64_t i = 0; i < stream.count(); ++i) {
    write_element(stream, i, noise_at(name, first + i));
  }
}

// Whole tensors; empty if the unit has no output or input.
struct UnitResult {
  Values output, input_gradient;
  double loss = 0.0, tokens = 0.0;
  std::map<std::string, Values> gradients;  // by parameter

  friend bool operator==(const UnitResult&, const UnitResult&) = default;
};

using MakeUnit =
    std::function<std::unique_ptr<Unit>(ParamTable& table, const TransformerConfig& config)>;

struct UnitRun {
  MakeUnit make;
  TransformerConfig config;  // `tensor` has the number of ranks; the rank is filled in
  BatchShape shape{.sequence = 8, .micro_batch = 2};
  std::int64_t vocabulary = 11;
  bool fused_backward = false;
  bool training = true;
  bool mean_of_microbatch = false;  // of the loss
  std::function<std::unique_ptr<Backend>()> backend = make_ref_backend;
};

// The results of one rank, and the specifications by which they are joined.
struct RankResult {
  Values output, input_gradient;
  double loss = 0.0, tokens = 0.0;
  ParamTable table;
  std::vector<Values> gradients;
};

inline RankResult run_on_rank(const UnitRun& run, TransformerConfig config, Communicator& world) {
  const auto backend = run.backend();
  Arena memory("operands", 8 << 20);
  Arena workspace("workspace", 8 << 20);
  Context context{.backend = *backend, .workspace = workspace};
  ops::Operands operands(memory, config.dtype, context);
  config.tensor.rank = world.rank();
  LayerFixture all;
  all.region = TensorRegion(config.tensor, world.size() == 1 ? nullptr : &world);
  all.shape = run.shape;
  all.shape.sequence_shards = config.tensor.sequence_shards();
  const auto unit = run.make(all.table, config);
  all.allocate(operands, unit->saved_slots(), run.vocabulary);
  all.loss_settings.mean_of_microbatch = run.mean_of_microbatch;
  set_parameters(all.table, all.parameters);

  std::vector<Tensor> in, din, out, dout;
  const auto stream = [&](const StreamSpec& spec) {
    return operands.output(spec.dtype,
                           {all.shape.stream_sequence(), all.shape.micro_batch, spec.width});
  };
  for (const auto& spec : unit->inputs()) {
    in.push_back(stream(spec));
    din.push_back(stream(spec));
    set_stream(all.region, in.back(), "input");
  }
  for (const auto& spec : unit->outputs()) {
    out.push_back(stream(spec));
    dout.push_back(stream(spec));
    set_stream(all.region, dout.back(), "output gradient");
  }
  Pass pass = all.pass(context);
  pass.training = run.training;
  unit->forward(pass, in, out, all.saved());
  if (run.fused_backward) {
    unit->backward(pass, in, dout, din, all.saved(), all.gradients);
  } else {
    unit->backward_input(pass, in, dout, din, all.saved());
    unit->backward_weight(pass, in, all.saved(), all.gradients);
  }
  all.join(context);
  RankResult result;
  if (!out.empty()) result.output = values_of(out[0]);
  if (!din.empty()) result.input_gradient = values_of(din[0]);
  result.loss = values_of(all.losses.sum)[0];
  result.tokens = values_of(all.losses.count)[0];
  result.table = all.table;
  for (const auto& gradient : all.gradient_tensors) result.gradients.push_back(values_of(gradient));
  return result;
}

// The parameter's gradient as one tensor: parts are joined, gradients from parts of the sequence
// are summed, copies must agree. Padding has no gradient.
inline Values whole_gradient(const std::vector<RankResult>& ranks, ParamId id) {
  const ParamSpec& first = ranks[0].table[id];
  Values whole(static_cast<std::size_t>(first.global_shape.count()), 0.0);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const ParamSpec& spec = ranks[r].table[id];
    Values values = ranks[r].gradients[static_cast<std::size_t>(id)];
    // Experts are summed over their own ranks, and here each rank has all of them.
    const bool is_copy = spec.domain == ReductionDomain::kDense &&
                         !spec.cut_over.has(Axis::kTensor) && !spec.summed_over.has(Axis::kTensor);
    if (is_copy && r > 0) {
      EXPECT_EQ(values, ranks[0].gradients[static_cast<std::size_t>(id)]) << spec.name;
      continue;
    }
    for_each_place(spec, [&](std::int64_t global, std::int64_t local) {
      whole[static_cast<std::size_t>(global)] += values[static_cast<std::size_t>(local)];
      values[static_cast<std::size_t>(local)] = 0.0;
    });
    for (const double rest : values) EXPECT_EQ(rest, 0.0) << spec.name << ": padding";
  }
  return whole;
}

inline Values whole_stream(const std::vector<RankResult>& ranks, Values RankResult::*stream,
                           bool sequence) {
  Values whole = ranks[0].*stream;
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    const Values& part = ranks[r].*stream;
    if (sequence) {
      whole.insert(whole.end(), part.begin(), part.end());
    } else {
      EXPECT_EQ(part, whole);
    }
  }
  return whole;
}

inline UnitResult result_of(const UnitRun& run) {
  std::vector<RankResult> ranks(static_cast<std::size_t>(run.config.tensor.size));
  run_local_ranks(run.config.tensor.size, {}, [&](Communicator& world) {
    ranks[static_cast<std::size_t>(world.rank())] = run_on_rank(run, run.config, world);
  });
  const bool sequence = run.config.tensor.sequence;
  UnitResult result{.output = whole_stream(ranks, &RankResult::output, sequence),
                    .input_gradient = whole_stream(ranks, &RankResult::input_gradient, sequence),
                    .loss = ranks[0].loss,
                    .tokens = ranks[0].tokens,
                    .gradients = {}};
  for (const RankResult& rank : ranks) {
    EXPECT_EQ(rank.loss, result.loss);
    EXPECT_EQ(rank.tokens, result.tokens);
  }
  for (ParamId id = 0; id < ranks[0].table.size(); ++id) {
    result.gradients[ranks[0].table[id].name] = whole_gradient(ranks, id);
  }
  return result;
}

// |a - b| / |b|, Euclidean.
inline double relative_error(const Values& a, const Values& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return b.empty() ? 0.0 : std::sqrt(difference / norm);
}

inline void expect_near(const Values& actual, const Values& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << what << " " << i;
  }
}

inline void expect_near(const UnitResult& actual, const UnitResult& expected, double tolerance) {
  expect_near(actual.output, expected.output, tolerance, "output");
  expect_near(actual.input_gradient, expected.input_gradient, tolerance, "input gradient");
  EXPECT_NEAR(actual.loss, expected.loss, tolerance);
  EXPECT_EQ(actual.tokens, expected.tokens);
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    expect_near(actual.gradients.at(name), gradient, tolerance, name);
  }
}

}  // namespace phalanx::nn
