// Where the time of an fp32 product of a linear layer goes, on one thread: the engine's loops with
// one part of the work after the other left out, by turns. What a part hides behind another one
// saves nothing, so the shares do not add up to all of the time. docs/performance.md has a table.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench_main.h"
#include "cold_product.h"
#include "phalanx/base/error.h"
#include "phalanx/ops/cpu/matrix_product.h"
#include "phalanx/ops/cpu/precision.h"
#include "phalanx/ops/cpu/target.h"
#include "phalanx/tensor/arena.h"
#include "product_walk.h"
#include "timing.h"
#include "witness.h"

namespace phalanx::bench {
namespace {

constexpr int kPeakTimes = 10;

struct Options {
  std::string filter;
  double seconds = 0.5;  // of each way of computing a product
  bool cpu_time = false;
  bool markdown = false;
  bool json = false;
};

constexpr LayerSize kSizes[] = {{1024, 768, 768}, {1024, 3072, 768}, {1024, 768, 3072},
                                {1024, 256, 256}, {1024, 8192, 256}, {1024, 50304, 768}};

// The parts, in the order of the table's columns.
struct Part {
  const char* name;
  const char* key;  // in JSON
  LeftOut left_out;
};
constexpr Part kParts[] = {
    {"packing left", "left_packing", {.left_packing = true}},
    {"packing right", "right_packing", {.right_packing = true}},
    {"finishing", "finishing", {.finishing = true}},
    {"C", "c", {.c = true}},
    {"operands' way", "operands", {.operands = true}},
};
constexpr LeftOut kAllParts{true, true, true, true, true};

bool has_part(const ProductParts& parts, const LeftOut& part) {
  return !((part.left_packing && !parts.left_packing) ||
           (part.right_packing && !parts.right_packing) || (part.finishing && !parts.finishing));
}

struct Row {
  LayerSize size;
  const char* pass;
  Timing engine = {};                // multiply()
  Timing whole = {}, tiles = {};     // the walk, and the walk with all parts left out
  std::vector<Timing> without = {};  // the walk without each part; zeros where there is none
  double witness = 0.0;

  double flops() const {
    return 2.0 * static_cast<double>(size.rows) * static_cast<double>(size.n) *
           static_cast<double>(size.k);
  }
  // Shares of the whole walk, of medians or bests.
  double share(const Timing& timing, double Timing::*of) const { return timing.*of / (whole.*of); }
  double saved(std::size_t part, double Timing::*of) const {
    return without[part].median > 0.0 ? 1.0 - share(without[part], of) : 0.0;
  }
  // What all parts save together and none alone: each hides behind another one. Below zero: two
  // parts save the same time.
  double rest(double Timing::*of) const {
    double rest = 1.0 - share(tiles, of);
    for (std::size_t part = 0; part < without.size(); ++part) rest -= saved(part, of);
    return rest;
  }
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        device_(cpu::make_device(1, cpu::ProductPrecision::kFp32)),
        peak_(1e9 * cpu::measure_peak(1, kPeakTimes).fp32_gflops) {
    if (options.json) return;
    fmt::print("target {}, 1 thread, fp32 peak {:.1f} GFLOP/s. ", cpu::describe_active_target(),
               peak_ * 1e-9);
    fmt::print(
        "Medians, in brackets bests; parts by the share of the time that their lack saves.\n\n");
    std::vector<std::string> cells = {"rows x n x k", "pass", "multiply(), ms", "walk, ms",
                                      "of the peak"};
    for (const Part& part : kParts) cells.emplace_back(part.name);
    for (const char* name : {"rest", "tiles", "tiles: of the peak", "witness"}) {
      cells.emplace_back(name);
    }
    print(cells);
    if (options.markdown) print(std::vector<std::string>(cells.size(), "---"));
  }

  void run(const LayerSize& size, Pass pass) {
    ColdProduct cold(size, pass);
    Arena workspace("workspace", workspace_bytes(cold.next()));
    std::byte* memory = workspace.base();
    expect_same_bits(cold, memory);
    const ProductParts parts = parts_of(device_, cold.next());
    const auto walk_without = [&](const LeftOut& left_out) {
      return TimedBody{[&, left_out] { walk(device_, cold.next(), left_out, memory); }};
    };
    std::vector<TimedBody> bodies = {{[&] { cpu::multiply(device_, cold.next(), memory); }},
                                     walk_without({}),
                                     walk_without(kAllParts)};
    for (const Part& part : kParts) {
      if (has_part(parts, part.left_out)) bodies.push_back(walk_without(part.left_out));
    }
    Row row{.size = size, .pass = name_of(pass)};
    row.witness = instructions_per_cycle(1);
    const std::vector<Timing> timings =
        time_by_turns({.seconds = options_.seconds, .cpu_time = options_.cpu_time}, bodies);
    row.witness = std::min(row.witness, instructions_per_cycle(1));
    row.engine = timings[0];
    row.whole = timings[1];
    row.tiles = timings[2];
    auto next = timings.begin() + 3;
    for (const Part& part : kParts) {
      row.without.push_back(has_part(parts, part.left_out) ? *next++ : Timing{});
    }
    options_.json ? print_json(row) : print_row(row);
    std::fflush(stdout);
  }

