#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cuda/activation.h"
#include "phalanx/ops/cuda/attention.h"
#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/column_sums.h"
#include "phalanx/ops/cuda/cross_entropy.h"
#include "phalanx/ops/cuda/dropout.h"
#include "phalanx/ops/cuda/elementwise.h"
#include "phalanx/ops/cuda/embedding.h"
#include "phalanx/ops/cuda/linear.h"
#include "phalanx/ops/cuda/norm.h"
#include "phalanx/ops/cuda/optimizer.h"
#include "phalanx/ops/cuda/random.h"
#include "phalanx/ops/cuda/reduce.h"
#include "phalanx/ops/cuda/relative_bias.h"
#include "phalanx/ops/cuda/rotary.h"

namespace phalanx::cuda {
namespace {

using Measure = std::function<void(const Rate&)>;

// Numbers of a normal size that cost no time of the host.
TypedAddress numbers(Workbench& bench, DType type, std::int64_t n) {
  const TypedAddress x{bench.reserve(n * size_of(type)), type};
  normal(bench.context(),
         {.x = x,
          .rows = ceil_div(n, 4096) > 1 ? n / 4096 : 1,
          .columns = ceil_div(n, 4096) > 1 ? 4096 : n,
          .row_stride = 4096,
          .global_columns = 4096,
          .first_row = 0,
          .first_column = 0,
          .key = {1, 2},
          .parameter = static_cast<std::uint64_t>(n)},
         1.0);
  return x;
}
float* floats(Workbench& bench, std::int64_t n) {
  return reinterpret_cast<float*>(numbers(bench, DType::kF32, n).at);
}

double bytes_of(std::int64_t n, DType type) { return static_cast<double>(n * size_of(type)); }

void elementwise_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  constexpr DType kStorage = DType::kBF16;
  const auto& context = bench.context();
  {
    const std::int64_t n = bytes / 8;
    const TypedAddress x = numbers(bench, DType::kF32, n);
    measure({"fill f32", bytes_of(n, DType::kF32), 0, [=] { fill(context, x, n, 1.0); }});
    const TypedAddress y{bench.reserve(n * 4), DType::kF32};
    measure(
        {"copy f32 (driver)", 2 * bytes_of(n, DType::kF32), 0, [=] { convert(context, y, x, n); }});
    measure(
        {"accumulate f32", 3 * bytes_of(n, DType::kF32), 0, [=] { accumulate(context, y, x, n); }});
    measure({"scale f32", 2 * bytes_of(n, DType::kF32), 0, [=] { scale(context, y, x, n, 0.5); }});
    bench.clear();
  }
  const std::int64_t n = bytes / 12 / 4096 * 4096;
  const TypedAddress x = numbers(bench, DType::kF32, n);
  const TypedAddress half{bench.reserve(n * 2), kStorage};
  const TypedAddress other{bench.reserve(n * 2), kStorage};
  const TypedAddress third{bench.reserve(n * 2), kStorage};
  measure({"convert f32 to bf16", 6.0 * static_cast<double>(n), 0,
           [=] { convert(context, half, x, n); }});
  convert(context, third, x, n);
  measure({"convert bf16 to f32", 6.0 * static_cast<double>(n), 0,
           [=] { convert(context, x, half, n); }});
  measure({"accumulate f32 += bf16", 10.0 * static_cast<double>(n), 0,
           [=] { accumulate(context, x, half, n); }});
  const std::int64_t columns = 4096;
  const std::int64_t rows = n / columns;
  if (rows == 0) return;
  const TypedAddress bias = numbers(bench, kStorage, columns);
  for (const auto& [kind, name] : {std::pair{ops::ActivationKind::kGeluTanh, "gelu (tanh)"},
                                   std::pair{ops::ActivationKind::kGeluErf, "gelu (erf)"},
                                   std::pair{ops::ActivationKind::kSilu, "silu"}}) {
    const ActivationCall call{rows, columns, kind, bias};
    measure({fmt::format("{} forward bf16", name), 4.0 * static_cast<double>(n), 0,
             [=] { bias_activation_forward(context, call, other, half); }});
    measure({fmt::format("{} backward bf16", name), 6.0 * static_cast<double>(n), 0,
             [=] { bias_activation_backward(context, call, other, third, half); }});
  }
  const ActivationCall gated{rows / 2, columns, ops::ActivationKind::kSilu, {}};
  measure({"swiglu forward bf16", 3.0 * static_cast<double>(n), 0,
           [=] { gated_activation_forward(context, gated, other, half); }});
  measure({"swiglu backward bf16", 5.0 * static_cast<double>(n), 0,
           [=] { gated_activation_backward(context, gated, other, third, half); }});
  auto* samples = reinterpret_cast<std::int64_t*>(bench.reserve(8 * rows));
  auto* positions = reinterpret_cast<std::int32_t*>(bench.reserve(4 * rows));
  set_bytes(context.queue, samples, 0, 8 * rows);
  set_bytes(context.queue, positions, 1, 4 * rows);
  for (const double probability : {0.0, 0.1}) {
    const DropoutCall call{rows, columns, probability, {3, 4}, 7, samples, positions};
    measure({fmt::format("bias, dropout {}, residual bf16", probability),
             6.0 * static_cast<double>(n), 0,
             [=] { bias_dropout_residual(context, call, other, half, bias, third); }});
  }
  const DropoutCall call{rows, columns, 0.1, {3, 4}, 7, samples, positions};
  measure({"dropout backward bf16", 4.0 * static_cast<double>(n), 0,
           [=] { dropout_backward(context, call, other, half); }});
  bench.clear();
}

void norm_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  const auto& context = bench.context();
  for (const DType stream : {DType::kBF16, DType::kF32}) {
    for (const std::int64_t h : {std::int64_t{768}, std::int64_t{4096}, std::int64_t{16384}}) {
      const std::int64_t rows = bytes / 14 / h / 8 * 8;
      if (rows == 0) continue;
      const std::int64_t n = rows * h;
      const double elements = static_cast<double>(n);
      const double wide = static_cast<double>(size_of(stream));
      const auto operand = [&](TypedAddress data) { return NormOperand{data, h, h}; };
      NormForwardCall forward;
      forward.shape = {rows, 1, h};
      forward.y = operand({bench.reserve(n * 2), DType::kBF16});
      forward.x = operand(numbers(bench, stream, n));
      forward.weight = numbers(bench, DType::kBF16, h);
      forward.bias = numbers(bench, DType::kBF16, h);
      forward.mean = reinterpret_cast<float*>(bench.reserve(4 * rows));
      forward.rstd = reinterpret_cast<float*>(bench.reserve(4 * rows));
      const std::string name =
          fmt::format("layer norm {{}} bf16 on {}, h = {}", name_of(stream), h);
      measure({fmt::format(fmt::runtime(name), "forward"), elements * (2 + wide), 0,
               [=] { norm_forward(context, forward); }});
      measure({fmt::format(fmt::runtime(name), "applied"), elements * (2 + wide), 0,
               [=] { norm_apply(context, forward); }});
      NormBackwardCall backward;
      backward.shape = forward.shape;
      backward.dx = operand({bench.reserve(n * size_of(stream)), stream});
      backward.dweight = reinterpret_cast<float*>(bench.reserve(4 * h));
      backward.dbias = reinterpret_cast<float*>(bench.reserve(4 * h));
      backward.dy = operand(numbers(bench, DType::kBF16, n));
      backward.x = forward.x;
      backward.mean = forward.mean;
      backward.rstd = forward.rstd;
      backward.weight = forward.weight;
      // x and dy are read twice: once for rows, once for columns.
      measure({fmt::format(fmt::runtime(name), "backward"), elements * (4 + 3 * wide), 0,
               [=] { norm_backward(context, backward); }});
      bench.clear();
    }
  }
}

