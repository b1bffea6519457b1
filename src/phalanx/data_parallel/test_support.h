#pragma once
// Parameters and gradients whose numbers are functions of rank and place, for tests of data
// parallelism and of optimizers.

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "phalanx/data_parallel/data_parallel.h"
#include "phalanx/nn/test_support.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {

using Values = std::vector<double>;

// Sizes shorter and longer than a sum block, none a multiple of anything.
inline nn::ParamTable uneven_table(DType dtype) {
  constexpr Initialiser kNormal{Initialiser::Kind::kNormal, 0.5};
  nn::ParamTable table;
  table.add(whole_parameter("a", {101, 97}, dtype, kNormal, 104));
  table.add(whole_parameter("b", {5}, dtype, {Initialiser::Kind::kConstant, 1.0}));
  table.add(whole_parameter("c", {8001}, dtype, kNormal));
  table.add(whole_parameter("d", {70, 300}, dtype, kNormal));
  table.add(whole_parameter("e", {1}, dtype, kNormal));
  return table;
}

inline double noise(std::uint64_t stream, std::uint64_t index) {
  std::uint64_t hash = (stream * 1000003 + index + 1) * 0x9e3779b97f4a7c15ULL;
  hash = (hash ^ (hash >> 29)) * 0xbf58476d1ce4e5b9ULL;
  return static_cast<double>(hash >> 40) / 16777216.0 - 0.5;
}

// Sets a tensor to `value(i)`.
inline void set_each(const Tensor& tensor, const std::function<double(std::int64_t)>& value) {
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    ref::store(tensor.data() + i * size_of(tensor.dtype), tensor.dtype, value(i));
  }
}

// The stores of one rank with everything they need.
struct StoreRank {
  explicit StoreRank(const nn::ParamTable& parameter_table, const StateCut& shard = {},
                     std::unique_ptr<Backend> machine = make_ref_backend())
      : StoreRank(parameter_table, whole_model_places(parameter_table), shard, std::move(machine)) {
  }
  // For a part of a model.
  StoreRank(const nn::ParamTable& parameter_table, ModelPlaces places, const StateCut& shard = {},
            std::unique_ptr<Backend> machine = make_ref_backend())
      : StoreRank(parameter_table, std::move(places), shared_sums(parameter_table), shard,
                  std::move(machine)) {}
  // For a part that shares parameters with others.
  StoreRank(const nn::ParamTable& parameter_table, ModelPlaces places,
            std::vector<SharedSum> shared, const StateCut& shard = {},
            std::unique_ptr<Backend> machine = make_ref_backend())
      : backend(std::move(machine)),
        table(parameter_table),
        parameters(StateLayout(table, std::move(places), shard), memory, memory),
        gradients(parameters.states(), std::move(shared), nn::full_precision(table[0].dtype),
                  {64, 48}, memory) {
    parameters.initialise(context, random_key(5, RandomPurpose::kInitialisation));
    gradients.initialise(context);
    gradients.clear(context);
  }
  StoreRank(const StoreRank&) = delete;
  StoreRank& operator=(const StoreRank&) = delete;

  // The gradients by parameter; equal on ranks with equal `stream`.
  void set_gradients(std::uint64_t stream) const {
    for (ParamId id = 0; id < table.size(); ++id) {
      set_each(gradients.gradient(id), [&](std::int64_t i) {
        return noise(100 * stream + static_cast<std::uint64_t>(id), static_cast<std::uint64_t>(i));
      });
    }
  }

  std::unique_ptr<Backend> backend;
  Arena memory{"memory", 8 << 20};
  Arena workspace{"workspace", 1 << 20};
  Recorder recorder;
  Context context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = &recorder};
  nn::ParamTable table;
  ParameterStore parameters;
  GradientStore gradients;
};

// Of uneven_table(): two units of a microbatch add to parameter 3.
inline const std::vector<int> kUses = {1, 1, 1, 2, 1};

// The parameters that lie in each bucket.
inline std::vector<std::set<ParamId>> contents_of(const StoreRank& rank) {
  const StateLayout& states = rank.parameters.states();
  std::vector<std::set<ParamId>> contents(states.buckets().size());
  for (std::size_t b = 0; b < contents.size(); ++b) {
    const FlatRange& bucket = states.buckets()[b].range;
    for (ParamId id = 0; id < rank.table.size(); ++id) {
      const std::int64_t begin = states.flat().offsets[static_cast<std::size_t>(id)];
      const std::int64_t end = begin + rank.table[id].local_shape.count();
      if (begin < bucket.end() && bucket.begin < end) contents[b].insert(id);
    }
  }
  return contents;
}

}  // namespace phalanx
