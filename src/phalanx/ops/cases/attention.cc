#include "phalanx/ops/attention.h"

#include <cmath>
#include <limits>

#include "phalanx/ops/cases/case.h"
#include "phalanx/ops/elementwise.h"

namespace phalanx::ops {
namespace {

// Where query and key rows stand.
enum class Rows {
  kPlain,    // consecutive, one document
  kCache,    // the queries are the last of the keys; positions start at an odd place
  kPacked,   // three documents in a row
  kPadding,  // the last quarter of the keys (half of them for the second sample) is padding
  kBlind,    // the first sample has nothing but padding
  kZigzag,   // positions 0, n-1, 1, n-2, ...
  // As the first two, with a pattern that says so.
  kKnown,
  kKnownCache,
  kPart,  // the first half of the queries stands before all keys
};

// Where query, key and value lie.
enum class Layout {
  kDense,        // three tensors
  kInterleaved,  // [s, b, heads, 3, d]
  kBlocks,       // [s, b, heads + 2 groups, d]: queries, then keys, then values
  kGroups,       // [s, b, groups, heads / groups + 2, d]: a group's queries, its key, its value
};

struct Spec {
  std::int64_t sq, sk, b, heads, groups, d;
  AttentionMask mask = {};
  Rows rows = Rows::kPlain;
  double probability = 0.0;
  bool bias = false;
  Layout layout = Layout::kDense;

  // Keys are a part of those that the queries see: results in full precision, dquery is added to,
  // log-sum-exps are of all keys, and the samples of keys are absent.
  bool part() const { return rows == Rows::kPart; }
};

std::string attention_name(const Spec& spec) {
  constexpr const char* kRows[] = {"",          ", cache",       ", packed documents",
                                   ", padding", ", blind",       ", zigzag",
                                   ", known",   ", known cache", ", part"};
  constexpr const char* kLayouts[] = {"", ", interleaved", ", blocks", ", groups"};
  const std::int64_t window = spec.mask.window;
  return fmt::format("{}x{}, b {}, heads {}/{}, d {}{}{}{}{}{}{}{}", spec.sq, spec.sk, spec.b,
                     spec.heads, spec.groups, spec.d, spec.mask.causal ? ", causal" : "",
                     window > 0 ? fmt::format(", window {}", window) : "",
                     spec.mask.documents ? ", documents" : "",
                     kRows[static_cast<std::size_t>(spec.rows)],
                     spec.probability > 0.0 ? fmt::format(", p = {}", spec.probability) : "",
                     spec.bias ? ", bias" : "", kLayouts[static_cast<std::size_t>(spec.layout)]);
}

// Coordinates of `n` rows from place `first` on.
RowCoordinates make_rows(Operands& operands, const Spec& spec, std::int64_t n, std::int64_t first) {
  RowCoordinates rows = operands.rows(n, spec.b, first);
  std::vector<double> position, document;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t b = 0; b < spec.b; ++b) {
      const std::int64_t zigzag = i % 2 == 0 ? i / 2 : n - 1 - i / 2;
      position.push_back(static_cast<double>(spec.rows == Rows::kZigzag ? zigzag : first + i));
      const bool padding =
          (spec.rows == Rows::kPadding && i >= n - std::max(1L, n * (b + 1) / 4)) ||
          (spec.rows == Rows::kBlind && b == 0);
      const std::int64_t packed = spec.rows == Rows::kPacked ? 3 * i / n : 0;
      document.push_back(padding ? -1.0 : static_cast<double>(packed));
    }
  }
  rows.position = operands.values(DType::kI32, {n, spec.b}, position);
  rows.document = operands.values(DType::kI32, {n, spec.b}, document);
  if (spec.rows == Rows::kKnown || spec.rows == Rows::kKnownCache) {
    rows.pattern = {.consecutive = true, .first = first, .one_document = true};
  }
  return rows;
}

// Query, key and value, or their gradients.
struct Triple {
  Tensor query, key, value;
};