void sum_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  const auto& context = bench.context();
  for (const std::int64_t columns : {std::int64_t{768}, std::int64_t{3072}}) {
    const std::int64_t rows = bytes / 4 / columns;
    const TypedAddress x = numbers(bench, DType::kBF16, rows * columns);
    float* sums = floats(bench, columns);
    measure({fmt::format("column sums bf16, {} columns", columns),
             bytes_of(rows * columns, DType::kBF16), 0,
             [=] { column_sums(context, sums, x, rows, columns, columns, true); }});
    bench.clear();
  }
  const std::int64_t n = bytes / 5;
  const float* x = floats(bench, n);
  auto* sums = reinterpret_cast<double*>(bench.reserve(8 * ceil_div(n, 4096)));
  auto* sum = reinterpret_cast<double*>(bench.reserve(8));
  const std::vector<ops::Segment> all = {{.begin = 0, .count = n}};
  const BlockTermsCall squares{
      {all, reinterpret_cast<const std::byte*>(bench.upload(all))}, sums, x};
  measure({"square sum f32", 4.0 * static_cast<double>(n), 0,
           [=] { square_sum_segments(context, squares); }});
  const std::int64_t blocks = std::min<std::int64_t>(ceil_div(n, 4096), 30000);
  measure({fmt::format("total of {}", blocks), 8.0 * static_cast<double>(blocks), 0,
           [=] { total(context, sum, sums, blocks); }});
  bench.clear();

  const std::int64_t weights = bytes / 20 / 64 * 64;
  std::vector<ops::Segment> rows = {{.begin = 0, .count = weights / 2},
                                    {.begin = weights / 2, .count = weights / 2, .group = 1}};
  ops::number_blocks(rows);
  OptimizerCall common;
  common.segments = {rows, reinterpret_cast<const std::byte*>(bench.upload(rows))};
  common.settings = bench.upload(std::vector<double>{1e-4, 0.1, 1e-4, 0.0});
  common.factor = bench.upload(std::vector<float>{1.0F});
  common.skip = bench.upload(std::vector<float>{0.0F});
  const double* corrections = bench.upload(std::vector<double>{1.0, 1.0});
  common.weight = floats(bench, weights);
  common.storage = {bench.reserve(2 * weights), DType::kBF16};
  common.gradient = floats(bench, weights);
  float* first = floats(bench, weights);
  float* second = floats(bench, weights);
  fill(context, {reinterpret_cast<std::byte*>(second), DType::kF32}, weights, 1.0);
  measure({"adam, bf16 copy", 30.0 * static_cast<double>(weights), 0, [=] {
             adam_segments(context, {common, first, second, corrections, 0.9, 0.95, 1e-8});
           }});
  measure({"sgd with momentum, bf16 copy", 22.0 * static_cast<double>(weights), 0, [=] {
             sgd_segments(context, {common, first, 0.9});
           }});
  bench.clear();
}

