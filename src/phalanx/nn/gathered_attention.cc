#include "phalanx/nn/gathered_attention.h"

#include "phalanx/nn/config.h"
#include "phalanx/nn/context_rows.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::nn {
namespace {

// [first, second, rows, b, groups, d] of keys or values like `own` [n, b, groups, d].
Tensor scratch_like(Pass& pass, DType dtype, std::int64_t parts, std::int64_t rows,
                    const Tensor& own) {
  return pass.scratch(dtype, {parts, 2, rows, own.shape[1], own.shape[2], own.shape[3]});
}

// The inputs with the keys and values of all ranks, gathered into scratch.
ops::AttentionInputs gather(Pass& pass, const ops::AttentionInputs& own, bool in_chunks) {
  Communicator& group = pass.context.group();
  const std::int64_t rows = own.key.shape[0];
  const Tensor all =
      scratch_like(pass, own.key.dtype, 1, group.size() * rows, own.key).select(0, 0);
  ops::AttentionInputs in = own;
  in.key = all.select(0, 0);
  in.value = all.select(0, 1);
  in.key_rows = rows_of_groups(pass, group.size(), in_chunks);
  const WorkspaceScope scope(pass.ops.workspace);
  const Tensor gathered = scratch_like(pass, own.key.dtype, group.size(), rows, own.key);
  const Tensor mine = gathered.select(0, group.rank());
  ops::copy(pass.ops, {.destination = mine.select(0, 0), .source = own.key});
  ops::copy(pass.ops, {.destination = mine.select(0, 1), .source = own.value});
  pass.finish(group.all_gather(pass.ops, gathered, mine));
  for (const RowRun& run : row_runs(group.size(), rows, in_chunks)) {
    ops::copy(pass.ops, {.destination = all.slice(1, run.place, run.count),
                         .source = gathered.select(0, run.part).slice(1, run.first, run.count)});
  }
  return in;
}

}  // namespace

void gathered_attention_forward(Pass& pass, const Tensor& out, const Tensor& lse,
                                const ops::AttentionInputs& own, bool in_chunks) {
  const WorkspaceScope scope(pass.ops.workspace);
  ops::attention_forward(pass.ops, {.out = out, .lse = lse, .in = gather(pass, own, in_chunks)});
}

void gathered_attention_backward(Pass& pass, const ops::AttentionBackward& own, bool in_chunks) {
  const WorkspaceScope scope(pass.ops.workspace);
  Communicator& group = pass.context.group();
  const std::int64_t rows = own.in.key.shape[0];
  const DType full = full_precision(own.in.key.dtype);
  const Tensor parts = scratch_like(pass, full, group.size(), rows, own.in.key);
  {
    const WorkspaceScope inner(pass.ops.workspace);
    const Tensor all = scratch_like(pass, full, 1, group.size() * rows, own.in.key).select(0, 0);
    ops::AttentionBackward op = own;
    op.in = gather(pass, own.in, in_chunks);
    op.dkey = all.select(0, 0);
    op.dvalue = all.select(0, 1);
    ops::attention_backward(pass.ops, op);
    for (const RowRun& run : row_runs(group.size(), rows, in_chunks)) {
      ops::copy(pass.ops, {.destination = parts.select(0, run.part).slice(1, run.first, run.count),
                           .source = all.slice(1, run.place, run.count)});
    }
  }
  const Tensor mine = parts.select(0, group.rank());
  pass.finish(group.reduce_scatter(pass.ops, mine, parts, Reduction::kSum));
  ops::copy(pass.ops, {.destination = own.dkey, .source = mine.select(0, 0)});
  ops::copy(pass.ops, {.destination = own.dvalue, .source = mine.select(0, 1)});
}

}  // namespace phalanx::nn
