// The published times of one layer of the 22B model, and the cost model's sums over its ops.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "phalanx/clock/collective_cost.h"
#include "phalanx/clock/cost_model.h"
#include "phalanx/clock/machine.h"
#include "phalanx/clock/test_support.h"

namespace phalanx {
namespace {

// Batch 4, sequence 2048, hidden size 6144, 64 heads, tensor-parallel over 8: what one device does.
class Layer {
 public:
  explicit Layer(bool is_sequence_parallel)
      : is_sequence_parallel_(is_sequence_parallel),
        // What norms, dropout and residuals work on is cut along the sequence.
        rows_(is_sequence_parallel ? kActivation / kParallel : kActivation) {}

  double forward() const {
    const double linears =
        product(kTokens, 3 * kHidden / kParallel, kHidden) +  // queries, keys, values
        product(kTokens, kHidden, kHidden / kParallel) +      // projection
        product(kTokens, 4 * kHidden / kParallel, kHidden) +  // first of the MLP
        product(kTokens, kHidden, 4 * kHidden / kParallel);   // second
    const double norms = 2 * moved(2 * rows_);                // read, written
    // Input, residual, output, and a byte of the mask for two of an element.
    const double dropouts = 2 * moved(3.5 * rows_);
    const double gelu = moved(2 * kInner);
    return linears + attention_forward() + norms + dropouts + gelu + 2 * exchange();
  }

  // What selective recomputation does twice.
  double attention_forward() const {
    return scores_product(kSequence, kSequence, kHeadSize) + moved(2 * kScores) +  // softmax
           moved(2.5 * kScores) +                                                  // dropout
           scores_product(kSequence, kHeadSize, kSequence);
  }

  double backward() const {
    return gradients_of_inputs() + gradients_of_weights() + attention_backward() +
           2 * moved(4 * rows_) +    // norms: input, gradients in, of the residual, out
           2 * moved(2.5 * rows_) +  // dropouts
           moved(3 * kInner) + exposed_in_backward();
  }

 private:
  static constexpr std::int64_t kBatch = 4, kSequence = 2048, kHidden = 6144, kHeads = 64;
  static constexpr std::int64_t kParallel = 8;
  static constexpr std::int64_t kTokens = kBatch * kSequence;
  static constexpr std::int64_t kHeadSize = kHidden / kHeads;
  static constexpr std::int64_t kMatrices = kBatch * kHeads / kParallel;  // of scores
  // Bytes of tensors in 16 bits.
  static constexpr double kActivation = 2.0 * kTokens * kHidden;
  static constexpr double kInner = 4 * kActivation / kParallel;
  static constexpr double kScores = 2.0 * kMatrices * kSequence * kSequence;

  double product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product_seconds(machine_.device, {m, n, k, 1, ProductType::kF16});
  }
  double scores_product(std::int64_t m, std::int64_t n, std::int64_t k) const {
    return product_seconds(machine_.device, {m, n, k, kMatrices, ProductType::kF16});
  }
  double moved(double bytes) const { return memory_seconds(machine_.device, bytes); }
  double collective(CollectiveKind kind) const {
    return collective_seconds(machine_.cluster, kind, kActivation,
                              {.ranks = kParallel, .ranks_in_node = kParallel});
  }
  // The sum of a row-parallel product, or its halves around what is cut along the sequence.
  double exchange() const {
    if (!is_sequence_parallel_) return collective(CollectiveKind::kAllReduce);
    return collective(CollectiveKind::kReduceScatter) + collective(CollectiveKind::kAllGather);
  }

  double gradients_of_inputs() const {
    return product(kTokens, kHidden, 3 * kHidden / kParallel) +
           product(kTokens, kHidden / kParallel, kHidden) +
           product(kTokens, kHidden, 4 * kHidden / kParallel) +
           product(kTokens, 4 * kHidden / kParallel, kHidden);
  }
  double gradient_of_entry(std::int64_t columns) const {
    return product(columns / kParallel, kHidden, kTokens);
  }
  double gradients_of_weights() const {
    return gradient_of_entry(3 * kHidden) + product(kHidden, kHidden / kParallel, kTokens) +
           gradient_of_entry(4 * kHidden) + product(kHidden, 4 * kHidden / kParallel, kTokens);
  }
  double attention_backward() const {
    return scores_product(kSequence, kSequence, kHeadSize) +      // of the probabilities
           3 * scores_product(kSequence, kHeadSize, kSequence) +  // of values, queries, keys
           moved(2.5 * kScores) + moved(3 * kScores);             // dropout, softmax
  }
  // The software of the paper sums gradients under the weight gradients of the same layer. With
  // sequence parallelism it gathers the incoming gradient first, where nothing hides it.
  double exposed_in_backward() const {
    const auto exposed = [&](double seconds) {
      return std::max(0.0, seconds - gradient_of_entry(3 * kHidden)) +
             std::max(0.0, seconds - gradient_of_entry(4 * kHidden));
    };
    if (!is_sequence_parallel_) return exposed(collective(CollectiveKind::kAllReduce));
    return 2 * collective(CollectiveKind::kAllGather) +
           exposed(collective(CollectiveKind::kReduceScatter));
  }

  bool is_sequence_parallel_;
  double rows_;
  Machine machine_ = machine_of("selene");
};

void expect_within(double share, double milliseconds, double published, const std::string& what) {
  EXPECT_NEAR(milliseconds, published, share * published) << what;
}

TEST(PublishedLayer, ColumnsAreWithinSixPercentAndSumsWithinFour) {
  int rows = 0;
  for (const PlannerRow& row : planner_rows("layer_22b.csv")) {
    const Layer layer(row.whole("sequence_parallel") == 1);
    const std::string& recompute = row.text("recompute");
    const double again = recompute == "full"        ? layer.forward()
                         : recompute == "selective" ? layer.attention_forward()
                                                    : 0.0;
    const double forward = 1e3 * layer.forward();
    const double backward = 1e3 * (layer.backward() + again);
    const std::string what = fmt::format(
        "sequence parallel {}, recompute {}: {:.2f} + {:.2f} = {:.2f} ms",
        row.text("sequence_parallel"), recompute, forward, backward, forward + backward);
    expect_within(0.06, forward, row.number("forward"), what);
    expect_within(0.06, backward, row.number("backward"), what);
    expect_within(0.04, forward + backward, row.number("sum"), what);
    ++rows;
  }
  EXPECT_EQ(rows, 5);
}

}  // namespace
}  // namespace phalanx
