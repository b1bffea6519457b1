#include "phalanx/ops/cuda/attention.h"
#include "phalanx/ops/cuda/execute.h"
#include "phalanx/ops/cuda/operands.h"

namespace phalanx::cuda {
namespace {

// Of queries [rows, samples, heads, d] in groups of so many heads, or with a dimension of their own
// for groups.
AttentionOperand heads_of(const Tensor& x, std::int64_t of_group) {
  const bool grouped = x.shape.rank() == 5;
  const std::int64_t head = x.strides[grouped ? 3 : 2];
  return {address_of(x), x.strides[0], x.strides[1], grouped ? x.strides[2] : of_group * head,
          head};
}

template <typename T>
CoordinateOperand<T> coordinate_of(const Tensor& tensor) {
  if (!tensor) return {};
  return {address_as<T>(tensor), tensor.strides[0], tensor.strides[1]};
}

CoordinatesOperand rows_of(const RowCoordinates& rows) {
  return {coordinate_of<std::int64_t>(rows.sample),
          coordinate_of<std::int32_t>(rows.position),
          coordinate_of<std::int32_t>(rows.document),
          rows.pattern.consecutive,
          rows.pattern.first,
          rows.pattern.one_document};
}

std::int64_t heads_in(const Tensor& query) {
  return query.shape.rank() == 5 ? query.shape[2] * query.shape[3] : query.shape[2];
}

std::int64_t of_group(const ops::AttentionInputs& in) {
  return heads_in(in.query) / in.key.shape[2];
}

AttentionCall call_of(const ops::AttentionInputs& in) {
  AttentionCall call;
  call.query = heads_of(in.query, of_group(in));
  call.key = heads_of(in.key, 1);
  call.value = heads_of(in.value, 1);
  if (in.bias) {
    call.bias = address_as<float>(in.bias);
    call.bias_head_stride = in.bias.strides[0];
    call.bias_row_stride = in.bias.strides[1];
  }
  call.query_rows = rows_of(in.query_rows);
  call.key_rows = rows_of(in.key_rows);
  call.queries = in.query.shape[0];
  call.keys = in.key.shape[0];
  call.batch = in.query.shape[1];
  call.heads = heads_in(in.query);
  call.groups = in.key.shape[2];
  call.width = in.query.shape.back();
  call.causal = in.mask.causal;
  call.documents = in.mask.documents;
  call.window = in.mask.window;
  call.scale = in.scale;
  call.probability = in.dropout.probability;
  call.dropout_key = in.dropout.key;
  call.site = in.dropout.site;
  return call;
}

// What both backward ops have in common.
template <typename Op>
AttentionBackwardCall backward_of(const Op& op) {
  AttentionBackwardCall backward;
  backward.dout = heads_of(op.dout, of_group(op.in));
  backward.dquery = heads_of(op.dquery, of_group(op.in));
  backward.dkey = heads_of(op.dkey, 1);
  backward.dvalue = heads_of(op.dvalue, 1);
  if (op.dbias) {
    backward.dbias = address_as<float>(op.dbias);
    backward.dbias_head_stride = op.dbias.strides[0];
    backward.dbias_row_stride = op.dbias.strides[1];
  }
  return backward;
}

// Kernels of forward and backward take dense ones.
float* dense_statistic(const Tensor& tensor) {
  PHALANX_CHECK(tensor.contiguous(), "attention on CUDA: statistics with strides {} must be dense",
                tensor.strides.to_string());
  return address_as<float>(tensor);
}
StatisticOperand<float> statistic_of(const Tensor& tensor) {
  return {address_as<float>(tensor), tensor.strides[0], tensor.strides[1], tensor.strides[2]};
}

ProbabilityOperand probabilities_of(const Tensor& probabilities) {
  return {address_of(probabilities), probabilities.strides[0], probabilities.strides[1],
          probabilities.strides[2]};
}

}  // namespace

void execute(const CudaContext& context, const ops::AttentionForward& op) {
  attention_forward(context, call_of(op.in), heads_of(op.out, of_group(op.in)),
                    dense_statistic(op.lse));
}

void execute(const CudaContext& context, const ops::AttentionDelta& op) {
  attention_delta(context, {dense_statistic(op.delta), heads_of(op.out, 1), heads_of(op.dout, 1),
                            op.out.shape[0], op.out.shape[1], op.out.shape[2], op.out.shape[3]});
}

void execute(const CudaContext& context, const ops::AttentionBackward& op) {
  AttentionBackwardCall backward = backward_of(op);
  backward.lse = dense_statistic(op.lse);
  backward.delta = dense_statistic(op.delta);
  backward.adds_to_dquery = op.adds_to_dquery;
  attention_backward(context, call_of(op.in), backward);
}

void execute(const CudaContext& context, const ops::AttentionMerge& op) {
  const StatisticOperand<float> part = statistic_of(op.part_lse);
  AttentionMergeCall call;
  call.out = heads_of(op.out, 1);
  call.part_out = heads_of(op.part_out, 1);
  call.lse = statistic_of(op.lse);
  call.part_lse = {part.at, part.sample_stride, part.head_stride, part.row_stride};
  call.queries = op.out.shape[0];
  call.batch = op.out.shape[1];
  call.heads = op.out.shape[2];
  call.width = op.out.shape[3];
  attention_merge(context, call);
}

void execute(const CudaContext& context, const ops::UnfusedAttentionForward& op) {
  unfused_attention_forward(context, call_of(op.in), heads_of(op.out, of_group(op.in)),
                            probabilities_of(op.probabilities));
}

void execute(const CudaContext& context, const ops::UnfusedAttentionBackward& op) {
  unfused_attention_backward(context, call_of(op.in), backward_of(op),
                             probabilities_of(op.probabilities));
}

}  // namespace phalanx::cuda
