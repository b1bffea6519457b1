#include "phalanx/ops/cuda/attention.h"

#include "phalanx/ops/cuda/attention-inl.h"
#include "phalanx/ops/cuda/attention_merge-inl.h"
#include "phalanx/ops/cuda/attention_unfused_mma-inl.h"
#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/dropout_plan.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

constexpr std::int64_t kSide = AttentionTile::kSide;

AttentionHeads heads_of(const AttentionOperand& operand) {
  return {operand.row_stride, operand.sample_stride, operand.group_stride, operand.head_stride};
}

// Of groups of one head.
AttentionHeads single_heads_of(const AttentionOperand& operand) {
  AttentionHeads heads = heads_of(operand);
  heads.group = operand.head_stride;
  return heads;
}

// Results of unfused attention are of the storage type T.
template <typename T, bool kFused>
AttentionResult<T, kFused> result_of(DType storage, const AttentionOperand& operand) {
  const DType type = operand.data.type;
  PHALANX_CHECK(type == storage || (kFused && type == DType::kF32),
                "attention: results of {} beside {}", name_of(type), name_of(storage));
  return {operand.data.at, heads_of(operand), type == DType::kF32};
}

bool packs(const AttentionOperand& operand) {
  return can_pack(operand.row_stride, operand.data) &&
         can_pack(operand.sample_stride, operand.data) &&
         can_pack(operand.group_stride, operand.data) &&
         can_pack(operand.head_stride, operand.data);
}

AttentionRows rows_of(const CoordinatesOperand& rows) {
  return {rows.sample.at,
          rows.position.at,
          rows.document.at,
          {rows.sample.row_stride, rows.sample.sample_stride},
          {rows.position.row_stride, rows.position.sample_stride},
          {rows.document.row_stride, rows.document.sample_stride},
          rows.first,
          rows.consecutive,
          rows.one_document};
}

template <typename T>
AttentionOperands<T> operands_of(const AttentionCall& call) {
  AttentionOperands<T> in{};
  in.query = as<const T>(call.query.data);
  in.key = as<const T>(call.key.data);
  in.value = as<const T>(call.value.data);
  in.bias = call.bias;
  in.query_heads = heads_of(call.query);
  in.key_heads = heads_of(call.key);
  in.value_heads = heads_of(call.value);
  in.bias_head = call.bias_head_stride;
  in.bias_row = call.bias_row_stride;
  in.query_rows = rows_of(call.query_rows);
  in.key_rows = rows_of(call.key_rows);
  in.queries = call.queries;
  in.keys = call.keys;
  in.batch = call.batch;
  in.heads = call.heads;
  in.of_group = call.heads / call.groups;
  in.width = call.width;
  in.chunks = ceil_div(call.width, kSide);
  in.window = call.window;
  in.causal = call.causal;
  in.documents = call.documents;
  in.packed = packs(call.query) && packs(call.key) && packs(call.value);
  in.scale = static_cast<float>(call.scale);
  in.dropout = plan_of(
      DropoutCall{.probability = call.probability, .key = call.dropout_key, .site = call.site});
  return in;
}

// Calls use(the width of rows in shared memory) where tensor cores take the operands: 16-bit rows
// of whole chunks of 16 bytes, up to 128 columns.
template <typename T, typename Use>
bool with_tensor_cores(const AttentionOperands<T>& in, const Use& use) {
  if (std::is_same_v<T, float> || !in.packed || in.width % 8 != 0 || in.width > 128) return false;
  if (in.width <= 64) {
    use(std::integral_constant<int, 64>());
  } else {
    use(std::integral_constant<int, 128>());
  }
  return true;
}

