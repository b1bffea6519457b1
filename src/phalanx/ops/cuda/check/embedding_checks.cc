// Table look-up, its gradients, and sums of losses: their results have the emulated machine's bits.

#include <fmt/core.h>

#include <algorithm>

#include "phalanx/ops/cuda/check/checks.h"
#include "phalanx/ops/cuda/cross_entropy.h"
#include "phalanx/ops/cuda/embedding.h"
#include "phalanx/ops/cuda/fault-inl.h"

namespace phalanx::cuda {
namespace {

using Bytes = std::vector<std::byte>;

void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

// Ids of a batch: small ones are frequent, as words are; some lie outside of the table.
std::vector<std::int32_t> frequent_ids(Workbench& bench, std::int64_t n, std::int64_t first_row,
                                       std::int64_t table_rows) {
  std::vector<std::int32_t> ids;
  for (const float x : bench.uniform_floats(n, 0, 1)) {
    ids.push_back(static_cast<std::int32_t>(static_cast<float>(first_row) +
                                            x * x * x * static_cast<float>(table_rows + 4)));
    if (ids.size() % 9 == 5) ids.back() = static_cast<std::int32_t>(first_row) - 1;
  }
  return ids;
}

Bytes run_look_up(Workbench& bench, DType type, DType stream) {
  Bytes all;
  for (const std::int64_t columns : {136, 67}) {
    const std::int64_t n = 21;
    const std::int64_t v = 30;
    const std::int32_t* ids = bench.upload(frequent_ids(bench, n, 100, v));
    const TypedAddress table = bench.uniform(type, v * (columns + 8), -1, 1);
    const TypedAddress y = bench.output(stream, n * columns);
    embedding_forward(bench.context(), {ids, n, columns}, y, {{table, columns + 8}, v, 100});
    append(all, bench.read(y, n * columns));

    std::vector<std::int64_t> samples;
    std::vector<std::int32_t> positions;
    for (std::int64_t r = 0; r < n; ++r) {
      samples.push_back((std::int64_t{5} << 33) + r / 4);
      positions.push_back(static_cast<std::int32_t>(r));
    }
    // The last row has no position in the table.
    positions.back() = 1000;
    CudaContext context = bench.context();
    context.faults = bench.upload(std::vector<std::uint64_t>(kFaultWords, kNoFault));
    context.op = 16;
    DropoutCall call{.rows = n,
                     .columns = columns,
                     .probability = 0.1,
                     .key = {17, 5},
                     .site = 0x00011000,
                     .sample = bench.upload(samples),
                     .position = bench.upload(positions)};
    add_positions(context, call, y, y, {{table, columns + 8}, v, 0}, call.position);
    append(all, bench.read(y, n * columns));
    append(all, bench.read(context.faults, 8 * kFaultWords));
  }
  return all;
}

constexpr std::int64_t kRows = 2500;  // more than two blocks of the sort
constexpr std::int64_t kTable = 300;

Bytes run_gradient(Workbench& bench, DType type) {
  Bytes all;
  for (const std::int64_t columns : {24, 13}) {
    const std::int32_t* ids = bench.upload(frequent_ids(bench, kRows, 50, kTable));
    const TypedAddress dtable = bench.uniform(DType::kF32, kTable * columns, -1, 1);
    const TypedAddress dy = bench.uniform(type, kRows * columns, -1, 1);
    embedding_gradient(bench.context(), {ids, kRows, columns}, {{dtable, columns}, kTable, 50}, dy);
    append(all, bench.read(dtable, kTable * columns));
  }
  return all;
}

// Two microbatches of a step, then their join. `most` slots.
Bytes run_sparse(Workbench& bench, DType type, std::int64_t table_rows, std::int64_t most) {
  const std::int64_t columns = 24;
  const SparseSlots sparse{
      .slots = bench.upload(std::vector<std::int32_t>(static_cast<std::size_t>(table_rows), -1)),
      // Where a slot has no row because a barrier was dropped, its row is in the table.
      .rows = bench.upload(std::vector<std::int32_t>(static_cast<std::size_t>(most), 0)),
      .count = bench.upload(std::vector<std::int32_t>{0}),
      .most = most,
      .values = {bench.output(DType::kF32, most * columns), columns}};
  CudaContext context = bench.context();
  context.faults = bench.upload(std::vector<std::uint64_t>(kFaultWords, kNoFault));
  context.op = 18;
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    const std::int32_t* ids = bench.upload(frequent_ids(bench, kRows, 50, table_rows));
    const TypedAddress dy = bench.uniform(type, kRows * columns, -1, 1);
    sparse_embedding_gradient(context, {ids, kRows, columns}, sparse, table_rows, 50, dy);
  }
  Bytes all = bench.read(sparse.slots, 4 * table_rows);
  append(all, bench.read(sparse.rows, 4 * most));
  append(all, bench.read(sparse.count, 4));
  append(all, bench.read(sparse.values.data, most * columns));
  append(all, bench.read(context.faults, 8 * kFaultWords));
  const TypedAddress dtable = bench.uniform(DType::kF32, table_rows * columns, -1, 1);
  sparse_embedding_join(context, {{dtable, columns}, table_rows, 0}, sparse, columns);
  append(all, bench.read(dtable, table_rows * columns));
  append(all, bench.read(sparse.slots, 4 * table_rows));
  append(all, bench.read(sparse.count, 4));
  return all;
}

Bytes run_losses(Workbench& bench) {
  const std::int64_t rows = 2500;
  std::vector<std::int32_t> labels;
  for (const float x : bench.uniform_floats(rows, -1, 3)) {
    labels.push_back(static_cast<std::int32_t>(x * 2.0F));
  }
  float* mask = bench.output_floats(rows);
  float* weights = bench.upload(bench.uniform_floats(rows, 0, 1));
  const float* loss = bench.upload(bench.uniform_floats(rows, 0, 11));
  const float* loss_scale = bench.upload(std::vector<float>{1024.0F});
  float* seeds = bench.output_floats(3);
  double* sums = bench.upload(std::vector<double>{12.5, 3.0});
  label_mask(bench.context(), mask, bench.upload(labels), rows);
  loss_seed(bench.context(), seeds, loss_scale, mask, rows, 0.3);
  loss_seed(bench.context(), seeds + 1, loss_scale, weights, rows, 0.3);
  loss_seed(bench.context(), seeds + 2, loss_scale, nullptr, 0, 0.3);
  loss_accumulate(bench.context(), sums, sums + 1, loss, weights, rows);
  Bytes all = bench.read(mask, 4 * rows);
  append(all, bench.read(seeds, 12));
  append(all, bench.read(sums, 16));
  return all;
}

}  // namespace

std::vector<ExactCheck> embedding_checks() {
  std::vector<ExactCheck> checks;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const DType stream : {type, DType::kF32}) {
      checks.push_back(
          {fmt::format("embedding and positions {} on {}", name_of(type), name_of(stream)),
           [=](Workbench& bench) { return run_look_up(bench, type, stream); }});
      if (type == DType::kF32) break;
    }
    checks.push_back({fmt::format("embedding gradient {}", name_of(type)),
                      [=](Workbench& bench) { return run_gradient(bench, type); }});
    checks.push_back({fmt::format("sparse embedding gradient {}", name_of(type)),
                      [=](Workbench& bench) { return run_sparse(bench, type, 3000, 3000); }});
  }
  checks.push_back({"sparse embedding gradient with too few slots",
                    [](Workbench& bench) { return run_sparse(bench, DType::kF32, kTable, 150); }});
  checks.push_back({"label mask, loss seed, loss sums", run_losses});
  return checks;
}

}  // namespace phalanx::cuda
