// A layer's self attention over samples whose rows lie on several ranks, with every way of
// exchange, beside one rank that has all rows and the threads of all ranks: forward and backward,
// by turns. The speed against one rank says what exchanges, merges and smaller calls cost.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench_main.h"
#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/mesh/context_cut.h"
#include "phalanx/nn/self_attention.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/random.h"

namespace phalanx::bench {
namespace {

struct Options {
  std::int64_t sequence = 8192;
  std::int64_t heads = 8;
  std::int64_t groups = 4;
  std::int64_t head_size = 64;
  std::int64_t window = 0;
  std::int64_t ranks = 2;
  std::int64_t threads = 2;  // of all ranks together
  std::int64_t rounds = 5;
  bool bf16 = false;
  bool profile = false;
  std::string matmul_precision = "auto";
};

struct Layout {
  std::string name;
  ContextParallel context;
  std::vector<double> forward = {}, backward = {};      // seconds of each round
  std::map<std::string, double, std::less<>> ops = {};  // of the first rank, all rounds: seconds
};

constexpr std::int64_t kArenaBytes = std::int64_t{4} << 30;

nn::TransformerConfig config_of(const Options& o, const ContextParallel& context) {
  nn::TransformerConfig config;
  config.num_layers = 1;
  config.heads = o.heads;
  config.query_groups = o.groups;
  config.head_size = o.head_size;
  config.hidden = o.heads * o.head_size;
  config.norm = nn::NormKind::kRmsNorm;
  config.linear_bias = config.qkv_bias = false;
  config.window = o.window;
  config.dtype = o.bf16 ? DType::kBF16 : DType::kF32;
  config.context = context;
  return config;
}

// One rank's end of a layer: everything that its passes are given.
class RankLayer {
 public:
  RankLayer(const Options& o, const ContextParallel& context, Communicator& world, int threads)
      : config_(config_of(o, context)),
        backend_(
            make_cpu_backend(threads, cpu::choose_products(o.matmul_precision, o.bf16).products)),
        layer_(nn::self_attention_sublayer(table_, owned_, slots_, "layer", 0, 0, config_)) {
    shape_ = {
        .sequence = o.sequence / context.size, .micro_batch = 1, .context_shards = context.size};
    for (const ParamSpec& spec : table_.specs()) {
      weights_.push_back(random(spec.local_shape, 0.05));
      gradients_.push_back(memory_.allocate(DType::kF32, spec.local_shape));
    }
    for (const nn::SavedSlot& slot : slots_.slots()) {
      saved_.push_back(memory_.allocate(slot.dtype, slot.shape(shape_)));
    }
    for (Tensor* stream : {&x_, &out_, &dout_, &dx_}) {
      *stream = random({shape_.sequence, 1, config_.hidden}, 1.0);
    }
    weights_of_ = {weights_};
    bind_rows(o, world.rank());
    if (context.is_parallel()) region_ = ContextRegion(&world);
  }

  void forward() {
    nn::Pass pass = this->pass();
    layer_.forward({.pass = pass, .saved = nn::Saved(saved_)}, out_, x_);
  }
  void profile_to(Recorder& recorder) { context_.recorder = &recorder; }
  void backward() {
    nn::Pass pass = this->pass();
    layer_.backward({.pass = pass, .saved = nn::Saved(saved_)}, dx_, dout_, x_, {gradients_});
  }

 private:
  Tensor random(const Shape& shape, double deviation) {
    const Tensor tensor = memory_.allocate(config_.dtype, shape);
    const std::int64_t columns = shape.back();
    ops::normal(context_, {.x = tensor.reshape({tensor.count() / columns, columns}),
                           .key = random_key(1, RandomPurpose::kInitialisation),
                           .parameter = static_cast<std::uint64_t>(memory_.mark()),
                           .deviation = deviation,
                           .global_columns = columns});
    return tensor;
  }

  void bind_rows(const Options& o, int rank) {
    std::vector<std::int32_t> all;
    const ContextCut cut(config_.context.size, ContextCut::Kind::kSequence);
    for (int other = 0; other < cut.ranks(); ++other) {
      for (const auto& range : cut.rows(o.sequence, {}, other)) {
        for (std::int64_t i = 0; i < range.count; ++i) {
          all.push_back(static_cast<std::int32_t>(range.first + i));
        }
      }
    }
    const Tensor position = memory_.allocate(DType::kI32, {o.sequence, 1});
    std::ranges::copy(all, position.as<std::int32_t>());
    const Tensor document = memory_.allocate(DType::kI32, {o.sequence, 1});
    const Tensor sample = memory_.allocate(DType::kI64, {shape_.sequence, 1});
    ops::fill(context_, {.x = document, .value = 0.0});
    ops::fill(context_, {.x = sample, .value = 0.0});
    const std::int64_t first = rank * shape_.sequence;
    batch_.rows[0] = {.sample = sample,
                      .position = position.slice(0, first, shape_.sequence),
                      .document = document.slice(0, first, shape_.sequence)};
    batch_.all_rows = {.sample = {}, .position = position, .document = document};
  }

  nn::Pass pass() {
    return {.ops = context_,
            .weights = weights_of_,
            .batch = batch_,
            .shapes = shape_,
            .region = {},
            .context = region_,
            .loss_settings = {},
            .losses = {}};
  }