template <typename Allocate>
Triple make_triple(const Spec& spec, const Allocate& allocate) {
  const auto& [sq, sk, b, heads, groups, d, mask, rows, probability, bias, layout] = spec;
  switch (layout) {
    case Layout::kInterleaved: {
      const Tensor fused = allocate(Shape{sq, b, heads, 3, d});
      return {fused.select(3, 0), fused.select(3, 1), fused.select(3, 2)};
    }
    case Layout::kBlocks: {
      const Tensor fused = allocate(Shape{sq, b, heads + 2 * groups, d});
      return {fused.slice(2, 0, heads), fused.slice(2, heads, groups),
              fused.slice(2, heads + groups, groups)};
    }
    case Layout::kGroups: {
      const std::int64_t queries = heads / groups;
      const Tensor fused = allocate(Shape{sq, b, groups, queries + 2, d});
      return {fused.slice(3, 0, queries), fused.select(3, queries), fused.select(3, queries + 1)};
    }
    case Layout::kDense:
      break;
  }
  const Tensor query = allocate(Shape{sq, b, heads, d});
  const Tensor key = allocate(Shape{sk, b, groups, d});
  return {query, key, allocate(Shape{sk, b, groups, d})};
}

AttentionInputs make_inputs(Operands& operands, const Spec& spec) {
  // Keys and queries large enough that the probabilities are far from equal.
  const Triple triple = make_triple(spec, [&](const Shape& shape) {
    return operands.uniform(operands.storage(), shape, -2.0, 2.0);
  });
  AttentionInputs in;
  in.query = triple.query;
  in.key = triple.key;
  in.value = triple.value;
  if (spec.bias) in.bias = operands.uniform(operands.full(), {spec.heads, spec.sq, spec.sk});
  in.mask = spec.mask;
  const bool cache = spec.rows == Rows::kCache || spec.rows == Rows::kKnownCache;
  const std::int64_t first = cache ? 3 : 0;
  in.key_rows = make_rows(operands, spec, spec.sk, first);
  in.query_rows = cache ? make_rows(operands, spec, spec.sq, first + spec.sk - spec.sq)
                        : make_rows(operands, spec, spec.sq, 0);
  if (spec.part()) {
    in.key_rows = make_rows(operands, spec, spec.sk, spec.sq / 2);
    in.key_rows.sample = {};
  }
  in.scale = 1.0 / std::sqrt(static_cast<double>(spec.d));
  in.dropout = case_dropout(spec.probability);
  return in;
}

DType results_of(const Operands& operands, const Spec& spec) {
  return spec.part() ? operands.full() : operands.storage();
}

AttentionForward forward_op(Operands& operands, const Spec& spec) {
  AttentionForward op;
  op.in = make_inputs(operands, spec);
  op.out = operands.output(results_of(operands, spec), {spec.sq, spec.b, spec.heads, spec.d});
  op.lse = operands.output(operands.full(), {spec.b, spec.heads, spec.sq});
  return op;
}

UnfusedAttentionForward unfused_forward_op(Operands& operands, const Spec& spec) {
  UnfusedAttentionForward op;
  op.in = make_inputs(operands, spec);
  op.out = operands.output({spec.sq, spec.b, spec.heads, spec.d});
  op.probabilities = operands.output({spec.b, spec.heads, spec.sq, spec.sk});
  return op;
}

// The part of a backward op that both attentions share.
template <typename Op>
void set_gradients(Operands& operands, const Spec& spec, Op& op) {
  const Triple triple = make_triple(
      spec, [&](const Shape& shape) { return operands.output(results_of(operands, spec), shape); });
  op.dquery = triple.query;
  op.dkey = triple.key;
  op.dvalue = triple.value;
  op.dout = operands.uniform({spec.sq, spec.b, spec.heads, spec.d});
  // Accumulated; from 0 where it is compared with differences.
  if (spec.bias) {
    const double start = operands.storage() == DType::kF64 ? 0.0 : 0.25;
    op.dbias = operands.filled(operands.full(), {spec.heads, spec.sq, spec.sk}, start);
  }
}

AttentionBackward backward_op(Operands& operands, const Spec& spec,
                              const AttentionForward& forward) {
  AttentionBackward op;
  set_gradients(operands, spec, op);
  op.lse = forward.lse;
  op.delta = operands.output(operands.full(), {spec.b, spec.heads, spec.sq});
  op.in = forward.in;
  return op;
}

// Probabilities may be kept in 16 bits between the two products.
constexpr double kUnits = 32.0;
constexpr double kStorageUnits = 3.0;

// Beside results in full precision, too, probabilities may have 16 bits.
Output near_result(const Operands& operands, const Tensor& tensor, double floor = 0.0) {
  Tensor stored = tensor;
  stored.dtype = operands.storage();
  return {tensor, units(stored, kUnits, kStorageUnits), floor};
}

