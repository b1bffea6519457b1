#include "family_layouts.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "pairwise.h"

namespace phalanx {
namespace {

using Replicas = std::pair<int, int>;  // tensor- and data-parallel ranks of a stage
constexpr auto kReplicas = std::to_array<Replicas>({{1, 1}, {2, 1}, {4, 1}, {1, 2}, {2, 2}});
using Stages = std::pair<int, int>;  // of the pipeline, and where the decoder begins
constexpr auto kBertStages = std::to_array<Stages>({{1, 0}, {2, 0}, {3, 0}, {4, 0}});
// Every split of up to four.
constexpr auto kT5Stages =
    std::to_array<Stages>({{1, 0}, {2, 1}, {3, 1}, {3, 2}, {4, 1}, {4, 2}, {4, 3}});

using PipelineKind = std::pair<const char*, int>;
constexpr auto kBertKinds = std::to_array<PipelineKind>(
    {{"1f1b", 1}, {"gpipe", 1}, {"zb-h1", 1}, {"interleaved", 2}, {"zb-v", 2}});
constexpr auto kT5Kinds =
    std::to_array<PipelineKind>({{"1f1b", 1}, {"gpipe", 1}, {"zb-h1", 1}, {"backward-first", 1}});
constexpr auto kNightlyT5Kinds = std::to_array<PipelineKind>({{"1f1b", 1},
                                                              {"gpipe", 1},
                                                              {"zb-h1", 1},
                                                              {"backward-first", 1},
                                                              {"naive", 1},
                                                              {"eager-1f1b", 1},
                                                              {"zb-h2", 1}});

constexpr auto kShardings =
    std::to_array<Sharding>({{},
                             {.stage = 1},
                             {.stage = 2},
                             {.stage = 3},
                             {.stage = 2, .accumulate_unsharded = true},
                             {.stage = 3, .prefetch = 2, .stays_below = 96, .reshard = false}});

// Behind replicas, stages and kinds: sequence parallelism, shared states, overlap, small
// buckets, recomputation; microbatch, attention, storage, tied, mean of means, and what the family
// alone has.
const std::vector<int> kOtherAxes = {2, static_cast<int>(kShardings.size()), 3, 2, 6, 2, 2, 5, 2, 2,
                                     2};
constexpr std::size_t kPlaceAxes = 3;
// Of which the product is taken at night with those in front of them.
constexpr std::size_t kNightlyAxes = 2;

void set_others(Layout& layout, const int* value) {
  layout.sequence_parallel = value[0] != 0;
  layout.zero = kShardings[static_cast<std::size_t>(value[1])];
  layout.overlap = static_cast<Overlap>(value[2]);
  layout.small_buckets = value[3] != 0;
  layout.recompute = static_cast<Recompute>(value[4]);
  layout.micro_batch = 1 + value[5];
  layout.fused_attention = value[6] == 0;
  layout.storage = static_cast<StorageType>(value[7]);
  layout.tied = value[8] == 0;
  layout.mean_of_means = value[9] != 0;
  layout.binary_head = layout.family != "bert" || value[10] == 0;
  layout.relative_positions = layout.family == "t5" && value[10] != 0;
  if (layout.family != "llama") return;
  layout.groups = value[10] == 0 ? 2 : 1;
  layout.qkv_extras = value[10] != 0;
}

// So that each stage has a layer at least, and where there are few stages two.
void set_layers(Layout& layout) {
  if (layout.family != "t5") {
    layout.layers = std::max(2, layout.pipeline * std::max(layout.chunks, 1));
    return;
  }
  layout.layers = std::max(2, layout.split);
  layout.decoder_layers = std::max(2, layout.pipeline - layout.split);
}

// One family's axes.
class Axes {
 public:
  Axes(const std::string& family, bool nightly) : family_(family) {
    if (family != "t5") {
      stages_.assign(kBertStages.begin(), kBertStages.end());
      kinds_.assign(kBertKinds.begin(), kBertKinds.end());
      return;
    }
    stages_.assign(kT5Stages.begin(), kT5Stages.end());
    if (nightly) {
      kinds_.assign(kNightlyT5Kinds.begin(), kNightlyT5Kinds.end());
    } else {
      kinds_.assign(kT5Kinds.begin(), kT5Kinds.end());
    }
  }

