#pragma once
// ops/attention.h on a device.

#include "phalanx/base/philox.h"
#include "phalanx/ops/cuda/context.h"

namespace phalanx::cuda {

// Heads [rows, samples, heads, width], elements from one to the next. Where queries lie in groups,
// head h is head h % of_group of group h / of_group; keys and values have one head a group.
struct AttentionOperand {
  TypedAddress data;
  std::int64_t row_stride = 0;
  std::int64_t sample_stride = 0;
  std::int64_t group_stride = 0;
  std::int64_t head_stride = 0;
};

// [rows, samples] of numbers, elements from one to the next.
template <typename T>
struct CoordinateOperand {
  const T* at = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t sample_stride = 0;
};
struct CoordinatesOperand {
  CoordinateOperand<std::int64_t> sample;
  CoordinateOperand<std::int32_t> position;
  CoordinateOperand<std::int32_t> document;
  // What is known without a look at them (ops/rows.h): the same results without.
  bool consecutive = false;
  std::int64_t first = 0;
  bool one_document = false;
};

// [samples, heads, queries], elements from one to the next.
template <typename T>
struct StatisticOperand {
  T* at = nullptr;
  std::int64_t sample_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};

struct AttentionCall {
  AttentionOperand query;
  AttentionOperand key;
  AttentionOperand value;
  const float* bias = nullptr;  // [heads, queries, keys], may be absent
  std::int64_t bias_head_stride = 0;
  std::int64_t bias_row_stride = 0;
  CoordinatesOperand query_rows;
  CoordinatesOperand key_rows;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;
  std::int64_t width = 0;  // of a head
  bool causal = false;
  bool documents = false;
  std::int64_t window = 0;  // 0: all
  double scale = 1.0;
  double probability = 0.0;  // of dropout; 0: no random number is drawn
  PhiloxKey dropout_key;
  std::uint32_t site = 0;  // of head 0
};

// out may be f32 beside other storage; lse is [samples, heads, queries].
void attention_forward(const CudaContext& context, const AttentionCall& call,
                       const AttentionOperand& out, float* lse);

// delta = the sum of out * dout, [samples, heads, rows]. Groups do not matter here: a head is a
// head stride behind the one before.
struct AttentionDeltaCall {
  float* delta = nullptr;
  AttentionOperand out;
  AttentionOperand dout;
  std::int64_t queries = 0;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
};
void attention_delta(const CudaContext& context, const AttentionDeltaCall& call);

// out and lse, of a part of the keys, become those of its keys and another part's. Groups do not
// matter here, either.
struct AttentionMergeCall {
  AttentionOperand out;  // f32, as the next
  AttentionOperand part_out;
  StatisticOperand<float> lse;
  StatisticOperand<const float> part_lse;
  std::int64_t queries = 0;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;
};
void attention_merge(const CudaContext& context, const AttentionMergeCall& call);

struct AttentionBackwardCall {
  AttentionOperand dout;
  const float* lse = nullptr;    // [samples, heads, queries]; of fused attention alone
  const float* delta = nullptr;  // the same
  // Of fused attention also f32 beside other storage.
  AttentionOperand dquery;
  AttentionOperand dkey;
  AttentionOperand dvalue;
  bool adds_to_dquery = false;  // which is then f32
  float* dbias = nullptr;       // may be absent; accumulated over samples in order
  std::int64_t dbias_head_stride = 0;
  std::int64_t dbias_row_stride = 0;
};
void attention_backward(const CudaContext& context, const AttentionCall& call,
                        const AttentionBackwardCall& backward);

// [samples, heads, queries, keys] of the queries' type, elements from one to the next; keys are
// neighbours.
struct ProbabilityOperand {
  TypedAddress data;
  std::int64_t sample_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};
void unfused_attention_forward(const CudaContext& context, const AttentionCall& call,
                               const AttentionOperand& out,
                               const ProbabilityOperand& probabilities);
// Scratch: unfused_attention_backward_scratch_bytes.
void unfused_attention_backward(const CudaContext& context, const AttentionCall& call,
                                const AttentionBackwardCall& backward,
                                const ProbabilityOperand& probabilities);

}  // namespace phalanx::cuda