// A vocabulary of GPT-2's size; ids as a text has them: half of the rows have one of 70 words.
void embedding_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  constexpr DType kStorage = DType::kBF16;
  const auto& context = bench.context();
  const std::int64_t v = 50304;
  for (const std::int64_t h : {std::int64_t{768}, std::int64_t{4096}}) {
    const std::int64_t most = (bytes / 2 - 12 * v * h) / (4 * h);
    const std::int64_t rows = std::min<std::int64_t>(most, 65536);
    if (rows <= 0) continue;
    std::vector<std::int32_t> ids;
    for (const float x : bench.uniform_floats(rows, 0, 1)) {
      ids.push_back(static_cast<std::int32_t>(std::exp(x * std::log(static_cast<float>(v)))) - 1);
    }
    const IdRows batch{bench.upload(ids), rows, h};
    const TypedAddress y = numbers(bench, kStorage, rows * h);
    const TableRows table{{numbers(bench, kStorage, v * h), h}, v, 0};
    const auto n = static_cast<double>(rows * h);
    const std::string name = fmt::format("bf16, {} rows, h = {}", rows, h);
    measure(
        {"embedding " + name, 4.0 * n, 0, [=] { embedding_forward(context, batch, y, table); }});
    std::vector<bool> met(static_cast<std::size_t>(v));
    for (const std::int32_t id : ids) met[static_cast<std::size_t>(id)] = true;
    const auto distinct = static_cast<double>(std::count(met.begin(), met.end(), true));
    const TableRows dtable{{numbers(bench, DType::kF32, v * h), h}, v, 0};
    // The sums of an id are read and written once.
    measure({"embedding gradient " + name, 2.0 * n + 8.0 * distinct * static_cast<double>(h), 0,
             [=] { embedding_gradient(context, batch, dtable, y); }});
    const SparseSlots sparse{
        bench.upload(std::vector<std::int32_t>(static_cast<std::size_t>(v), -1)),
        reinterpret_cast<std::int32_t*>(bench.reserve(4 * v)),
        bench.upload(std::vector<std::int32_t>{0}),
        v,
        {{bench.reserve(4 * v * h), DType::kF32}, h}};
    measure({"sparse embedding gradient " + name, 2.0 * n + 8.0 * distinct * static_cast<double>(h),
             0, [=] { sparse_embedding_gradient(context, batch, sparse, v, 0, y); }});
    bench.clear();
  }
}