template <typename Op>
std::vector<Output> gradient_outputs(const Operands& operands, const Op& op) {
  // A row that sees one key has probability 1 and gradient 0.
  constexpr double kFloor = 1.0;
  std::vector<Output> outputs = {near_result(operands, op.dquery, kFloor),
                                 near_result(operands, op.dkey, kFloor),
                                 near_result(operands, op.dvalue)};
  if (op.dbias) outputs.push_back(near(op.dbias, kUnits, 1, kFloor));
  return outputs;
}

Job forward(Operands& operands, const Spec& spec) {
  const AttentionForward op = forward_op(operands, spec);
  return make_job(op, attention_forward, {near_result(operands, op.out), near(op.lse, kUnits)});
}

Job delta(Operands& operands, const Spec& spec) {
  const Shape shape{spec.sq, spec.b, spec.heads, spec.d};
  const AttentionDelta op{.delta = operands.output(operands.full(), {spec.b, spec.heads, spec.sq}),
                          .out = operands.uniform(shape),
                          .dout = operands.uniform(shape)};
  return make_job(op, attention_delta, {near(op.delta, 16)});
}

// A view of every second query of [sq, b, heads, d], or of such a row's statistics [b, heads, sq],
// as a piece of a larger tensor has it.
Tensor half_of_queries(Tensor tensor, int dim) {
  tensor.shape[dim] /= 2;
  tensor.strides[dim] *= 2;
  return tensor;
}

struct MergeSpec {
  std::int64_t sq, b, heads, d;
  bool strided = false;
};

// Rows of all four kinds: seen by both parts, by one or the other, by none. Outputs of parts that
// see nothing are garbage, which nobody reads.
Job merge(Operands& operands, const MergeSpec& spec) {
  const std::int64_t sq = spec.strided ? 2 * spec.sq : spec.sq;
  const auto statistics = [&](bool first) {
    std::vector<double> values;
    for (std::int64_t n = 0; n < spec.b * spec.heads * sq; ++n) {
      const bool blind = first ? n % 5 == 1 || n % 5 == 3 : n % 5 == 2 || n % 5 == 3;
      const double far = n % 7 == 0 ? (first ? -200.0 : 200.0) : 0.0;  // one part is all
      values.push_back(blind ? -std::numeric_limits<double>::infinity()
                             : far + 8.0 * std::sin(0.9 * static_cast<double>(n) + first));
    }
    return operands.values(operands.full(), {spec.b, spec.heads, sq}, values);
  };
  const auto view = [&](const Tensor& tensor, int dim) {
    return spec.strided ? half_of_queries(tensor, dim) : tensor;
  };
  const Shape shape{sq, spec.b, spec.heads, spec.d};
  AttentionMerge op;
  op.out = view(operands.uniform(operands.full(), shape), 0);
  op.lse = view(statistics(true), 2);
  op.part_out = view(operands.uniform(operands.full(), shape), 0);
  op.part_lse = view(statistics(false), 2);
  for (std::int64_t i = 0; i < op.out.shape[0] && operands.has_contents(); ++i) {
    for (std::int64_t b = 0; b < spec.b; ++b) {
      for (std::int64_t h = 0; h < spec.heads; ++h) {
        const std::int64_t n = (b * spec.heads + h) * sq + (spec.strided ? 2 * i : i);
        const auto row = [&](const Tensor& tensor) {
          return tensor.slice(0, i, 1).slice(1, b, 1).slice(2, h, 1);
        };
        if (n % 5 == 1 || n % 5 == 3) operands.poison(row(op.out));
        if (n % 5 == 2 || n % 5 == 3) operands.poison(row(op.part_out));
      }
    }
  }
  return make_job(op, attention_merge, {near(op.out, 16), near(op.lse, 4)});
}

Job backward(Operands& operands, const Spec& spec) {
  const AttentionForward forward = forward_op(operands, spec);
  const AttentionBackward op = backward_op(operands, spec, forward);
  attention_forward(operands.preparation(), forward);
  attention_delta(operands.preparation(), {op.delta, forward.out, op.dout});
  return make_job(op, attention_backward, gradient_outputs(operands, op));
}

