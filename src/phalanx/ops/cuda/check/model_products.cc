#include "phalanx/ops/cuda/check/model_products.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/ops/cuda/check/timed.h"
#include "phalanx/ops/cuda/elementwise.h"
#include "phalanx/ops/cuda/linear.h"
#include "phalanx/ops/cuda/random.h"

namespace phalanx::cuda {
namespace {

constexpr DType kType = DType::kBF16;
constexpr std::int64_t kSampled = 16;  // numbers of a product that are computed in double
// Sums of f32 numbers whose order is the library's; bf16 results are rounded besides.
constexpr double kSumTolerance = 5e-4;
constexpr double kRounding = 0x1p-8;

struct ModelProduct {
  const char* name;
  std::int64_t rows, n, k;
};
// 8 samples of 1,024 tokens, and one of 4,096.
constexpr ModelProduct kProducts[] = {
    {"124M: query, key, value", 8192, 2304, 768}, {"124M: attention's output", 8192, 768, 768},
    {"124M: first of the MLP", 8192, 3072, 768},  {"124M: second of the MLP", 8192, 768, 3072},
    {"124M: logits", 8192, 50304, 768},           {"7B: query, key, value", 4096, 12288, 4096},
    {"7B: attention's output", 4096, 4096, 4096}, {"7B: first of the MLP", 4096, 11008, 4096},
    {"7B: second of the MLP", 4096, 4096, 11008}, {"7B: logits", 4096, 32000, 4096}};

// Sides stay multiples of 8, as the library wants addresses of rows.
LinearShape shape_of(const ModelProduct& product, std::int64_t divisor) {
  const auto side = [&](std::int64_t n) { return round_up(ceil_div(n, divisor), std::int64_t{8}); };
  return {side(product.rows), side(product.n), side(product.k)};
}

std::int64_t bytes_of(const LinearShape& s) {
  return 2 * (s.rows * s.k + s.n * s.k + s.rows * s.n + std::max(s.rows * s.k, s.rows * s.n)) +
         4 * s.n * s.k;
}

TypedAddress random_matrix(Workbench& bench, std::int64_t rows, std::int64_t columns,
                           std::uint64_t number) {
  const TypedAddress x{bench.reserve(rows * columns * size_of(kType)), kType};
  normal(bench.context(),
         {.x = x,
          .rows = rows,
          .columns = columns,
          .row_stride = columns,
          .global_columns = columns,
          .first_row = 0,
          .first_column = 0,
          .key = {1, 2},
          .parameter = number},
         1.0);
  return x;
}

// A row or a column of a matrix on the device.
struct Line {
  TypedAddress matrix;
  std::int64_t columns = 0;
  bool is_row = true;
  std::int64_t length = 0;
};
std::vector<float> read_line(Workbench& bench, const Line& line, std::int64_t number) {
  const std::int64_t size = size_of(kType);
  if (line.is_row) {
    return bench.read_floats({line.matrix.at + number * line.columns * size, kType}, line.length);
  }
  return floats_of(
      bench.read_column(line.matrix.at + number * size, line.columns * size, size, line.length),
      kType);
}

// One of the three products of a layer: result[i, j] is the sum of line i of a times line j of b.
struct Pass {
  const char* name;
  double tolerance;
  TypedAddress result;
  std::int64_t result_rows, result_columns;
  Line a, b;
  LtProduct product;
  std::function<void()> enqueue;
};

double error_of(Workbench& bench, const Pass& pass) {
  double largest = 0.0;
  double error = 0.0;
  for (std::int64_t s = 0; s < kSampled; ++s) {
    // Places that no tile of a kernel has in common.
    const std::int64_t i = (s * 2654435761) % pass.result_rows;
    const std::int64_t j = (s * 40503 + 7) % pass.result_columns;
    const std::vector<float> a = read_line(bench, pass.a, i);
    const std::vector<float> b = read_line(bench, pass.b, j);
    double expected = 0.0;
    for (std::size_t k = 0; k < a.size(); ++k) expected += static_cast<double>(a[k]) * b[k];
    const std::int64_t at = (i * pass.result_columns + j) * size_of(pass.result.type);
    const double found = bench.read_floats({pass.result.at + at, pass.result.type}, 1)[0];
    largest = std::max(largest, std::abs(expected));
    const double off = std::abs(found - expected);
    error = std::isnan(off) ? off : std::max(error, off);
    if (std::isnan(error)) return error;
  }
  return error / largest;
}

std::vector<Pass> passes_of(const CudaContext& context, Workbench& bench, const LinearShape& s) {
  const TypedAddress x = random_matrix(bench, s.rows, s.k, 1);
  const TypedAddress w = random_matrix(bench, s.n, s.k, 2);
  const TypedAddress dy = random_matrix(bench, s.rows, s.n, 3);
  const TypedAddress out = bench.output(kType, std::max(s.rows * s.k, s.rows * s.n));
  const TypedAddress dw = bench.output(DType::kF32, s.n * s.k);
  const double rounded = kRounding + kSumTolerance;
  return {{"forward",
           rounded,
           out,
           s.rows,
           s.n,
           {x, s.k, true, s.k},
           {w, s.k, true, s.k},
           forward_product(s, kType, kType, false),
           [=, &context] { linear_forward(context, s, out, x, w, {}); }},
          {"input gradient",
           rounded,
           out,
           s.rows,
           s.k,
           {dy, s.n, true, s.n},
           {w, s.k, false, s.n},
           input_gradient_product(s, kType),
           [=, &context] { linear_input_gradient(context, s, out, dy, w); }},
          {"weight gradient",
           kSumTolerance,
           dw,
           s.n,
           s.k,
           {dy, s.n, false, s.rows},
           {x, s.k, false, s.rows},
           weight_gradient_product(s, kType, false),
           [=, &context] {
             linear_weight_gradient(context, s, reinterpret_cast<float*>(dw.at), dy, x, false);
           }}};
}

// Eight digits of what the library chose.
std::string choice_text(const LtAlgorithm& algorithm) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::uint64_t word : algorithm.words) hash = (hash ^ word) * 0x100000001b3U;
  return fmt::format("{:08x}", static_cast<std::uint32_t>(hash ^ (hash >> 32)));
}

}  // namespace