// delta of unfused attention, which its backward needs first.
template <typename T>
void unfused_delta(const CudaContext& context, const AttentionOperands<T>& in,
                   const AttentionGradients<T>& of, float* delta) {
  const std::int64_t query_tiles = ceil_div(in.queries, kSide);
  const bool done = with_tensor_cores<T>(in, [&](auto width) {
    if constexpr (!std::is_same_v<T, float>) {
      launch<UnfusedAttentionMmaDeltaKernel<T, decltype(width)::value>>(
          context.queue, {query_tiles, in.heads, in.batch}, {in, of, delta});
    }
  });
  if (done) return;
  launch<UnfusedAttentionDeltaKernel<T>>(context.queue, {query_tiles, in.heads, in.batch},
                                         {in, of, delta});
}

template <typename T, bool kUnfused>
void launch_gradients(const CudaContext& context, const AttentionCall& call,
                      const AttentionOperands<T>& in, const AttentionGradients<T>& of,
                      const AttentionBackwardCall& backward) {
  const DType storage = call.query.data.type;
  PHALANX_CHECK(!backward.adds_to_dquery || backward.dquery.data.type == DType::kF32,
                "attention: adding to {}", name_of(backward.dquery.data.type));
  const typename AttentionKeyGradientKernel<T, kUnfused>::Params keys{
      in, of, result_of<T, !kUnfused>(storage, backward.dkey),
      result_of<T, !kUnfused>(storage, backward.dvalue)};
  const typename AttentionQueryGradientKernel<T, kUnfused>::Params queries{
      in, of, {result_of<T, !kUnfused>(storage, backward.dquery), backward.adds_to_dquery}};
  const std::int64_t key_tiles = ceil_div(call.keys, kSide);
  const std::int64_t query_tiles = ceil_div(call.queries, kSide);
  const bool done = with_tensor_cores<T>(in, [&](auto width) {
    if constexpr (!std::is_same_v<T, float>) {
      constexpr int kWidth = decltype(width)::value;
      launch<AttentionMmaKeyGradientKernel<T, kWidth, kUnfused>>(
          context.queue, {key_tiles, call.groups, call.batch}, keys);
      launch<AttentionMmaQueryGradientKernel<T, kWidth, kUnfused>>(
          context.queue, {query_tiles, call.heads, call.batch}, queries);
    }
  });
  if (!done) {
    launch<AttentionKeyGradientKernel<T, kUnfused>>(
        context.queue, {key_tiles, call.groups * in.chunks, call.batch}, keys);
    launch<AttentionQueryGradientKernel<T, kUnfused>>(
        context.queue, {query_tiles, call.heads * in.chunks, call.batch}, queries);
  }
  if (backward.dbias == nullptr) return;
  launch<AttentionBiasGradientKernel<T, kUnfused>>(
      context.queue, {key_tiles, query_tiles, call.heads},
      {in, of, backward.dbias, backward.dbias_head_stride, backward.dbias_row_stride});
}

template <typename T>
AttentionProbabilities<T> probabilities_of(const ProbabilityOperand& operand) {
  const bool even = (reinterpret_cast<std::uintptr_t>(operand.data.at) / sizeof(T) % 2 == 0) &&
                    operand.sample_stride % 2 == 0 && operand.head_stride % 2 == 0 &&
                    operand.row_stride % 2 == 0;
  return {as<T>(operand.data), operand.sample_stride, operand.head_stride, operand.row_stride,
          even};
}

}  // namespace

void attention_forward(const CudaContext& context, const AttentionCall& call,
                       const AttentionOperand& out, float* lse) {
  with_storage("attention_forward", call.query.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const AttentionOperands<T> in = operands_of<T>(call);
    const bool done = with_tensor_cores<T>(in, [&](auto width) {
      if constexpr (!std::is_same_v<T, float>) {
        launch<AttentionMmaForwardKernel<T, decltype(width)::value>>(
            context.queue, {ceil_div(call.queries, kSide), call.heads, call.batch},
            {in, result_of<T, true>(call.query.data.type, out), lse});
      }
    });
    if (done) return;
    launch<AttentionForwardKernel<T>>(
        context.queue, {ceil_div(call.queries, kSide), call.heads * in.chunks, call.batch},
        {in, result_of<T, true>(call.query.data.type, out), lse});
  });
}

