#include <algorithm>
#include <cmath>
#include <limits>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"

namespace phalanx::ref {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Queries [s, b, heads, d], grouped or not.
Array read_heads(const Tensor& query) {
  Array heads = read(query);
  if (heads.shape.rank() == 5) {
    const Shape& from = heads.shape;
    heads.shape = Shape{from[0], from[1], from[2] * from[3], from[4]};
  }
  return heads;
}

// The inputs as doubles. Indices: i a query, j a key, b a sample of the batch, h a query head.
struct Inputs {
  explicit Inputs(const ops::AttentionInputs& in)
      : op(in),
        query(read_heads(in.query)),
        key(read(in.key)),
        value(read(in.value)),
        bias(read(in.bias)),
        query_rows(in.query_rows),
        key_rows(in.key_rows),
        heads_per_group(query.shape[2] / key.shape[2]) {}

  std::int64_t queries() const { return query.shape[0]; }
  std::int64_t keys() const { return key.shape[0]; }
  std::int64_t batch() const { return query.shape[1]; }
  std::int64_t heads() const { return query.shape[2]; }
  std::int64_t width() const { return query.shape[3]; }
  std::int64_t group(std::int64_t h) const { return h / heads_per_group; }

  bool visible(std::int64_t i, std::int64_t j, std::int64_t b) const {
    const std::int64_t document = key_rows.document(j, b);
    if (document < 0) return false;
    if (op.mask.documents && document != query_rows.document(i, b)) return false;
    if (!op.mask.causal) return true;
    const std::int64_t distance = query_rows.position(i, b) - key_rows.position(j, b);
    return distance >= 0 && (op.mask.window == 0 || distance < op.mask.window);
  }

  // The row of query i: scaled scores with bias, -infinity where the key is not seen.
  std::vector<double> scores(std::int64_t i, std::int64_t b, std::int64_t h) const {
    std::vector<double> row(static_cast<std::size_t>(keys()), -kInfinity);
    for (std::int64_t j = 0; j < keys(); ++j) {
      if (!visible(i, j, b)) continue;
      row[j] = op.scale * dot(query.row(i, b, h), key.row(j, b, group(h)));
      if (op.bias) row[j] += bias(h, i, j);
    }
    return row;
  }

  double multiplier(std::int64_t i, std::int64_t j, std::int64_t b, std::int64_t h) const {
    if (op.dropout.probability == 0.0) return 1.0;
    return dropout_multiplier(op.dropout, op.dropout.site + static_cast<std::uint32_t>(h),
                              query_rows.sample(i, b), query_rows.position(i, b),
                              key_rows.position(j, b));
  }

  double dot(const double* x, const double* y) const {
    double sum = 0.0;
    for (std::int64_t d = 0; d < width(); ++d) sum += x[d] * y[d];
    return sum;
  }

  ops::AttentionInputs op;
  Array query, key, value, bias;
  Coordinates query_rows, key_rows;
  std::int64_t heads_per_group;
};

double log_sum_exp(const std::vector<double>& scores) {
  const double largest =
      scores.empty() ? -kInfinity : *std::max_element(scores.begin(), scores.end());
  if (largest == -kInfinity) return -kInfinity;
  double sum = 0.0;
  for (const double score : scores) sum += std::exp(score - largest);
  return largest + std::log(sum);
}

// Scores become probabilities.
void exponentiate(std::vector<double>& scores, double lse) {
  for (double& score : scores) score = score == -kInfinity ? 0.0 : std::exp(score - lse);
}

// out row += dropout(probabilities) values.
void weigh_values(const Inputs& in, const std::vector<double>& probabilities, std::int64_t i,
                  std::int64_t b, std::int64_t h, Array& out) {
  for (std::int64_t j = 0; j < in.keys(); ++j) {
    if (probabilities[j] == 0.0) continue;
    const double weight = probabilities[j] * in.multiplier(i, j, b, h);
    const double* value = in.value.row(j, b, in.group(h));
    for (std::int64_t d = 0; d < in.width(); ++d) out(i, b, h, d) += weight * value[d];
  }
}

// Calls visit(i, b, h) for every query row.
template <typename Visit>
void for_each_query(const Inputs& in, const Visit& visit) {
  for (std::int64_t b = 0; b < in.batch(); ++b) {
    for (std::int64_t h = 0; h < in.heads(); ++h) {
      for (std::int64_t i = 0; i < in.queries(); ++i) visit(i, b, h);
    }
  }
}

struct Gradients {
  Array query, key, value, bias;