std::int64_t model_product_bytes(std::int64_t divisor) {
  std::int64_t most = 0;
  for (const ModelProduct& product : kProducts) {
    most = std::max(most, bytes_of(shape_of(product, divisor)));
  }
  return most + 8 * 256;
}

void check_model_products(Workbench& bench, std::int64_t divisor, CheckSink& sink) {
  constexpr double kSeconds = 60;  // the first product opens half a gigabyte of library
  const int device = bench.context().device;
  const double peak = peak_flops(facts(device));
  for (const ModelProduct& model : kProducts) {
    const LinearShape shape = shape_of(model, divisor);
    bench.clear();
    sink.begin(fmt::format("product {}", model.name), kSeconds);
    const CudaContext& context = bench.with_products();
    const double flops = 2.0 * static_cast<double>(shape.rows) * static_cast<double>(shape.n) *
                         static_cast<double>(shape.k);
    for (const Pass& pass : passes_of(context, bench, shape)) {
      const std::string name = fmt::format("product {}, {}", model.name, pass.name);
      sink.begin(name, kSeconds);
      const auto begin = std::chrono::steady_clock::now();
      CheckResult result{.name = name, .tolerance = pass.tolerance};
      try {
        const double seconds = median_seconds(bench.queue(), device, pass.enqueue);
        result.error = error_of(bench, pass);
        result.passed = result.error <= result.tolerance;
        sink.add({.name = name,
                  .value = flops / seconds * 1e-12,
                  .unit = "TFLOP/s",
                  .share_of_peak = peak > 0 ? flops / seconds / peak : 0,
                  .choice = choice_text(context.lt->choose(pass.product))});
      } catch (const Error& error) {
        result.more = error.what();
      }
      result.seconds =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      sink.add(result);
    }
  }
}

}  // namespace phalanx::cuda