void attention_delta(const CudaContext& context, const AttentionDeltaCall& call) {
  with_storage("attention_delta", call.out.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = AttentionDeltaKernel<T>;
    launch<Instance>(context.queue,
                     {ceil_div(call.queries * call.batch * call.heads, Instance::kThreads / 32)},
                     {call.delta, as<const T>(call.out.data), as<const T>(call.dout.data),
                      single_heads_of(call.out), single_heads_of(call.dout), call.queries,
                      call.batch, call.heads, call.width});
  });
}

void attention_merge(const CudaContext& context, const AttentionMergeCall& call) {
  using Instance = AttentionMergeKernel;
  PHALANX_CHECK(call.out.data.type == DType::kF32 && call.part_out.data.type == DType::kF32,
                "attention_merge: {} to {}", name_of(call.part_out.data.type),
                name_of(call.out.data.type));
  launch<Instance>(
      context.queue, {ceil_div(call.queries * call.batch * call.heads, Instance::kThreads / 32)},
      {as<float>(call.out.data),
       as<const float>(call.part_out.data),
       single_heads_of(call.out),
       single_heads_of(call.part_out),
       call.lse.at,
       call.part_lse.at,
       {call.lse.sample_stride, call.lse.head_stride, call.lse.row_stride},
       {call.part_lse.sample_stride, call.part_lse.head_stride, call.part_lse.row_stride},
       call.queries,
       call.batch,
       call.heads,
       call.width});
}

void attention_backward(const CudaContext& context, const AttentionCall& call,
                        const AttentionBackwardCall& backward) {
  with_storage("attention_backward", call.query.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    AttentionOperands<T> in = operands_of<T>(call);
    in.packed = in.packed && packs(backward.dout);
    launch_gradients<T, false>(context, call, in,
                               {as<const T>(backward.dout.data),
                                heads_of(backward.dout),
                                backward.lse,
                                backward.delta,
                                {}},
                               backward);
  });
}

void unfused_attention_forward(const CudaContext& context, const AttentionCall& call,
                               const AttentionOperand& out,
                               const ProbabilityOperand& probabilities) {
  with_storage("unfused_attention_forward", call.query.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const AttentionOperands<T> in = operands_of<T>(call);
    const typename UnfusedAttentionForwardKernel<T>::Params params{
        in, as<T>(out.data), heads_of(out), probabilities_of<T>(probabilities)};
    const std::int64_t query_tiles = ceil_div(call.queries, kSide);
    const bool done = with_tensor_cores<T>(in, [&](auto width) {
      if constexpr (!std::is_same_v<T, float>) {
        launch<UnfusedAttentionMmaForwardKernel<T, decltype(width)::value>>(
            context.queue, {query_tiles, call.heads, call.batch}, params);
      }
    });
    if (done) return;
    launch<UnfusedAttentionForwardKernel<T>>(
        context.queue, {query_tiles, call.heads * in.chunks, call.batch}, params);
  });
}

void unfused_attention_backward(const CudaContext& context, const AttentionCall& call,
                                const AttentionBackwardCall& backward,
                                const ProbabilityOperand& probabilities) {
  auto* delta = reinterpret_cast<float*>(
      take_scratch(context, "unfused_attention_backward",
                   unfused_attention_backward_scratch_bytes(call.batch, call.heads, call.queries)));
  with_storage("unfused_attention_backward", call.query.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    AttentionOperands<T> in = operands_of<T>(call);
    in.packed = in.packed && packs(backward.dout);
    const AttentionGradients<T> of{as<const T>(backward.dout.data), heads_of(backward.dout),
                                   nullptr, delta, probabilities_of<const T>(probabilities)};
    unfused_delta(context, in, of, delta);
    launch_gradients<T, true>(context, call, in, of, backward);
  });
}

}  // namespace phalanx::cuda