  std::vector<int> sizes() const {
    std::vector<int> sizes = {static_cast<int>(kReplicas.size()), static_cast<int>(stages_.size()),
                              static_cast<int>(kinds_.size())};
    sizes.insert(sizes.end(), kOtherAxes.begin(), kOtherAxes.end());
    return sizes;
  }
  Layout layout_of(const Combination& values) const {
    Layout layout{.family = family_};
    std::tie(layout.tensor, layout.data) = kReplicas[static_cast<std::size_t>(values[0])];
    std::tie(layout.pipeline, layout.split) = stages_[static_cast<std::size_t>(values[1])];
    if (layout.pipeline > 1) {
      std::tie(layout.schedule, layout.chunks) = kinds_[static_cast<std::size_t>(values[2])];
    }
    set_others(layout, values.data() + kPlaceAxes);
    set_layers(layout);
    return layout;
  }
  bool is_legal(const Combination& values) const {
    const Layout layout = layout_of(values);
    // Without a pipeline all schedules are the same; and what resolve() would take long to refuse.
    if (layout.pipeline == 1 && values[2] != 0) return false;
    if (layout.tensor == 1 && layout.recompute == Recompute::kDistributed) return false;
    return legal_config(layout).has_value();
  }

 private:
  std::string family_;
  std::vector<Stages> stages_;
  std::vector<PipelineKind> kinds_;
};

// Every kind of replica without a pipeline, in fp32: what is only equal to rounding shows best
// there.
std::vector<Layout> plain_layouts(const Axes& axes) {
  std::vector<Layout> layouts;
  for (int replicas = 0; replicas < static_cast<int>(kReplicas.size()); ++replicas) {
    for (const int sequence_parallel : {0, 1}) {
      for (const int of_the_family : {0, 1}) {
        Combination values(kPlaceAxes + kOtherAxes.size(), 0);
        values.front() = replicas;
        values[kPlaceAxes] = sequence_parallel;
        values.back() = of_the_family;
        if (axes.is_legal(values)) layouts.push_back(axes.layout_of(values));
      }
    }
  }
  return layouts;
}

std::vector<Layout> nightly_layouts(const Axes& axes) {
  const std::vector<int> sizes = axes.sizes();
  const auto behind = static_cast<std::ptrdiff_t>(kPlaceAxes + kNightlyAxes);
  const IsLegal any = [](const Combination&) { return true; };
  const auto rests = pairwise_cover({sizes.begin() + behind, sizes.end()}, any);
  std::vector<Layout> layouts;
  std::size_t next = 0;
  for_product({sizes.begin(), sizes.begin() + behind}, any, [&](const Combination& product) {
    // The next rest that makes it legal.
    for (std::size_t tried = 0; tried < rests.size(); ++tried) {
      const Combination& rest = rests[next++ % rests.size()];
      Combination values = product;
      values.insert(values.end(), rest.begin(), rest.end());
      if (!axes.is_legal(values)) continue;
      layouts.push_back(axes.layout_of(values));
      return;
    }
  });
  return layouts;
}

}  // namespace

std::vector<Layout> family_layouts(const std::string& family, bool nightly) {
  const Axes axes(family, nightly);
  if (nightly) return nightly_layouts(axes);
  std::vector<Layout> layouts = plain_layouts(axes);
  const auto is_legal = [&](const Combination& values) { return axes.is_legal(values); };
  for (const Combination& values : pairwise_cover(axes.sizes(), is_legal)) {
    layouts.push_back(axes.layout_of(values));
  }
  return layouts;
}

}  // namespace phalanx
