#pragma once
// Attention to keys that come in parts, as ranks of a ring have them: the rows of a sample are cut
// into 2 P chunks, a rank has chunks r and 2 P - 1 - r, and meets the keys of all ranks one after
// the other. Joined, the parts are attention to all keys.

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "phalanx/ops/attention.h"
#include "phalanx/ops/backend.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops::parts {

using ref::Array;
using Numbers = std::vector<double>;
using RowList = std::vector<std::int64_t>;

inline constexpr double kUnseen = -std::numeric_limits<double>::infinity();

// The rows of rank r of P.
inline RowList zigzag(std::int64_t s, std::int64_t ranks, std::int64_t r) {
  const std::int64_t chunk = s / (2 * ranks);
  RowList rows;
  for (const std::int64_t first : {r * chunk, (2 * ranks - 1 - r) * chunk}) {
    for (std::int64_t i = 0; i < chunk; ++i) rows.push_back(first + i);
  }
  return rows;
}

// A sample's attention in doubles; arrays are [s, b, heads, d], statistics [b, heads, s].
struct Sample {
  Sample(std::int64_t s, std::int64_t b, std::int64_t heads, std::int64_t groups, std::int64_t d)
      : query({s, b, heads, d}),
        key({s, b, groups, d}),
        value({s, b, groups, d}),
        dout({s, b, heads, d}),
        document(static_cast<std::size_t>(s * b), 0) {}

  std::int64_t rows() const { return query.shape[0]; }

  Array query, key, value, dout;
  std::vector<std::int32_t> document;  // [s, b]
  AttentionMask mask{.causal = true};
  double scale = 1.0;
  Dropout dropout;
};

struct Results {
  Array out, lse, delta, dquery, dkey, dvalue;
};

// What a rank computes of the keys of another rank.
struct Part {
  Array out{Shape{0}}, lse{Shape{0}}, dkey{Shape{0}}, dvalue{Shape{0}};
};
// parts[r][i]: of rank r in step i.
using Parts = std::vector<std::vector<Part>>;

inline Array select_rows(const Array& from, const RowList& rows, int dim = 0) {
  Shape shape = from.shape;
  std::int64_t inner = 1;
  for (int i = dim + 1; i < shape.rank(); ++i) inner *= shape[i];
  const std::int64_t extent = shape[dim];
  shape[dim] = static_cast<std::int64_t>(rows.size());
  Array to(shape);
  for (std::size_t n = 0; n < to.values.size(); ++n) {
    const auto at = static_cast<std::int64_t>(n) / inner;
    const auto count = static_cast<std::int64_t>(rows.size());
    const std::int64_t row = rows[static_cast<std::size_t>(at % count)];
    const std::int64_t place =
        (at / count * extent + row) * inner + static_cast<std::int64_t>(n) % inner;
    to.values[n] = from.values[static_cast<std::size_t>(place)];
  }
  return to;
}

inline void put_rows(const Array& from, const RowList& rows, Array& to, int dim = 0) {
  Array numbers(to.shape);
  for (std::size_t n = 0; n < numbers.values.size(); ++n) {
    numbers.values[n] = static_cast<double>(n);
  }
  const Array places = select_rows(numbers, rows, dim);
  for (std::size_t n = 0; n < from.values.size(); ++n) {
    to.values[static_cast<std::size_t>(places.values[n])] = from.values[n];
  }
}

// Computes on a backend, in a storage type beside which results are in full precision.
class RingMachine {
 public:
  RingMachine(std::unique_ptr<Backend> backend, DType storage)
      : backend_(std::move(backend)), storage_(storage) {}

  Results dense(const Sample& sample) {
    RowList all;
    for (std::int64_t i = 0; i < sample.rows(); ++i) all.push_back(i);
    Parts parts;
    return ring(sample, std::vector<RowList>{all}, parts);
  }
  Results ring(const Sample& sample, std::int64_t ranks, Parts& parts) {
    std::vector<RowList> rows;
    for (std::int64_t r = 0; r < ranks; ++r) rows.push_back(zigzag(sample.rows(), ranks, r));
    return ring(sample, rows, parts);
  }

 private:
  DType full() const { return storage_ == DType::kF64 ? DType::kF64 : DType::kF32; }

  Tensor tensor_of(const Array& values, DType dtype) {
    const Tensor tensor = memory_.allocate(dtype, values.shape);
    ref::write(tensor, values);
    return tensor;
  }
  Tensor integers(DType dtype, const Shape& shape, const auto& value) {
    const Tensor tensor = memory_.allocate(dtype, shape);
    ref::Integers values(shape);
    for (std::size_t n = 0; n < values.values.size(); ++n) values.values[n] = value(n);
    ref::write_integers(tensor, values);
    return tensor;
  }
  RowCoordinates coordinates(const Sample& sample, const RowList& rows, bool keys) {
    const std::int64_t b = sample.query.shape[1];
    const Shape shape{static_cast<std::int64_t>(rows.size()), b};
    const auto batch = static_cast<std::size_t>(b);
    RowCoordinates result;
    // Nobody asks for the samples of keys.
    if (!keys) {
      result.sample = integers(DType::kI64, shape, [&](std::size_t n) { return n % batch + 7; });
    }
    result.position = integers(DType::kI32, shape, [&](std::size_t n) { return rows[n / batch]; });
    result.document = integers(DType::kI32, shape, [&](std::size_t n) {
      return sample.document[static_cast<std::size_t>(rows[n / batch]) * batch + n % batch];
    });
    return result;
  }