  nn::TransformerConfig config_;
  std::unique_ptr<Backend> backend_;
  Arena memory_{"operands", kArenaBytes};
  Arena workspace_{"workspace", kArenaBytes};
  Context context_{.backend = *backend_, .workspace = workspace_};
  nn::ParamTable table_;
  std::vector<ParamId> owned_;
  nn::SavedSlots slots_;
  nn::Sublayer layer_;
  nn::BatchShape shape_;
  std::vector<Tensor> weights_, gradients_, saved_;
  nn::Weights weights_of_;
  nn::Batch batch_;
  ContextRegion region_;
  Tensor x_, out_, dout_, dx_;
};

double seconds_of(Communicator& world, Context& context, const auto& body) {
  world.barrier(context);
  const auto begin = std::chrono::steady_clock::now();
  body();
  world.barrier(context);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void run_turn(const Options& o, Layout& layout) {
  const int ranks = layout.context.size;
  const auto threads = static_cast<int>(o.threads / ranks);
  run_local_ranks(ranks, {.threads_per_rank = threads}, [&](Communicator& world) {
    RankLayer layer(o, layout.context, world, threads);
    const auto backend = make_cpu_backend(1, cpu::ProductPrecision::kFp32);
    Arena none("barrier", 4096);
    Context context{.backend = *backend, .workspace = none};
    Recorder recorder;
    for (const bool counts : {false, true}) {
      if (counts && o.profile) layer.profile_to(recorder);
      const double forward = seconds_of(world, context, [&] { layer.forward(); });
      const double backward = seconds_of(world, context, [&] { layer.backward(); });
      if (!counts || world.rank() > 0) continue;
      layout.forward.push_back(forward);
      layout.backward.push_back(backward);
      for_each_event<OpRun>(recorder.events(), [&](const OpRun& run) {
        layout.ops[std::string(run.cost.name)] += run.seconds;
      });
    }
  });
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void run(const Options& o) {
  if (o.ranks < 2 || o.threads % o.ranks != 0 || o.sequence % (2 * o.ranks) != 0) {
    throw ConfigError(
        "--ranks {}: two or more, of which --threads {} and half of --sequence {} "
        "are multiples",
        o.ranks, o.threads, o.sequence);
  }
  const auto ranks = static_cast<int>(o.ranks);
  std::vector<Layout> layouts = {{.name = "one rank", .context = {}}};
  const auto add = [&](const std::string& name, ContextExchange exchange) {
    layouts.push_back({.name = name, .context = {.size = ranks, .exchanges = {exchange}}});
  };
  add("p2p", ContextExchange::kRing);
  add("all_gather", ContextExchange::kGather);
  if (o.heads % ranks == 0 && (o.groups % ranks == 0 || ranks % o.groups == 0)) {
    add("a2a", ContextExchange::kHeads);
  }
  for (std::int64_t round = 0; round < o.rounds; ++round) {
    for (Layout& layout : layouts) run_turn(o, layout);
  }
  fmt::print(
      "{} rows, {} heads of {} in {} groups, window {}, {}: {} ranks of {} threads beside "
      "one of {}, {} rounds\n",
      o.sequence, o.heads, o.head_size, o.groups, o.window, o.bf16 ? "bf16" : "fp32", o.ranks,
      o.threads / o.ranks, o.threads, o.rounds);
  fmt::print(
      "| layout | forward, median | backward | speed against one rank |\n|---|---|---|---|\n");
  const double first = median(layouts[0].forward) + median(layouts[0].backward);
  for (const Layout& layout : layouts) {
    const double forward = median(layout.forward);
    const double backward = median(layout.backward);
    fmt::print("| {} | {:.1f} ms | {:.1f} ms | {:.3f} |\n", layout.name, 1e3 * forward,
               1e3 * backward, first / (forward + backward));
  }
  if (!o.profile) return;
  for (const Layout& layout : layouts) {
    fmt::print("\n{}: the first rank's operations, mean of a round\n", layout.name);
    for (const auto& [name, seconds] : layout.ops) {
      fmt::print("  {:<28} {:8.1f} ms\n", name, 1e3 * seconds / static_cast<double>(o.rounds));
    }
  }
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  using namespace phalanx;
  bench::Options o;
  return bench::bench_main(
      argc, argv, "bench_context", "Times attention over a context, beside one rank.",
      [&](FlagSet& flags) {
        flags.add({.name = "--sequence", .help = "Rows of the sample"}, &o.sequence);
        flags.add({.name = "--heads", .help = "Query heads"}, &o.heads);
        flags.add({.name = "--groups", .help = "Key/value heads"}, &o.groups);
        flags.add({.name = "--head-size", .help = "Features of a head"}, &o.head_size);
        flags.add({.name = "--window", .help = "Keys that a query sees; 0: all"}, &o.window);
        flags.add({.name = "--ranks", .help = "Ranks of the context"}, &o.ranks);
        flags.add({.name = "--threads", .help = "Threads of all ranks together"}, &o.threads);
        flags.add({.name = "--rounds", .help = "Times that each layout runs"}, &o.rounds);
        flags.add({.name = "--bf16", .help = "bf16 instead of fp32"}, &o.bf16);
        flags.add({.name = "--profile", .help = "Also the time of each operation"}, &o.profile);
        flags.add({.name = "--matmul-precision", .help = "auto, fp32, bf16, amx2"},
                  &o.matmul_precision);
      },
      [&] { bench::run(o); });
}
