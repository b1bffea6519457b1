// Rotary positions and T5's relative bias.

#include <fmt/core.h>

#include <cmath>

#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/fault-inl.h"
#include "phalanx/ops/cuda/relative_bias.h"
#include "phalanx/ops/cuda/rotary.h"

namespace phalanx::cuda {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

// Heads [7, 3, 2 groups, 3 heads, width] of a tensor with 5 heads a group; the last row of the
// batch has no position.
Bytes run_rotate(Workbench& bench, DType type, bool interleaved) {
  Bytes all;
  struct Shape {
    std::int64_t width, dimensions;
  };
  for (const Shape shape : {Shape{64, 64}, Shape{48, 32}, Shape{33, 26}}) {
    const std::int64_t group = 5 * shape.width;
    const std::int64_t sample = 2 * group;
    const std::int64_t n = 21 * sample;
    const std::int64_t positions = 40;
    std::vector<std::int32_t> position;
    for (int r = 0; r < 21; ++r) position.push_back(r * 17 % 40);
    position.back() = 40;
    CudaContext context = bench.context();
    context.faults = bench.upload(std::vector<std::uint64_t>(kFaultWords, kNoFault));
    context.op = 28;
    const TypedAddress x = bench.uniform(type, n, -1, 1);
    const TypedAddress y = bench.output(type, n);
    RotateCall call;
    call.x = {x, 3 * sample, sample, group, shape.width};
    call.y = call.x;
    call.y.data = y;
    call.rows = 7;
    call.batch = 3;
    call.groups = 2;
    call.heads = 3;
    call.width = shape.width;
    call.position = bench.upload(position);
    call.position_row_stride = 3;
    call.position_sample_stride = 1;
    call.table = bench.upload(bench.uniform_floats(positions * shape.dimensions, -1, 1));
    call.positions = positions;
    call.dimensions = shape.dimensions;
    call.interleaved = interleaved;
    rotate(context, call);
    append(all, bench.read(y, n));
    // Back, in place.
    call.x.data = y;
    call.inverse = true;
    rotate(context, call);
    append(all, bench.read(y, n));
    append(all, bench.read(context.faults, 8 * kFaultWords));
  }
  return all;
}

// Buckets of 8 a side: distances up to 4 have their own.
Bytes run_bias(Workbench& bench, DType type) {
  Bytes all;
  for (const bool bidirectional : {true, false}) {
    const std::int64_t table_heads = 5;
    const std::int64_t buckets = bidirectional ? 16 : 8;
    const std::vector<std::int32_t> begins = {0, 1, 2, 3, 4, 9, 20, 45};
    RelativeBiasCall call;
    call.heads = 3;
    call.queries = 37;
    call.keys = bidirectional ? 1100 : 48;
    call.table_heads = table_heads;
    call.first_head = 1;
    call.first_query = bidirectional ? 0 : 11;
    call.bucket_begins = begins;
    call.bidirectional = bidirectional;
    const std::int64_t n = call.heads * call.queries * call.keys;
    const TypedAddress table = bench.uniform(type, buckets * table_heads, -1, 1);
    const TypedAddress bias = bench.output(DType::kF32, n);
    relative_bias_forward(bench.context(), call, reinterpret_cast<float*>(bias.at), table);
    append(all, bench.read(bias, n));
    float* dtable = bench.upload(bench.uniform_floats(buckets * table_heads, -1, 1));
    const float* dbias = bench.upload(bench.uniform_floats(n, -1, 1));
    relative_bias_backward(bench.context(), call, dtable, dbias);
    append(all, bench.read(dtable, 4 * buckets * table_heads));
  }
  return all;
}

// Cosines and sines of two launches' pairs.
double table_error(Workbench& bench) {
  const std::int64_t positions = 70;
  const std::int64_t pairs = 520;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < pairs; ++i) {
    frequencies.push_back(static_cast<float>(
        std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(pairs))));
  }
  float* table = bench.output_floats(positions * 2 * pairs);
  rotary_table(bench.context(), {table, positions, frequencies, 3.0, 1.25});
  const std::vector<float> found =
      bench.read_floats({reinterpret_cast<std::byte*>(table), DType::kF32}, positions * 2 * pairs);
  double error = 0.0;
  for (std::int64_t p = 0; p < positions; ++p) {
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(p) * static_cast<float>(1.0 / 3.0) *
                          static_cast<float>(frequencies[static_cast<std::size_t>(i)]);
      const double expected[] = {1.25 * std::cos(static_cast<double>(angle)),
                                 1.25 * std::sin(static_cast<double>(angle))};
      for (int half = 0; half < 2; ++half) {
        const double difference =
            found[static_cast<std::size_t>((2 * p + half) * pairs + i)] - expected[half];
        if (std::isnan(difference)) return 1e30;
        error = std::max(error, std::fabs(difference));
      }
    }
  }
  return error / 1.25;
}

}  // namespace

std::vector<ExactCheck> position_checks() {
  std::vector<ExactCheck> checks;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const bool interleaved : {false, true}) {
      checks.push_back(
          {fmt::format("rotary positions {}{}", name_of(type), interleaved ? ", interleaved" : ""),
           [=](Workbench& bench) { return run_rotate(bench, type, interleaved); }});
    }
    checks.push_back({fmt::format("relative bias {}", name_of(type)),
                      [=](Workbench& bench) { return run_bias(bench, type); }});
  }
  return checks;
}

ApproximateCheck rotary_table_check() { return {"rotary table", table_error, 0x1p-22}; }

}  // namespace phalanx::cuda