  AttentionInputs inputs(const Sample& sample, const RowList& queries, const RowList& keys) {
    AttentionInputs in;
    in.query = tensor_of(select_rows(sample.query, queries), storage_);
    in.key = tensor_of(select_rows(sample.key, keys), storage_);
    in.value = tensor_of(select_rows(sample.value, keys), storage_);
    in.query_rows = coordinates(sample, queries, false);
    in.key_rows = coordinates(sample, keys, true);
    in.mask = sample.mask;
    in.scale = sample.scale;
    in.dropout = sample.dropout;
    return in;
  }

  Results ring(const Sample& sample, const std::vector<RowList>& rows, Parts& parts) {
    const std::size_t ranks = rows.size();
    Results all{Array(sample.query.shape),
                Array({sample.query.shape[1], sample.query.shape[2], sample.rows()}),
                Array({sample.query.shape[1], sample.query.shape[2], sample.rows()}),
                Array(sample.query.shape),
                Array(sample.key.shape),
                Array(sample.key.shape)};
    parts.assign(ranks, std::vector<Part>(ranks));
    for (std::size_t r = 0; r < ranks; ++r) rank(sample, rows, r, parts[r], all);
    // At the owner s in the order s, s + 1, ...
    for (std::size_t s = 0; s < ranks; ++s) {
      Array dkey = parts[s][0].dkey;
      Array dvalue = parts[s][0].dvalue;
      for (std::size_t i = 1; i < ranks; ++i) {
        const Part& part = parts[(s + i) % ranks][i];
        for (std::size_t n = 0; n < dkey.values.size(); ++n) {
          dkey.values[n] += part.dkey.values[n];
          dvalue.values[n] += part.dvalue.values[n];
        }
      }
      put_rows(dkey, rows[s], all.dkey);
      put_rows(dvalue, rows[s], all.dvalue);
    }
    return all;
  }

  void rank(const Sample& sample, const std::vector<RowList>& rows, std::size_t r,
            std::vector<Part>& parts, Results& all) {
    const WorkspaceScope scope(memory_);
    Context context{.backend = *backend_, .workspace = workspace_};
    const std::size_t ranks = rows.size();
    const auto owner = [&](std::size_t i) { return (r + ranks - i) % ranks; };
    const Array rounded_dout = select_rows(sample.dout, rows[r]);
    const Shape heads = rounded_dout.shape;
    const Shape statistics{heads[1], heads[2], heads[0]};
    const Tensor out = memory_.allocate(full(), heads);
    const Tensor lse = memory_.allocate(full(), statistics);
    std::vector<AttentionInputs> in;
    for (std::size_t i = 0; i < ranks; ++i) {
      in.push_back(inputs(sample, rows[r], rows[owner(i)]));
      AttentionForward forward{out, lse, in[i]};
      if (i > 0) {
        forward.out = memory_.allocate(full(), heads);
        forward.lse = memory_.allocate(full(), statistics);
      }
      attention_forward(context, forward);
      parts[i].out = ref::read(forward.out);
      parts[i].lse = ref::read(forward.lse);
      if (i > 0) attention_merge(context, {out, lse, forward.out, forward.lse});
    }
    const Tensor stored = tensor_of(ref::read(out), storage_);
    const Tensor dout = tensor_of(rounded_dout, storage_);
    const Tensor delta = memory_.allocate(full(), statistics);
    attention_delta(context, {delta, stored, dout});
    const Tensor dquery = tensor_of(Array(heads), full());
    for (std::size_t i = 0; i < ranks; ++i) {
      AttentionBackward backward;
      backward.dquery = dquery;
      backward.dkey = memory_.allocate(full(), in[i].key.shape);
      backward.dvalue = memory_.allocate(full(), in[i].key.shape);
      backward.dout = dout;
      backward.lse = lse;
      backward.delta = delta;
      backward.in = in[i];
      backward.adds_to_dquery = true;
      attention_backward(context, backward);
      parts[i].dkey = ref::read(backward.dkey);
      parts[i].dvalue = ref::read(backward.dvalue);
    }
    put_rows(ref::read(out), rows[r], all.out);
    put_rows(ref::read(lse), rows[r], all.lse, 2);
    put_rows(ref::read(delta), rows[r], all.delta, 2);
    put_rows(ref::read(dquery), rows[r], all.dquery);
  }

  std::unique_ptr<Backend> backend_;
  DType storage_;
  Arena memory_{"operands", 64 << 20};
  Arena workspace_{"workspace", 64 << 20};
};

inline RingMachine in_double() { return {make_ref_backend(), DType::kF64}; }
inline RingMachine in_float() {
  return {make_cpu_backend(1, cpu::ProductPrecision::kFp32), DType::kF32};
}

}  // namespace phalanx::ops::parts