void position_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  const auto& context = bench.context();
  const std::int64_t batch = 4;
  const std::int64_t heads = 32;
  const std::int64_t width = 128;
  const std::int64_t rows = std::min<std::int64_t>(bytes / 4 / (batch * heads * width * 2), 8192);
  if (rows > 0) {
    const std::int64_t n = rows * batch * heads * width;
    std::vector<std::int32_t> positions;
    for (std::int64_t r = 0; r < rows; ++r) {
      positions.insert(positions.end(), batch, static_cast<std::int32_t>(r));
    }
    RotateCall call;
    call.x = {numbers(bench, DType::kBF16, n), batch * heads * width, heads * width, 0, width};
    call.y = call.x;
    call.rows = rows;
    call.batch = batch;
    call.heads = heads;
    call.width = width;
    call.position = bench.upload(positions);
    call.position_row_stride = batch;
    call.position_sample_stride = 1;
    call.table = floats(bench, rows * width);
    call.positions = rows;
    call.dimensions = width;
    for (const bool interleaved : {false, true}) {
      call.interleaved = interleaved;
      measure({fmt::format("rotary positions bf16 in place{}", interleaved ? ", interleaved" : ""),
               4.0 * static_cast<double>(n), 0, [=] { rotate(context, call); }});
    }
    bench.clear();
  }
  const std::int64_t length = 2048;
  const std::int64_t n = 16 * length * length;
  if (n * 8 > bytes) return;
  const std::vector<std::int32_t> begins = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
  RelativeBiasCall call;
  call.heads = 16;
  call.queries = length;
  call.keys = length;
  call.table_heads = 16;
  call.bucket_begins = begins;
  const TypedAddress table = numbers(bench, DType::kBF16, 512);
  float* dtable = floats(bench, 512);
  float* bias = floats(bench, n);
  measure({"relative bias, 16 heads of 2,048 x 2,048", 4.0 * static_cast<double>(n), 0,
           [=] { relative_bias_forward(context, call, bias, table); }});
  measure({"relative bias backward, 16 heads of 2,048 x 2,048", 4.0 * static_cast<double>(n), 0,
           [=] { relative_bias_backward(context, call, dtable, bias); }});
  bench.clear();
}

// The gradient reads the logits twice, which is counted.
void loss_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  const auto& context = bench.context();
  const std::int64_t v = 50304;
  for (const DType type : {DType::kBF16, DType::kF32}) {
    const std::int64_t rows = std::min<std::int64_t>(bytes / 2 / v / size_of(type), 16384);
    if (rows == 0) continue;
    CrossEntropyCall call;
    call.rows = rows;
    call.columns = v;
    call.vocabulary = 50257;
    call.logits = {numbers(bench, type, rows * v), v};
    call.targets = bench.upload(std::vector<std::int32_t>(static_cast<std::size_t>(rows), 77));
    call.mask = bench.upload(std::vector<float>(static_cast<std::size_t>(rows), 1.0F));
    call.loss = reinterpret_cast<float*>(bench.reserve(4 * rows));
    call.seed = bench.upload(std::vector<float>{1.0F});
    auto* statistics = reinterpret_cast<float*>(bench.reserve(12 * rows));
    const double size = bytes_of(rows * v, type);
    const std::string name = fmt::format("{}, {} rows", name_of(type), rows);
    measure(
        {"cross entropy without gradient " + name, size, 0, [=] { cross_entropy(context, call); }});
    measure({"cross entropy statistics " + name, size, 0,
             [=] { cross_entropy_statistics(context, call, statistics); }});
    CrossEntropyCall in_place = call;
    in_place.dlogits = call.logits;
    measure({"cross entropy with gradient " + name, 3.0 * size, 0,
             [=] { cross_entropy(context, in_place); }});
    cross_entropy_statistics(context, call, statistics);
    measure({"vocabulary parallel cross entropy " + name, 2.0 * size, 0,
             [=] { vocabulary_parallel_cross_entropy(context, in_place, statistics, 1); }});
    auto* sums = bench.upload(std::vector<double>{0.0, 0.0});
    measure({fmt::format("loss sums of {} rows", rows), 8.0 * static_cast<double>(rows), 0,
             [=] { loss_accumulate(context, sums, sums + 1, call.loss, call.mask, call.rows); }});
    bench.clear();
  }
}