  // Adds the contribution of query row (i, b, h) with these probabilities. delta = sum over keys of
  // dropout(probability) * (dout . value) = sum(out * dout).
  void add_row(const Inputs& in, const std::vector<double>& probabilities, const double* dout,
               double delta, std::int64_t i, std::int64_t b, std::int64_t h) {
    const std::int64_t g = in.group(h);
    for (std::int64_t j = 0; j < in.keys(); ++j) {
      if (!in.visible(i, j, b)) continue;
      const double multiplier = in.multiplier(i, j, b, h);
      const double dprobability = multiplier * in.dot(dout, in.value.row(j, b, g));
      const double dscore = probabilities[j] * (dprobability - delta);
      if (in.op.bias) bias(h, i, j) += dscore;
      for (std::int64_t d = 0; d < in.width(); ++d) {
        query(i, b, h, d) += in.op.scale * dscore * in.key(j, b, g, d);
        key(j, b, g, d) += in.op.scale * dscore * in.query(i, b, h, d);
        value(j, b, g, d) += probabilities[j] * multiplier * dout[d];
      }
    }
  }
};

// The gradients before any row; dbias starts from its present values.
Gradients start_gradients(const Inputs& in, const Tensor& dbias) {
  return {Array(in.query.shape), Array(in.key.shape), Array(in.value.shape),
          dbias ? read(dbias) : Array(in.bias.shape)};
}

// L = ln(e^l + e^other), and what the two parts weigh.
struct Joined {
  Joined(double l, double other) {
    if (l == -kInfinity && other == -kInfinity) return;
    const double largest = std::max(l, other);
    lse = largest + std::log(std::exp(l - largest) + std::exp(other - largest));
    if (l != -kInfinity) weight = std::exp(l - lse);
    if (other != -kInfinity) other_weight = std::exp(other - lse);
  }

  double lse = -kInfinity;
  double weight = 0.0;
  double other_weight = 0.0;
};

// For the fused and the unfused backward.
template <typename Op>
void write_gradients(const Op& op, const Gradients& gradients) {
  write(op.dquery, gradients.query);
  write(op.dkey, gradients.key);
  write(op.dvalue, gradients.value);
  if (op.dbias) write(op.dbias, gradients.bias);
}

}  // namespace

void execute(RefDevice& /*device*/, const ops::AttentionForward& op, const Tensor& /*scratch*/) {
  const Inputs in(op.in);
  Array out(op.out.shape);
  Array lse(op.lse.shape);
  for_each_query(in, [&](std::int64_t i, std::int64_t b, std::int64_t h) {
    std::vector<double> row = in.scores(i, b, h);
    lse(b, h, i) = log_sum_exp(row);
    exponentiate(row, lse(b, h, i));
    weigh_values(in, row, i, b, h, out);
  });
  write(op.out, out);
  write(op.lse, lse);
}

void execute(RefDevice& /*device*/, const ops::AttentionDelta& op, const Tensor& /*scratch*/) {
  const Array out = read(op.out);
  const Array dout = read(op.dout);
  Array delta(op.delta.shape);
  for (std::int64_t b = 0; b < delta.shape[0]; ++b) {
    for (std::int64_t h = 0; h < delta.shape[1]; ++h) {
      for (std::int64_t i = 0; i < delta.shape[2]; ++i) {
        for (std::int64_t d = 0; d < out.shape[3]; ++d) {
          delta(b, h, i) += out(i, b, h, d) * dout(i, b, h, d);
        }
      }
    }
  }
  write(op.delta, delta);
}