// The first key of the other part is that of query 1: query 0 sees no key at all.
Job backward_of_part(Operands& operands, const Spec& spec) {
  Context& preparation = operands.preparation();
  const AttentionForward forward = forward_op(operands, spec);
  AttentionForward other = forward_op(operands, spec);
  other.in.query = forward.in.query;
  other.in.query_rows = forward.in.query_rows;
  other.in.key_rows = make_rows(operands, spec, spec.sk, 1);
  AttentionBackward op = backward_op(operands, spec, forward);
  op.adds_to_dquery = true;
  const Tensor start = operands.uniform(operands.full(), op.dquery.shape);
  const Tensor out = operands.output(forward.out.shape);
  attention_forward(preparation, forward);
  attention_forward(preparation, other);
  attention_merge(preparation, {forward.out, forward.lse, other.out, other.lse});
  copy(preparation, {out, forward.out});
  attention_delta(preparation, {op.delta, out, op.dout});
  copy(preparation, {op.dquery, start});
  return make_job(op, attention_backward, gradient_outputs(operands, op));
}

Job unfused_forward(Operands& operands, const Spec& spec) {
  const UnfusedAttentionForward op = unfused_forward_op(operands, spec);
  return make_job(op, unfused_attention_forward,
                  {near(op.out, kUnits, kStorageUnits), near(op.probabilities, kUnits)});
}

UnfusedAttentionBackward unfused_backward_op(Operands& operands, const Spec& spec,
                                             const UnfusedAttentionForward& forward) {
  UnfusedAttentionBackward op;
  set_gradients(operands, spec, op);
  op.probabilities = forward.probabilities;
  op.in = forward.in;
  return op;
}

Job unfused_backward(Operands& operands, const Spec& spec) {
  const UnfusedAttentionForward forward = unfused_forward_op(operands, spec);
  const UnfusedAttentionBackward op = unfused_backward_op(operands, spec, forward);
  unfused_attention_forward(operands.preparation(), forward);
  return make_job(op, unfused_attention_backward, gradient_outputs(operands, op));
}

template <typename Forward, typename Backward>
void set_pairs(GradientJob& job, const Forward& op, const Backward& back) {
  job.outputs = {{op.out, back.dout}};
  job.operands = {{op.in.query, back.dquery}, {op.in.key, back.dkey}, {op.in.value, back.dvalue}};
  if (op.in.bias) job.operands.push_back({op.in.bias, back.dbias});
}

GradientJob gradients(Operands& operands, const Spec& spec) {
  const AttentionForward op = forward_op(operands, spec);
  const AttentionBackward back = backward_op(operands, spec, op);
  GradientJob job;
  job.forward = call_of(attention_forward, op);
  job.backward = [op, back](Context& context) {
    attention_delta(context, {back.delta, op.out, back.dout});
    attention_backward(context, back);
  };
  set_pairs(job, op, back);
  return job;
}

GradientJob unfused_gradients(Operands& operands, const Spec& spec) {
  const UnfusedAttentionForward op = unfused_forward_op(operands, spec);
  const UnfusedAttentionBackward back = unfused_backward_op(operands, spec, op);
  GradientJob job;
  job.forward = call_of(unfused_attention_forward, op);
  job.backward = call_of(unfused_attention_backward, back);
  set_pairs(job, op, back);
  return job;
}

constexpr AttentionMask kFull{};
constexpr AttentionMask kCausal{.causal = true};
constexpr AttentionMask kDocuments{.documents = true};
constexpr AttentionMask kCausalDocuments{.causal = true, .documents = true};
constexpr AttentionMask window_of(std::int64_t keys) { return {.causal = true, .window = keys}; }
constexpr AttentionMask kWindowDocuments{.causal = true, .documents = true, .window = 9};

