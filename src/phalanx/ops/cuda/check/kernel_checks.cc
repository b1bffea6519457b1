// The kernels whose results have the emulated machine's bits: those without products, 2^x,
// logarithms and sines.

#include <fmt/core.h>

#include <limits>

#include "phalanx/base/numeric.h"
#include "phalanx/cuda/simt.h"
#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/column_sums.h"
#include "phalanx/ops/cuda/dropout.h"
#include "phalanx/ops/cuda/elementwise.h"
#include "phalanx/ops/cuda/norm.h"
#include "phalanx/ops/cuda/optimizer.h"
#include "phalanx/ops/cuda/reduce.h"

namespace phalanx::cuda {
namespace {

using Bytes = std::vector<std::byte>;

constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

std::string type_name(DType type) { return std::string(name_of(type)); }

DeviceSegments segments_of(Workbench& bench, const std::vector<ops::Segment>& rows,
                           std::int64_t first) {
  return {rows, reinterpret_cast<const std::byte*>(bench.upload(rows)), first};
}

// Every number of a 16-bit type, and of f32 as many.
TypedAddress every_number(Workbench& bench, DType type) {
  if (type == DType::kF32) {
    std::vector<std::uint32_t> words = bench.random_words(0x10000);
    // Places where 16-bit types round.
    for (std::size_t i = 0; i < words.size(); i += 3) words[i] = (words[i] & 0xffff0000U) | 0x8000U;
    for (std::size_t i = 1; i < words.size(); i += 3) words[i] = (words[i] & 0xffffe000U) | 0x1000U;
    return {reinterpret_cast<std::byte*>(bench.upload(words)), type};
  }
  std::vector<std::uint16_t> halves(0x10000);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  return {reinterpret_cast<std::byte*>(bench.upload(halves)), type};
}

void add_elementwise(std::vector<ExactCheck>& checks) {
  checks.push_back({"fill", [](Workbench& bench) {
                      Bytes all;
                      for (const DType type : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                               DType::kI64, DType::kI32, DType::kU8}) {
                        const TypedAddress x = bench.output(type, 5003, size_of(type));
                        fill(bench.context(), x, 5003, type == DType::kU8 ? 7.0 : -3.14159);
                        append(all, bench.read(x, 5003));
                      }
                      return all;
                    }});
  for (const DType to : kTypes) {
    for (const DType from : kTypes) {
      const std::string name = fmt::format("{} from {}", name_of(to), name_of(from));
      if (to != from) {
        checks.push_back({"convert " + name, [=](Workbench& bench) {
                            const TypedAddress source = every_number(bench, from);
                            const TypedAddress y = bench.output(to, 0x10000);
                            convert(bench.context(), y, source, 0x10000);
                            return bench.read(y, 0x10000);
                          }});
      }
      checks.push_back({"accumulate " + name, [=](Workbench& bench) {
                          Bytes all;
                          for (const std::int64_t offset : {0, 4}) {
                            const TypedAddress y = bench.uniform(to, 4101, -2, 2, offset);
                            const TypedAddress x = bench.uniform(from, 4101, -2, 2, offset);
                            accumulate(bench.context(), y, x, 4101);
                            append(all, bench.read(y, 4101));
                          }
                          return all;
                        }});
    }
    checks.push_back({"scale " + type_name(to), [=](Workbench& bench) {
                        const TypedAddress x = bench.uniform(to, 4101, -2, 2);
                        const TypedAddress y = bench.output(to, 4101);
                        scale(bench.context(), y, x, 4101, 0.3);
                        return bench.read(y, 4101);
                      }});
    checks.push_back(
        {"copy of strides " + type_name(to), [=](Workbench& bench) {
           const TypedAddress x = bench.uniform(DType::kF32, 7 * 11 * 13, -2, 2);
           const TypedAddress y = bench.output(to, 7 * 11 * 13);
           // A transposition: [7, 11, 13] to [13, 7, 11].
           copy_strided(bench.context(), y, x, {3, {13, 7, 11}, {77, 11, 1}, {1, 143, 13}});
           return bench.read(y, 7 * 11 * 13);
         }});
  }
}

struct NormCase {
  DType type;
  DType stream;
  std::int64_t rows;
  std::int64_t places;
  std::int64_t columns;
  bool layer_norm;
};

Bytes run_norms(Workbench& bench, const NormCase& c) {
  const std::int64_t rows = c.rows * c.places;
  const std::int64_t n = rows * c.columns;
  const NormShape shape{c.rows, c.places, c.columns};
  const auto operand = [&](TypedAddress data) {
    return NormOperand{data, c.places * c.columns, c.columns};
  };
  NormForwardCall forward{.shape = shape,
                          .y = operand(bench.output(c.type, n)),
                          .x = operand(bench.uniform(c.stream, n, -1.5, 2.5)),
                          .weight = bench.uniform(c.type, c.columns, -1, 1),
                          .bias = {},
                          .mean = nullptr,
                          .rstd = bench.output_floats(rows),
                          .epsilon = 1e-5,
                          .zero_centred = !c.layer_norm};
  if (c.layer_norm) {
    forward.bias = bench.uniform(c.type, c.columns, -1, 1);
    forward.mean = bench.output_floats(rows);
  }
  norm_forward(bench.context(), forward);
  Bytes all = bench.read(forward.y.data, n);
  append(all, bench.read(forward.rstd, 4 * rows));
  if (c.layer_norm) append(all, bench.read(forward.mean, 4 * rows));
  const TypedAddress again = bench.output(c.type, n);
  NormForwardCall apply = forward;
  apply.y = operand(again);
  norm_apply(bench.context(), apply);
  append(all, bench.read(again, n));

  const NormBackwardCall backward{.shape = shape,
                                  .dx = operand(bench.uniform(c.stream, n, -1, 1)),
                                  .dweight = bench.output_floats(c.columns),
                                  .dbias = c.layer_norm ? bench.output_floats(c.columns) : nullptr,
                                  .dy = operand(bench.uniform(c.type, n, -1, 1)),
                                  .x = forward.x,
                                  .mean = forward.mean,
                                  .rstd = forward.rstd,
                                  .weight = forward.weight,
                                  .zero_centred = forward.zero_centred,
                                  .residual = {}};
  NormBackwardCall in_place = backward;
  in_place.residual = in_place.dx;
  norm_backward(bench.context(), in_place);
  append(all, bench.read(backward.dx.data, n));
  append(all, bench.read(backward.dweight, 4 * c.columns));
  if (c.layer_norm) append(all, bench.read(backward.dbias, 4 * c.columns));
  return all;
}

void add_norms(std::vector<ExactCheck>& checks) {
  const auto add = [&](const NormCase& c) {
    checks.push_back({fmt::format("{} norm {} on {}, {} x {} x {}", c.layer_norm ? "layer" : "RMS",
                                  name_of(c.type), name_of(c.stream), c.rows, c.places, c.columns),
                      [c](Workbench& bench) { return run_norms(bench, c); }});
  };
  for (const DType type : kTypes) {
    for (const DType stream : {type, DType::kF32}) {
      if (type == DType::kF32 && stream != type) continue;
      add({type, stream, 33, 1, 768, true});
      add({type, stream, 5, 1, 129, false});
      add({type, stream, 3, 1, 4096, true});
      add({type, stream, 2, 1, 8200, false});
      if (type == DType::kF32) break;
    }
    add({type, type, 9, 4, 64, false});
    add({type, type, 300, 1, 65, true});
  }
}

void add_sums(std::vector<ExactCheck>& checks) {
  for (const DType type : kTypes) {
    checks.push_back({"column sums " + type_name(type), [=](Workbench& bench) {
                        Bytes all;
                        for (const std::int64_t columns : {200, 65}) {
                          float* sums = bench.upload(bench.uniform_floats(columns, -1, 1));
                          const TypedAddress x = bench.uniform(type, 300 * columns, -1, 1);
                          column_sums(bench.context(), sums, x, 300, columns, columns, true);
                          append(all, bench.read(sums, 4 * columns));
                        }
                        return all;
                      }});
  }
  checks.push_back(
      {"square sums, counts of zeros, totals, factor", [](Workbench& bench) {
         const std::int64_t n = 100003;
         std::vector<float> numbers = bench.uniform_floats(n, -3, 3);
         for (std::size_t i = 0; i < numbers.size(); i += 7) numbers[i] = 0.0F;
         Bytes all;
         for (const std::int64_t lead : {0, 4, 77}) {
           const float* x = bench.upload(numbers, 4 * (lead % 8));
           const std::int64_t blocks = ceil_div(lead + n, 4096);
           auto* sums = reinterpret_cast<double*>(bench.output(DType::kF64, blocks + 1).at);
           auto* zeros = reinterpret_cast<double*>(bench.output(DType::kF64, blocks).at);
           float* numbers3 = bench.output_floats(3);
           const float* loss_scale = bench.upload(std::vector<float>{1024.0F});
           const double* tokens = bench.upload(std::vector<double>{1000.0});
           const double* expected = bench.upload(std::vector<double>{1024.0});
           const std::vector<ops::Segment> rows = {{.begin = lead, .count = n}};
           const DeviceSegments segments = segments_of(bench, rows, lead);
           square_sum_segments(bench.context(), {segments, sums, x});
           zero_count_segments(bench.context(), {segments, zeros, x});
           total(bench.context(), sums + blocks, zeros, blocks);
           gradient_factor(bench.context(), {numbers3, numbers3 + 1, numbers3 + 2, sums, blocks,
                                             tokens, expected, loss_scale, 0.5});
           append(all, bench.read(sums, 8 * (blocks + 1)));
           append(all, bench.read(zeros, 8 * blocks));
           append(all, bench.read(numbers3, 12));
         }
         return all;
       }});
}

Bytes run_total_segments(Workbench& bench) {
  std::vector<ops::Segment> rows = {{.begin = 0, .count = 1500, .group = 2},
                                    {.begin = 1500, .count = 1, .group = 0},
                                    {.begin = 1600, .count = 1400, .group = 1}};
  ops::number_blocks(rows);
  const TypedAddress x = bench.uniform(DType::kF64, 3000, -1, 1);
  const TypedAddress totals = bench.output(DType::kF64, 4);
  total_segments(bench.context(), segments_of(bench, rows, 0), reinterpret_cast<double*>(totals.at),
                 reinterpret_cast<const double*>(x.at));
  return bench.read(totals, 4);
}

Bytes run_total(Workbench& bench) {
  const TypedAddress x = bench.uniform(DType::kF64, 3000, -1, 1);
  const TypedAddress sum = bench.output(DType::kF64, 1);
  total(bench.context(), reinterpret_cast<double*>(sum.at), reinterpret_cast<const double*>(x.at),
        3000);
  return bench.read(sum, 1);
}

Bytes run_optimizer(Workbench& bench, DType storage, bool adam, bool aligned) {
  const std::int64_t first = aligned ? 8192 : 8191;
  std::vector<ops::Segment> rows = {{.begin = 0, .count = first},
                                    {.begin = first, .count = 777, .group = 1},
                                    {.begin = first + 1000, .count = 5000}};
  ops::number_blocks(rows);
  const std::int64_t n = first + 6000;
  OptimizerCall common;
  common.segments = segments_of(bench, rows, 0);
  common.settings = bench.upload(std::vector<double>{0.01, 0.1, 0.003, 0.0});
  common.factor = bench.upload(std::vector<float>{0.7F});
  common.skip = bench.upload(std::vector<float>{0.0F});
  common.weight = bench.upload(bench.uniform_floats(n, -1, 1));
  if (storage != DType::kF32) common.storage = bench.output(storage, n);
  common.gradient = bench.upload(bench.uniform_floats(n, -3, 3));
  float* first_moment = bench.upload(bench.uniform_floats(n, -1, 1));
  float* second_moment = bench.upload(bench.uniform_floats(n, 0, 1));
  const double* corrections = bench.upload(std::vector<double>{3.7, 1.9});
  if (adam) {
    adam_segments(bench.context(),
                  {common, first_moment, second_moment, corrections, 0.9, 0.95, 1e-8});
  } else {
    sgd_segments(bench.context(), {common, aligned ? first_moment : nullptr, 0.9});
  }
  Bytes all = bench.read(common.weight, 4 * n);
  append(all, bench.read(first_moment, 4 * n));
  append(all, bench.read(second_moment, 4 * n));
  if (common.storage) append(all, bench.read(common.storage, n));
  return all;
}

void add_optimizers(std::vector<ExactCheck>& checks) {
  checks.push_back({"total of 3,000", run_total});
  checks.push_back({"totals of three segments", run_total_segments});
  for (const DType type : kTypes) {
    for (const bool adam : {true, false}) {
      for (const bool aligned : {true, false}) {
        checks.push_back(
            {fmt::format("{} {}{}", adam ? "adam" : "sgd", name_of(type),
                         aligned ? "" : ", odd segments"),
             [=](Workbench& bench) { return run_optimizer(bench, type, adam, aligned); }});
      }
    }
  }
}

void add_dropout(std::vector<ExactCheck>& checks) {
  for (const DType type : kTypes) {
    for (const DType stream : {type, DType::kF32}) {
      checks.push_back(
          {fmt::format("dropout {} on {}", name_of(type), name_of(stream)), [=](Workbench& bench) {
             Bytes all;
             for (const std::int64_t columns : {136, 67}) {
               const std::int64_t rows = 21;
               DropoutCall call{.rows = rows,
                                .columns = columns,
                                .probability = 0.1,
                                .key = {17, 5},
                                .site = 0x00033000,
                                .sample = nullptr,
                                .position = nullptr};
               std::vector<std::int64_t> samples;
               std::vector<std::int32_t> positions;
               for (std::int64_t r = 0; r < rows; ++r) {
                 samples.push_back((std::int64_t{3} << 33) + r / 4);
                 positions.push_back(static_cast<std::int32_t>(5 + r));
               }
               call.sample = bench.upload(samples);
               call.position = bench.upload(positions);
               const TypedAddress out = bench.uniform(stream, rows * columns, -1, 1);
               const TypedAddress x = bench.uniform(type, rows * columns, -1, 1);
               const TypedAddress bias = bench.uniform(type, columns, -1, 1);
               bias_dropout_residual(bench.context(), call, out, x, bias, out);
               append(all, bench.read(out, rows * columns));
               const TypedAddress dx = bench.output(type, rows * columns);
               dropout_backward(bench.context(), call, dx, out);
               append(all, bench.read(dx, rows * columns));
             }
             return all;
           }});
      if (type == DType::kF32) break;
    }
  }
}

}  // namespace

std::vector<ExactCheck> kernel_checks() {
  std::vector<ExactCheck> checks;
  add_elementwise(checks);
  add_norms(checks);
  add_sums(checks);
  add_optimizers(checks);
  add_dropout(checks);
  return checks;
}

}  // namespace phalanx::cuda
