// What it takes to pack operands of linear layers into AMX's tiles, beside a copy of as many bytes,
// which operands would still need on their way to the second-level cache if they stayed packed.
// Where the processor has AMX, beside the product too. On one thread. No cache holds weights
// before; the gradient of the output, which a weight gradient packs, comes from where it fits. The
// table is in docs/performance.md.

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench_main.h"
#include "cold_product.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/amx_packing.h"
#include "phalanx/ops/cpu/amx_plan.h"
#include "phalanx/ops/cpu/amx_tiles.h"
#include "phalanx/ops/cpu/matrix_product.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/tensor/arena.h"
#include "timing.h"
#include "witness.h"

namespace phalanx::bench {
namespace {

struct Options {
  std::string filter;
  double seconds = 0.5;  // of packing, of copying and of the product
  bool cpu_time = false;
};

// The linear layers of GPT-2 124M and of a small model, and the vocabularies of both.
constexpr LayerSize kSizes[] = {{1024, 2304, 768}, {1024, 768, 768},   {1024, 3072, 768},
                                {1024, 768, 3072}, {1024, 50304, 768}, {1024, 768, 256},
                                {1024, 1024, 256}, {1024, 256, 1024},  {1024, 8192, 256}};

// What a pass packs: the weights, and in a weight gradient the gradient of the output.
class PackedOperand {
 public:
  PackedOperand(const cpu::MatrixProduct& product, Pass pass)
      : plan_(cpu::shape_of(product), 1),
        is_left_(pass == Pass::kWeightGradient),
        packed_("packed operand", is_left_ ? plan_.thread_left_bytes : plan_.right_bytes) {
    PHALANX_CHECK(!plan_.swapped && plan_.packs_left == is_left_, "{} rows are too few", product.m);
  }

  void pack(const cpu::MatrixProduct& product) const {
    const cpu::Matrix& m = operand(product);
    const cpu::Lines lines{m.data, m.dtype, m.stride, m.transposed != is_left_};
    for_blocks([&](std::int64_t first, std::int64_t count, std::int64_t begin, std::int64_t depth) {
      const cpu::TilePacking packing{.from = lines.from(first, begin),
                                     .lines = count,
                                     .depth = depth,
                                     .steps = ceil_div(depth, cpu::kStepDepth),
                                     .to = packed_.base()};
      (is_left_ ? cpu::pack_tile_strips : cpu::pack_tile_panels)(cpu::active_target(), packing);
    });
  }

  void copy(const cpu::MatrixProduct& product) const {
    const std::byte* from = operand(product).data;
    for_blocks([&](std::int64_t, std::int64_t count, std::int64_t, std::int64_t depth) {
      const std::int64_t bytes = count * depth * size_of(DType::kBF16);
      std::memcpy(packed_.base(), from, static_cast<std::size_t>(bytes));
      from += bytes;
    });
  }

 private:
  const cpu::Matrix& operand(const cpu::MatrixProduct& product) const {
    return is_left_ ? product.a : product.b;
  }

  // Calls with the first line, lines, begin of the depth and depth of each block that is packed at
  // once: rows of C or columns.
  template <typename Function>
  void for_blocks(Function function) const {
    const std::int64_t lines = is_left_ ? plan_.rows : plan_.columns;
    const std::int64_t most = is_left_ ? plan_.row_block : plan_.panel_span * cpu::kTileSide;
    for (std::int64_t first = 0; first < lines; first += most) {
      for (std::int64_t begin = 0; begin < plan_.depth; begin += plan_.depth_block) {
        function(first, std::min(most, lines - first), begin,
                 std::min(plan_.depth_block, plan_.depth - begin));
      }
    }
  }

  cpu::AmxPlan plan_;
  bool is_left_;
  Arena packed_;
};

void run_row(const Options& options, const LayerSize& size, Pass pass) {
  ColdProduct cold(size, pass, DType::kBF16);
  const PackedOperand operand(cold.next(), pass);
  std::vector<TimedBody> bodies = {{[&] { operand.pack(cold.next()); }},
                                   {[&] { operand.copy(cold.next()); }}};
  const bool has_amx = cpu::has_products(cpu::ProductPrecision::kAmx);
  const cpu::CpuDevice device =
      cpu::make_device(1, has_amx ? cpu::ProductPrecision::kAmx : cpu::ProductPrecision::kFp32);
  Arena workspace("workspace", cpu::workspace_bytes_of(device, cold.next()));
  if (has_amx) {
    bodies.push_back({[&] { cpu::multiply(device, cold.next(), workspace.base()); }});
  }
  double witness = instructions_per_cycle(1);
  const std::vector<Timing> timings =
      time_by_turns({.seconds = options.seconds, .cpu_time = options.cpu_time}, bodies);
  witness = std::min(witness, instructions_per_cycle(1));
  const double saved = timings[0].median - timings[1].median;
  fmt::print("| {} | {} | {:.3f} ({:.3f}) | {:.3f} ({:.3f}) | {} | {:.1f} |\n", to_text(size),
             name_of(pass), 1e3 * timings[0].median, 1e3 * timings[0].best, 1e3 * timings[1].median,
             1e3 * timings[1].best,
             has_amx ? fmt::format("{:.3f} ({:.3f}) | {:.1f} %", 1e3 * timings[2].median,
                                   1e3 * timings[2].best, 100.0 * saved / timings[2].median)
                     : std::string("- | -"),
             witness);
  std::fflush(stdout);
}

void run(const Options& options) {
  const std::vector<LayerPass> rows = layer_passes(kSizes, options.filter);
  fmt::print("target {}, 1 thread. Milliseconds, medians, in brackets bests.\n\n",
             cpu::describe_active_target());
  fmt::print(
      "| rows x n x k | pass | packing | copying | product | of it packing less copying | witness "
      "|\n"
      "|---|---|---|---|---|---|---|\n");
  for (const LayerPass& row : rows) run_row(options, row.size, row.pass);
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  phalanx::bench::Options options;
  return phalanx::bench::bench_main(
      argc, argv, "bench_tile_packing",
      "Packing operands into AMX's tiles, on one thread, beside copies.",
      [&](phalanx::FlagSet& flags) {
        flags.add({.name = "--filter", .help = "Only rows that contain this: 768x768, forward"},
                  &options.filter);
        flags.add({.name = "--seconds",
                   .help = "Time of packing, of copying and of the product",
                   .range = phalanx::above(0)},
                  &options.seconds);
        flags.add({.name = "--cpu-time", .help = "Time by CPU time: for a busy machine"},
                  &options.cpu_time);
      },
      [&] { phalanx::bench::run(options); });
}