const Spec kTested[] = {
    {1, 1, 1, 1, 1, 1, kCausal},
    {17, 17, 2, 3, 3, 8, kCausal},
    {65, 65, 1, 2, 2, 64, kCausal, Rows::kPlain, 0.1},
    {257, 257, 1, 1, 1, 64, kCausal, Rows::kPlain, 0.1, false, Layout::kInterleaved},
    {3, 65, 2, 4, 2, 16, kCausal, Rows::kCache, 0.1},
    {1, 129, 2, 2, 2, 32, kCausal, Rows::kKnownCache},
    {65, 17, 1, 4, 1, 32, kFull},
    {20, 33, 2, 2, 1, 17, kFull, Rows::kPlain, 0.5},
    {33, 33, 2, 2, 2, 24, kFull, Rows::kPadding},
    {33, 33, 2, 2, 2, 24, kDocuments, Rows::kPadding, 0.1},
    {40, 40, 2, 2, 1, 16, kDocuments, Rows::kPacked},
    {67, 67, 2, 2, 1, 16, kCausalDocuments, Rows::kPacked, 0.1, false, Layout::kBlocks},
    {19, 19, 2, 2, 2, 16, kCausal, Rows::kBlind},
    {31, 31, 1, 2, 2, 20, kCausal, Rows::kZigzag, 0.2},
    {17, 17, 2, 4, 2, 16, kFull, Rows::kPlain, 0.0, true},
    {130, 130, 1, 1, 1, 80, kCausal, Rows::kKnown, 0.1, true},
    {20, 20, 1, 2, 2, 128, kCausal, Rows::kPlain, 0.0, false, Layout::kInterleaved},
    {33, 33, 3, 4, 2, 16, kCausal, Rows::kPlain, 0.1, true, Layout::kBlocks},
    {33, 47, 3, 4, 2, 24, kFull, Rows::kPadding, 0.1, true},
    {47, 33, 2, 2, 2, 16, kFull, Rows::kPadding},
    {31, 31, 2, 2, 2, 16, kCausal, Rows::kPadding, 0.1, true, Layout::kInterleaved},
    {19, 23, 2, 2, 2, 16, kFull, Rows::kBlind, 0.0, true},
    {29, 29, 2, 6, 2, 16, kCausal, Rows::kPlain, 0.1, false, Layout::kGroups},
    {65, 65, 1, 4, 2, 24, window_of(1), Rows::kKnown, 0.0, false, Layout::kGroups},
    {67, 67, 2, 4, 2, 16, kWindowDocuments, Rows::kPacked, 0.1, true, Layout::kGroups},
    {3, 65, 2, 4, 2, 16, window_of(10), Rows::kCache, 0.1},
    {31, 31, 1, 2, 2, 20, window_of(7), Rows::kZigzag, 0.2},
    {33, 33, 2, 2, 2, 24, window_of(100), Rows::kPadding},
};

// Around the borders of strips and blocks, and head sizes in whole and broken vectors.
const Spec kBorders[] = {
    {47, 47, 1, 1, 1, 32, kCausal},
    {48, 56, 1, 2, 1, 40, kFull, Rows::kPlain, 0.1},
    {49, 49, 1, 1, 1, 96, kCausal, Rows::kPlain, 0.0, true},
    {97, 97, 1, 2, 2, 48, kCausalDocuments, Rows::kPacked},
    {30, 255, 1, 1, 1, 128, kFull},
    {49, 256, 1, 1, 1, 16, kCausal, Rows::kCache, 0.1},
    {20, 257, 1, 3, 1, 40, kFull, Rows::kPadding, 0.1, true},
    {145, 520, 1, 1, 1, 8, kCausal, Rows::kCache},
    {24, 24, 1, 1, 1, 256, kCausal},
    {65, 300, 2, 2, 1, 16, kFull, Rows::kPadding, 0.0, true},
    {520, 520, 1, 2, 1, 16, window_of(130), Rows::kKnown, 0.1, false, Layout::kGroups},
    {49, 600, 1, 1, 1, 32, window_of(256), Rows::kKnownCache},
};

const Spec kParts[] = {
    {65, 40, 2, 4, 2, 16, kCausal, Rows::kPart, 0.1},
    {67, 67, 2, 4, 2, 24, kCausal, Rows::kPart, 0.0, false, Layout::kGroups},
    {34, 300, 1, 2, 1, 80, kFull, Rows::kPart},
    {130, 130, 1, 2, 2, 17, window_of(9), Rows::kPart, 0.1, true, Layout::kInterleaved},
    {33, 33, 2, 2, 2, 128, kCausal, Rows::kPart, 0.0, false, Layout::kBlocks},
};

const Spec kTimed[] = {
    {256, 256, 4, 12, 12, 64, kCausal, Rows::kPlain, 0.0, false, Layout::kInterleaved},
    {256, 256, 4, 12, 12, 64, kCausal, Rows::kPlain, 0.1, false, Layout::kInterleaved},
    {1024, 1024, 1, 12, 12, 64, kCausal, Rows::kPlain, 0.0, false, Layout::kInterleaved},
    {4096, 4096, 1, 2, 2, 64, kCausal, Rows::kPlain, 0.0, false, Layout::kInterleaved},
    {256, 256, 4, 6, 6, 128, kCausal, Rows::kPlain, 0.0, false, Layout::kInterleaved},
    {1024, 1024, 1, 6, 6, 128, kCausal, Rows::kPlain, 0.0, false, Layout::kInterleaved},
    {1, 1024, 1, 12, 12, 64, kCausal, Rows::kCache},
    {1024, 1024, 1, 12, 4, 64, kCausal, Rows::kPlain, 0.0, false, Layout::kGroups},
    {4096, 4096, 1, 2, 2, 64, window_of(512), Rows::kPlain, 0.0, false, Layout::kInterleaved},
};