// Causal self-attention of heads side by side; half of the pairs are counted.
void attention_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  const auto& context = bench.context();
  struct Shape {
    DType type;
    std::int64_t length, batch, heads, width;
    double probability;
  };
  const Shape shapes[] = {{DType::kBF16, 1024, 8, 12, 64, 0.0},
                          {DType::kBF16, 1024, 8, 12, 64, 0.1},
                          {DType::kBF16, 4096, 1, 32, 128, 0.0},
                          {DType::kF32, 1024, 8, 12, 64, 0.0}};
  for (const Shape& s : shapes) {
    const std::int64_t n = s.length * s.batch * s.heads * s.width;
    if (8 * n * size_of(s.type) > bytes) continue;
    const auto operand = [&] {
      return AttentionOperand{numbers(bench, s.type, n), s.batch * s.heads * s.width,
                              s.heads * s.width, s.width, s.width};
    };
    std::vector<std::int32_t> positions;
    for (std::int64_t i = 0; i < s.length; ++i) {
      positions.insert(positions.end(), static_cast<std::size_t>(s.batch),
                       static_cast<std::int32_t>(i));
    }
    const auto rows = static_cast<std::size_t>(s.length * s.batch);
    AttentionCall call;
    call.query = operand();
    call.key = operand();
    call.value = operand();
    call.query_rows = {{bench.upload(std::vector<std::int64_t>(rows, 3)), s.batch, 1},
                       {bench.upload(positions), s.batch, 1},
                       {bench.upload(std::vector<std::int32_t>(rows, 0)), s.batch, 1}};
    call.key_rows = call.query_rows;
    call.queries = call.keys = s.length;
    call.batch = s.batch;
    call.heads = call.groups = s.heads;
    call.width = s.width;
    call.causal = true;
    call.scale = 1.0 / std::sqrt(static_cast<double>(s.width));
    call.probability = s.probability;
    const AttentionOperand out = operand();
    AttentionBackwardCall backward;
    backward.dout = operand();
    backward.dquery = operand();
    backward.dkey = operand();
    backward.dvalue = operand();
    float* lse = floats(bench, s.batch * s.heads * s.length);
    float* delta = floats(bench, s.batch * s.heads * s.length);
    backward.lse = lse;
    backward.delta = delta;
    // A product of all pairs is 2 flops for each and each column.
    const double product = static_cast<double>(n) * static_cast<double>(s.length);
    const std::string name =
        fmt::format("{} of {} x {}, {} heads of {}, dropout {}", name_of(s.type), s.batch, s.length,
                    s.heads, s.width, s.probability);
    measure({"attention forward " + name, 0, 2.0 * product,
             [=] { attention_forward(context, call, out, lse); }});
    measure({"attention delta " + name, 2.0 * bytes_of(n, s.type), 0, [=] {
               attention_delta(context,
                               {delta, out, backward.dout, s.length, s.batch, s.heads, s.width});
             }});
    measure({"attention backward " + name, 0, 5.0 * product,
             [=] { attention_backward(context, call, backward); }});
    bench.clear();
  }
}

// Products of models are in model_products.h.
void product_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  const CudaContext context = bench.with_products();
  struct Shape {
    const char* name;
    DType type;
    std::int64_t rows, n, k;
    bool tf32;
  };
  const Shape shapes[] = {
      {"square of 8,192", DType::kBF16, 8192, 8192, 8192, false},
      {"square of 4,096", DType::kF16, 4096, 4096, 4096, false},
      {"square of 4,096", DType::kF32, 4096, 4096, 4096, false},
      {"square of 4,096 as tf32", DType::kF32, 4096, 4096, 4096, true},
  };
  for (const Shape& s : shapes) {
    const std::int64_t needed =
        size_of(s.type) * (s.rows * s.k + s.n * s.k + s.rows * s.n) + 4 * s.n * s.k;
    if (needed + 4096 > bytes) continue;
    const LinearShape shape{s.rows, s.n, s.k, s.tf32};
    const TypedAddress x = numbers(bench, s.type, s.rows * s.k);
    const TypedAddress w = numbers(bench, s.type, s.n * s.k);
    const TypedAddress y = numbers(bench, s.type, s.rows * s.n);
    float* dw = reinterpret_cast<float*>(bench.reserve(4 * s.n * s.k));
    fill(context, {reinterpret_cast<std::byte*>(dw), DType::kF32}, s.n * s.k, 0.0);
    const double flops =
        2.0 * static_cast<double>(s.rows) * static_cast<double>(s.n) * static_cast<double>(s.k);
    const std::string name = fmt::format("{} {}", name_of(s.type), s.name);
    measure({"product " + name + ", forward", 0, flops,
             [=] { linear_forward(context, shape, y, x, w, {}); }});
    measure({"product " + name + ", input gradient", 0, flops,
             [=] { linear_input_gradient(context, shape, x, y, w); }});
    measure({"product " + name + ", weight gradient", 0, flops,
             [=] { linear_weight_gradient(context, shape, dw, y, x, true); }});
    bench.clear();
  }
}

}  // namespace

void for_rates(Workbench& bench, std::int64_t bytes, const Measure& measure) {
  elementwise_rates(bench, bytes, measure);
  norm_rates(bench, bytes, measure);
  sum_rates(bench, bytes, measure);
  embedding_rates(bench, bytes, measure);
  loss_rates(bench, bytes, measure);
  position_rates(bench, bytes, measure);
  attention_rates(bench, bytes, measure);
  product_rates(bench, bytes, measure);
}

}  // namespace phalanx::cuda