 private:
  std::int64_t workspace_bytes(const cpu::MatrixProduct& product) const {
    return std::max(workspace_bytes_of(device_, product), walk_workspace_bytes(device_, product));
  }

  // InternalError if the walk does not compute what the engine does. `workspace` is unwritten.
  void expect_same_bits(ColdProduct& cold, std::byte* workspace) const {
    const cpu::MatrixProduct& by_engine = cold.next();
    const cpu::MatrixProduct& by_walk = cold.next();
    walk(device_, by_walk, {}, workspace);  // first: nothing is packed yet
    cpu::multiply(device_, by_engine, workspace);
    const cpu::EpilogueRows& c = by_engine.epilogue.c;
    const std::int64_t bytes = by_engine.m * c.stride * size_of(c.dtype);
    PHALANX_CHECK(
        c.data != by_walk.epilogue.c.data &&
            std::memcmp(c.data, by_walk.epilogue.c.data, static_cast<std::size_t>(bytes)) == 0,
        "a walk has other bits than the product of {} x {} over {}", by_engine.m, by_engine.n,
        by_engine.k);
  }

  void print(const std::vector<std::string>& cells) const {
    if (options_.markdown) return fmt::print("| {} |\n", fmt::join(cells, " | "));
    for (const std::string& cell : cells) fmt::print("{:<20}", cell);
    fmt::print("\n");
  }

  void print_row(const Row& row) const {
    const auto both = [](const auto& value) {
      return fmt::format("{:.1f} ({:.1f}) %", 100.0 * value(&Timing::median),
                         100.0 * value(&Timing::best));
    };
    const auto of_peak = [&](const Timing& timing) {
      return both([&](double Timing::*of) { return row.flops() / (timing.*of) / peak_; });
    };
    const auto ms = [](const Timing& timing) {
      return fmt::format("{:.2f} ({:.2f})", 1e3 * timing.median, 1e3 * timing.best);
    };
    std::vector<std::string> cells = {to_text(row.size), row.pass, ms(row.engine), ms(row.whole),
                                      of_peak(row.whole)};
    for (std::size_t part = 0; part < row.without.size(); ++part) {
      const auto saved = [&](double Timing::*of) { return row.saved(part, of); };
      cells.push_back(row.without[part].median > 0.0 ? both(saved) : "-");
    }
    cells.push_back(both([&](double Timing::*of) { return row.rest(of); }));
    cells.push_back(both([&](double Timing::*of) { return row.share(row.tiles, of); }));
    cells.push_back(of_peak(row.tiles));
    cells.push_back(fmt::format("{:.1f}", row.witness));
    print(cells);
  }

  void print_json(const Row& row) const {
    const auto times = [](const Timing& timing) {
      return nlohmann::ordered_json{
          {"median_s", timing.median}, {"best_s", timing.best}, {"clean", timing.undisturbed}};
    };
    nlohmann::ordered_json json = {{"rows", row.size.rows},
                                   {"n", row.size.n},
                                   {"k", row.size.k},
                                   {"pass", row.pass},
                                   {"peak_flops", peak_},
                                   {"witness", row.witness},
                                   {"engine", times(row.engine)},
                                   {"walk", times(row.whole)}};
    for (std::size_t part = 0; part < row.without.size(); ++part) {
      if (row.without[part].median == 0.0) continue;
      json["without"][kParts[part].key] = times(row.without[part]);
    }
    json["tiles"] = times(row.tiles);
    fmt::print("{}\n", json.dump());
  }

  Options options_;
  cpu::CpuDevice device_;
  double peak_;  // operations per second
};

void run(const Options& options) {
  const std::vector<LayerPass> rows = layer_passes(kSizes, options.filter);
  Bench bench(options);
  for (const LayerPass& row : rows) bench.run(row.size, row.pass);
}

}  // namespace
}  // namespace phalanx::bench

int main(int argc, char** argv) {
  phalanx::bench::Options options;
  return phalanx::bench::bench_main(
      argc, argv, "bench_products", "Where the time of an fp32 product goes, on one thread.",
      [&](phalanx::FlagSet& flags) {
        flags.add(
            {.name = "--filter", .help = "Only rows that contain this: 1024x768x768, forward"},
            &options.filter);
        flags.add({.name = "--seconds",
                   .help = "Time of each way of computing a product",
                   .range = phalanx::above(0)},
                  &options.seconds);
        flags.add({.name = "--cpu-time", .help = "Time by CPU time: for a busy machine"},
                  &options.cpu_time);
        flags.add({.name = "--markdown", .help = "A table for a page", .excludes = "--json"},
                  &options.markdown);
        flags.add({.name = "--json", .help = "A line of JSON for each row"}, &options.json);
      },
      [&] { phalanx::bench::run(options); });
}