const Spec kDifferentiated[] = {
    {5, 5, 2, 4, 2, 3, kCausalDocuments, Rows::kPacked, 0.2, true, Layout::kBlocks},
    {5, 5, 1, 2, 2, 3, kCausal, Rows::kZigzag, 0.2, false, Layout::kInterleaved},
    {4, 6, 2, 2, 1, 3, kFull, Rows::kPadding, 0.0, true},
    {2, 6, 1, 2, 1, 3, kCausal, Rows::kCache, 0.3},
    {3, 3, 2, 1, 1, 2, kCausal, Rows::kBlind},
    {3, 5, 3, 4, 2, 2, kFull, Rows::kPadding, 0.2, true},
    {3, 5, 2, 2, 1, 2, kFull, Rows::kBlind, 0.0, true},
    {6, 6, 2, 4, 2, 3, window_of(3), Rows::kPlain, 0.2, true, Layout::kGroups},
    {5,
     5,
     1,
     4,
     2,
     3,
     {.causal = true, .documents = true, .window = 2},
     Rows::kPacked,
     0.0,
     false,
     Layout::kGroups},
};

const MergeSpec kMerged[] = {{1, 1, 1, 1},      {5, 1, 1, 64},   {65, 2, 3, 17},
                             {130, 1, 2, 80},   {20, 2, 1, 128}, {67, 2, 2, 40, true},
                             {3, 3, 4, 7, true}};

}  // namespace

Case attention_case(const std::string& op, const AttentionSize& size) {
  const Spec spec{.sq = size.rows,
                  .sk = size.rows,
                  .b = size.batch,
                  .heads = size.heads,
                  .groups = size.groups,
                  .d = size.head_size,
                  .mask = kCausal,
                  .rows = Rows::kKnown,
                  .layout = Layout::kGroups};
  return op == "attention_forward" ? case_of(op, attention_name(spec), kTimedTypes, forward, spec)
                                   : case_of(op, attention_name(spec), kTimedTypes, backward, spec);
}

void add_attention_cases(CaseTable& table) {
  using Build = Job (*)(Operands&, const Spec&);
  constexpr std::pair<const char*, Build> kOps[] = {
      {"attention_forward", forward},
      {"attention_delta", delta},
      {"attention_backward", backward},
      {"unfused_attention_forward", unfused_forward},
      {"unfused_attention_backward", unfused_backward}};
  for (const auto& [op, build] : kOps) {
    const auto row = [op = op, build = build](const Spec& spec, std::span<const DType> types) {
      return Case{op, attention_name(spec), types,
                  [build, spec](Operands& operands) { return build(operands, spec); }};
    };
    for (const Spec& spec : kTested) table.tests.push_back(row(spec, kStorageTypes));
    for (const Spec& spec : kBorders) table.tests.push_back(row(spec, kStorageTypes));
    for (const Spec& spec : kTimed) table.performance.push_back(row(spec, kTimedTypes));
  }
  for (const Spec& spec : kParts) {
    table.test("attention_forward", attention_name(spec), kStorageTypes, forward, spec);
    table.test("attention_backward", attention_name(spec), kStorageTypes, backward_of_part, spec);
  }
  for (const MergeSpec& spec : kMerged) {
    table.test("attention_merge",
               fmt::format("{}, b {}, heads {}, d {}{}", spec.sq, spec.b, spec.heads, spec.d,
                           spec.strided ? ", strided" : ""),
               kFullPrecision, merge, spec);
  }
  table.time("attention_merge", "1024, b 1, heads 12, d 64", kFullPrecision, merge,
             MergeSpec{1024, 1, 12, 64});
  for (const Spec& spec : kDifferentiated) {
    table.differentiate("attention", attention_name(spec), gradients, spec);
    table.differentiate("unfused_attention", attention_name(spec), unfused_gradients, spec);
  }
}

}  // namespace phalanx::ops
