#include "phalanx/tasks/class_scores.h"

#include <algorithm>
#include <numeric>

#include "phalanx/base/error.h"
#include "phalanx/nn/classification_head.h"

namespace phalanx {
namespace {

// Counts are hits, labels and predictions, each by class.
class ClassScores final : public EvaluationScores {
 public:
  explicit ClassScores(std::int64_t classes) : classes_(static_cast<std::size_t>(classes)) {}

  std::int64_t counts() const override { return static_cast<std::int64_t>(3 * classes_); }

  void count(const nn::Unit& unit, const nn::UnitTensors& tensors, const ReadBack& read,
             std::span<double> counts) const override {
    const auto* const head = dynamic_cast<const nn::ClassificationHead*>(&unit);
    if (head == nullptr) return;
    const Tensor& logits = tensors.slots[static_cast<std::size_t>(head->logits())];
    const nn::Batch& batch = tensors.pass.batch;
    const auto samples = static_cast<std::size_t>(logits.shape[0]);
    std::vector<float> rows(samples * classes_);
    std::vector<std::int32_t> labels(samples);
    std::vector<float> mask(samples);
    PHALANX_CHECK(logits.dtype == DType::kF32, "logits of {}", name_of(logits.dtype));
    read(logits, std::as_writable_bytes(std::span(rows)));
    read(batch[head->options().labels], std::as_writable_bytes(std::span(labels)));
    read(batch[head->options().loss_mask], std::as_writable_bytes(std::span(mask)));
    for (std::size_t i = 0; i < samples; ++i) {
      if (mask[i] == 0.0F) continue;
      const auto predicted =
          static_cast<std::size_t>(class_of(std::span(rows).subspan(i * classes_, classes_)));
      const auto label = static_cast<std::size_t>(labels[i]);
      if (predicted == label) counts[label] += 1.0;
      counts[classes_ + label] += 1.0;
      counts[2 * classes_ + predicted] += 1.0;
    }
  }

  std::vector<NamedLoss> scores(std::span<const double> counts) const override {
    const auto hits = counts.first(classes_);
    const auto labelled = counts.subspan(classes_, classes_);
    const double total = std::reduce(labelled.begin(), labelled.end());
    const double correct = std::reduce(hits.begin(), hits.end());
    return {{.name = "accuracy", .value = total > 0.0 ? correct / total : 0.0},
            {.name = "f1",
             .value = f1_score(hits, labelled, counts.subspan(2 * classes_, classes_)),
             .title = "F1"}};
  }

 private:
  std::size_t classes_;
};

}  // namespace

double f1_score(double hits, double labelled, double predicted) {
  return labelled + predicted > 0.0 ? 2.0 * hits / (labelled + predicted) : 0.0;
}

double f1_score(std::span<const double> hits, std::span<const double> labelled,
                std::span<const double> predicted) {
  const auto of = [&](std::size_t c) { return f1_score(hits[c], labelled[c], predicted[c]); };
  if (hits.size() == 2) return of(1);
  double sum = 0.0;
  for (std::size_t c = 0; c < hits.size(); ++c) sum += of(c);
  return sum / static_cast<double>(hits.size());
}

std::int32_t class_of(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

std::shared_ptr<const EvaluationScores> class_scores(std::int64_t classes) {
  return std::make_shared<const ClassScores>(classes);
}

}  // namespace phalanx