void execute(RefDevice& /*device*/, const ops::AttentionBackward& op, const Tensor& /*scratch*/) {
  const Inputs in(op.in);
  const Array dout = read(op.dout);
  const Array lse = read(op.lse);
  const Array delta = read(op.delta);
  Gradients gradients = start_gradients(in, op.dbias);
  for_each_query(in, [&](std::int64_t i, std::int64_t b, std::int64_t h) {
    std::vector<double> row = in.scores(i, b, h);
    exponentiate(row, lse(b, h, i));
    gradients.add_row(in, row, dout.row(i, b, h), delta(b, h, i), i, b, h);
  });
  if (op.adds_to_dquery) {
    const Array before = read(op.dquery);
    for (std::size_t i = 0; i < before.values.size(); ++i) {
      gradients.query.values[i] += before.values[i];
    }
  }
  write_gradients(op, gradients);
}

void execute(RefDevice& /*device*/, const ops::AttentionMerge& op, const Tensor& /*scratch*/) {
  Array out = read(op.out);
  Array lse = read(op.lse);
  const Array part_out = read(op.part_out);
  const Array part_lse = read(op.part_lse);
  for (std::int64_t b = 0; b < lse.shape[0]; ++b) {
    for (std::int64_t h = 0; h < lse.shape[1]; ++h) {
      for (std::int64_t i = 0; i < lse.shape[2]; ++i) {
        const Joined joined(lse(b, h, i), part_lse(b, h, i));
        lse(b, h, i) = joined.lse;
        double* row = out.row(i, b, h);
        const double* part = part_out.row(i, b, h);
        for (std::int64_t d = 0; d < out.shape[3]; ++d) {
          const double own = joined.weight == 0.0 ? 0.0 : joined.weight * row[d];
          row[d] = joined.other_weight == 0.0 ? own : own + joined.other_weight * part[d];
        }
      }
    }
  }
  write(op.out, out);
  write(op.lse, lse);
}

void execute(RefDevice& /*device*/, const ops::UnfusedAttentionForward& op,
             const Tensor& /*scratch*/) {
  const Inputs in(op.in);
  Array out(op.out.shape);
  Array probabilities(op.probabilities.shape);
  for_each_query(in, [&](std::int64_t i, std::int64_t b, std::int64_t h) {
    std::vector<double> row = in.scores(i, b, h);
    exponentiate(row, log_sum_exp(row));
    // The output uses the stored, rounded probabilities.
    for (double& probability : row) probability = round_to(op.probabilities.dtype, probability);
    std::copy(row.begin(), row.end(), probabilities.row(b, h, i));
    weigh_values(in, row, i, b, h, out);
  });
  write(op.out, out);
  write(op.probabilities, probabilities);
}

void execute(RefDevice& /*device*/, const ops::UnfusedAttentionBackward& op,
             const Tensor& /*scratch*/) {
  const Inputs in(op.in);
  const Array dout = read(op.dout);
  const Array probabilities = read(op.probabilities);
  Gradients gradients = start_gradients(in, op.dbias);
  for_each_query(in, [&](std::int64_t i, std::int64_t b, std::int64_t h) {
    const double* stored = probabilities.row(b, h, i);
    const std::vector<double> row(stored, stored + in.keys());
    double delta = 0.0;
    for (std::int64_t j = 0; j < in.keys(); ++j) {
      delta += row[j] * in.multiplier(i, j, b, h) *
               in.dot(dout.row(i, b, h), in.value.row(j, b, in.group(h)));
    }
    gradients.add_row(in, row, dout.row(i, b, h), delta, i, b, h);
  });
  write_gradients(op, gradients);
}

}  // namespace phalanx::ref
