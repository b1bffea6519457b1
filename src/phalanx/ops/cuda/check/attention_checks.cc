// Attention, fused and unfused, against double: forward and backward, causal, with documents,
// dropout and a bias.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "phalanx/base/philox.h"
#include "phalanx/ops/cuda/attention.h"
#include "phalanx/ops/cuda/check/checks.h"

namespace phalanx::cuda {
namespace {

struct AttentionCase {
  std::int64_t length;
  std::int64_t batch;
  std::int64_t heads;
  std::int64_t groups;
  std::int64_t width;
  double probability;
  bool bias;
  bool unfused;
};

// Doubles [rows, samples, heads, width].
struct Heads {
  std::vector<double> values;
  std::int64_t batch, heads, width;

  double* row(std::int64_t i, std::int64_t b, std::int64_t h) {
    return values.data() + ((i * batch + b) * heads + h) * width;
  }
};

Heads zeros(const AttentionCase& c, std::int64_t heads) {
  return {std::vector<double>(static_cast<std::size_t>(c.length * c.batch * heads * c.width)),
          c.batch, heads, c.width};
}

double dot(const double* x, const double* y, std::int64_t n) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}
void add(double* to, const double* x, double factor, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] += factor * x[i];
}

class AttentionCheck {
 public:
  AttentionCheck(Workbench& bench, const AttentionCase& c, DType type)
      : bench_(bench), c_(c), type_(type) {
    call_.query = operand(c.heads, query_);
    call_.key = operand(c.groups, key_);
    call_.value = operand(c.groups, value_);
    backward_.dout = operand(c.heads, dout_);
    call_.queries = c.length;
    call_.keys = c.length;
    call_.batch = c.batch;
    call_.heads = c.heads;
    call_.groups = c.groups;
    call_.width = c.width;
    call_.causal = true;
    call_.documents = true;
    call_.scale = 1.0 / std::sqrt(static_cast<double>(c.width));
    call_.probability = c.probability;
    call_.dropout_key = {17, 5};
    call_.site = 0x00031000;
    for (std::int64_t i = 0; i < c.length; ++i) {
      for (std::int64_t b = 0; b < c.batch; ++b) {
        samples_.push_back((std::int64_t{3} << 33) + b);
        positions_.push_back(static_cast<std::int32_t>(i));
        // The second half of sample 1 is another document; the last row of all is padding.
        documents_.push_back(i + 1 == c.length ? -1 : b == 1 && 2 * i >= c.length ? 1 : 0);
      }
    }
    call_.query_rows = {{bench.upload(samples_), c.batch, 1},
                        {bench.upload(positions_), c.batch, 1},
                        {bench.upload(documents_), c.batch, 1}};
    call_.key_rows = call_.query_rows;
    const std::int64_t pairs = c.heads * c.length * c.length;
    if (c.bias) {
      const std::vector<float> bias = bench.uniform_floats(pairs, -1, 1);
      bias_.assign(bias.begin(), bias.end());
      call_.bias = bench.upload(bias);
      backward_.dbias = bench.upload(std::vector<float>(bias.size(), 0.0F));
      call_.bias_head_stride = backward_.dbias_head_stride = c.length * c.length;
      call_.bias_row_stride = backward_.dbias_row_stride = c.length;
    }
  }

  double error() {
    const std::int64_t of_head = c_.batch * c_.heads * c_.length;
    const AttentionOperand out = result(c_.heads);
    backward_.dquery = result(c_.heads);
    backward_.dkey = result(c_.groups);
    backward_.dvalue = result(c_.groups);
    compute();
    if (c_.unfused) {
      const std::int64_t keys = c_.length;
      const ProbabilityOperand probabilities{bench_.output(type_, of_head * keys),
                                             c_.heads * keys * keys, keys * keys, keys};
      unfused_attention_forward(bench_.context(), call_, out, probabilities);
      unfused_attention_backward(bench_.context(), call_, backward_, probabilities);
      compare(probabilities.data, probabilities_);
    } else {
      float* lse = bench_.output_floats(of_head);
      float* delta = bench_.output_floats(of_head);
      attention_forward(bench_.context(), call_, out, lse);
      attention_delta(bench_.context(),
                      {delta, out, backward_.dout, c_.length, c_.batch, c_.heads, c_.width});
      backward_.lse = lse;
      backward_.delta = delta;
      attention_backward(bench_.context(), call_, backward_);
      compare({reinterpret_cast<std::byte*>(lse), DType::kF32}, lse_);
    }
    compare(out.data, out_.values);
    compare(backward_.dquery.data, dquery_.values);
    compare(backward_.dkey.data, dkey_.values);
    compare(backward_.dvalue.data, dvalue_.values);
    if (c_.bias) compare({reinterpret_cast<std::byte*>(backward_.dbias), DType::kF32}, dbias_);
    return error_;
  }

 private:
  std::int64_t count(std::int64_t heads) const { return c_.length * c_.batch * heads * c_.width; }
  AttentionOperand at(TypedAddress data, std::int64_t heads) const {
    return {data, c_.batch * heads * c_.width, heads * c_.width,
            heads / std::min(heads, c_.groups) * c_.width, c_.width};
  }
  AttentionOperand operand(std::int64_t heads, Heads& values) {
    const TypedAddress data = bench_.uniform(type_, count(heads), -2, 2);
    values = zeros(c_, heads);
    const std::vector<float> numbers = bench_.read_floats(data, count(heads));
    values.values.assign(numbers.begin(), numbers.end());
    return at(data, heads);
  }
  AttentionOperand result(std::int64_t heads) {
    return at(bench_.output(type_, count(heads)), heads);
  }

  double multiplier(std::int64_t i, std::int64_t j, std::int64_t b, std::int64_t h) const {
    if (c_.probability == 0.0) return 1.0;
    const auto sample = static_cast<std::uint64_t>(samples_[static_cast<std::size_t>(b)]);
    const PhiloxWords words =
        philox4x32(dropout_sample_key(call_.dropout_key, sample),
                   dropout_counter(sample, call_.site + static_cast<std::uint32_t>(h),
                                   static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j)));
    const bool dropped = words[static_cast<std::size_t>(j % 4)] < dropout_threshold(c_.probability);
    return dropped ? 0.0 : static_cast<float>(1.0 / (1.0 - c_.probability));
  }
  bool sees(std::int64_t i, std::int64_t j, std::int64_t b) const {
    const std::int32_t document = documents_[static_cast<std::size_t>(j * c_.batch + b)];
    return j <= i && document >= 0 &&
           document == documents_[static_cast<std::size_t>(i * c_.batch + b)];
  }

  void compute() {
    out_ = zeros(c_, c_.heads);
    dquery_ = zeros(c_, c_.heads);
    dkey_ = zeros(c_, c_.groups);
    dvalue_ = zeros(c_, c_.groups);
    dbias_.assign(bias_.size(), 0.0);
    const std::int64_t d = c_.width;
    for (std::int64_t b = 0; b < c_.batch; ++b) {
      for (std::int64_t h = 0; h < c_.heads; ++h) {
        const std::int64_t g = h / (c_.heads / c_.groups);
        for (std::int64_t i = 0; i < c_.length; ++i) {
          std::vector<double> scores;
          double sum = 0.0;
          for (std::int64_t j = 0; j < c_.length; ++j) {
            const std::size_t pair = static_cast<std::size_t>((h * c_.length + i) * c_.length + j);
            scores.push_back(call_.scale * dot(query_.row(i, b, h), key_.row(j, b, g), d) +
                             (c_.bias ? bias_[pair] : 0.0));
            if (sees(i, j, b)) sum += std::exp(scores.back());
          }
          const double lse = std::log(sum);
          lse_.push_back(lse);
          for (std::int64_t j = 0; j < c_.length; ++j) {
            const double probability =
                sees(i, j, b) ? std::exp(scores[static_cast<std::size_t>(j)] - lse) : 0.0;
            probabilities_.push_back(probability);
            if (probability == 0.0) continue;
            const double weight = probability * multiplier(i, j, b, h);
            add(out_.row(i, b, h), value_.row(j, b, g), weight, d);
            add(dvalue_.row(j, b, g), dout_.row(i, b, h), weight, d);
          }
          const double delta = dot(out_.row(i, b, h), dout_.row(i, b, h), d);
          for (std::int64_t j = 0; j < c_.length; ++j) {
            if (!sees(i, j, b)) continue;
            const double dweight =
                multiplier(i, j, b, h) * dot(dout_.row(i, b, h), value_.row(j, b, g), d);
            const double dscore =
                std::exp(scores[static_cast<std::size_t>(j)] - lse) * (dweight - delta);
            add(dquery_.row(i, b, h), key_.row(j, b, g), call_.scale * dscore, d);
            add(dkey_.row(j, b, g), query_.row(i, b, h), call_.scale * dscore, d);
            if (c_.bias) {
              dbias_[static_cast<std::size_t>((h * c_.length + i) * c_.length + j)] += dscore;
            }
          }
        }
      }
    }
  }

  // Relative to the largest number; infinite ones must be so.
  void compare(TypedAddress found, const std::vector<double>& expected) {
    const std::vector<float> numbers =
        bench_.read_floats(found, static_cast<std::int64_t>(expected.size()));
    double largest = 1e-30;
    double error = 0.0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (std::isinf(expected[i]) && static_cast<double>(numbers[i]) == expected[i]) continue;
      largest = std::max(largest, std::fabs(expected[i]));
      const double difference = std::fabs(static_cast<double>(numbers[i]) - expected[i]);
      error = std::isfinite(difference) ? std::max(error, difference) : 1e30;
    }
    error_ = std::max(error_, error / largest);
  }

  Workbench& bench_;
  AttentionCase c_;
  DType type_;
  AttentionCall call_;
  AttentionBackwardCall backward_;
  std::vector<std::int64_t> samples_;
  std::vector<std::int32_t> positions_;
  std::vector<std::int32_t> documents_;
  std::vector<double> bias_;
  Heads query_, key_, value_, dout_;
  Heads out_, dquery_, dkey_, dvalue_;
  std::vector<double> lse_, probabilities_, dbias_;
  double error_ = 0.0;
};

}  // namespace

std::vector<ApproximateCheck> attention_checks() {
  std::vector<ApproximateCheck> checks;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    const double rounding = type == DType::kBF16 ? 0x1p-6 : type == DType::kF16 ? 0x1p-9 : 0.0;
    for (const AttentionCase& c : {AttentionCase{130, 1, 2, 1, 64, 0.1, false, false},
                                   AttentionCase{70, 2, 2, 2, 72, 0.1, true, false},
                                   AttentionCase{130, 1, 2, 1, 64, 0.1, false, true},
                                   AttentionCase{70, 2, 2, 2, 72, 0.1, true, true}}) {
      checks.push_back(
          {fmt::format("{}attention {} of {} rows, width {}{}", c.unfused ? "unfused " : "",
                       name_of(type), c.length, c.width, c.bias ? ", bias" : ""),
           [=](Workbench& bench) { return AttentionCheck(bench, c, type).error(); },
           1e-5 + rounding});
    }
  }
  return checks;
}

}  // namespace phalanx::cuda
