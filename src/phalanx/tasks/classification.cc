#include "phalanx/tasks/classification.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/ops/cpu/cpu_backend.h"
#include "phalanx/ops/meta/meta_backend.h"
#include "phalanx/train/batch_memory.h"
#include "phalanx/train/inference_model.h"

namespace phalanx {
namespace {

std::string share_of(std::int64_t correct, std::int64_t total) {
  const double percent =
      total > 0 ? 100.0 * static_cast<double>(correct) / static_cast<double>(total) : 0.0;
  return fmt::format("correct / total = {} / {} = {:.4f} %", correct, total, percent);
}

}  // namespace

Confusion::Confusion(std::int64_t classes)
    : counts_(static_cast<std::size_t>(classes),
              std::vector<std::int64_t>(static_cast<std::size_t>(classes), 0)) {}

void Confusion::add(std::int32_t label, std::int32_t prediction) {
  ++counts_[static_cast<std::size_t>(label)][static_cast<std::size_t>(prediction)];
}

void Confusion::add(const Confusion& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    for (std::size_t j = 0; j < counts_.size(); ++j) counts_[i][j] += other.counts_[i][j];
  }
}

std::int64_t Confusion::total() const {
  std::int64_t sum = 0;
  for (const auto& row : counts_) {
    for (const std::int64_t count : row) sum += count;
  }
  return sum;
}

std::int64_t Confusion::correct() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) sum += counts_[i][i];
  return sum;
}

double Confusion::f1(std::int64_t of_class) const {
  const auto c = static_cast<std::size_t>(of_class);
  std::int64_t labelled = 0, predicted = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    labelled += counts_[c][i];
    predicted += counts_[i][c];
  }
  if (labelled + predicted == 0) return 0.0;
  return 2.0 * static_cast<double>(counts_[c][c]) / static_cast<double>(labelled + predicted);
}

double Confusion::f1() const {
  const std::int64_t classes = std::ssize(counts_);
  if (classes == 2) return f1(1);
  double sum = 0.0;
  for (std::int64_t c = 0; c < classes; ++c) sum += f1(c);
  return sum / static_cast<double>(classes);
}

std::string accuracy_line(std::int64_t epoch, const std::string& name, const Confusion& found) {
  return fmt::format(" > |epoch: {}| metrics for {}: {}", epoch, name,
                     share_of(found.correct(), found.total()));
}

std::string overall_line(std::int64_t epoch, const Confusion& found) {
  return fmt::format(" >> |epoch: {}| overall: {}", epoch,
                     share_of(found.correct(), found.total()));
}

std::string validation_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view task : {"MNLI", "QQP"}) {
    const std::size_t at = path.rfind(task);
    if (at != std::string::npos && at + task.size() < path.size()) {
      name = path.substr(at + task.size());
    }
  }
  constexpr std::string_view kEnding = ".tsv";
  if (name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  name.erase(0, std::min(name.find_first_not_of('/'), name.size()));
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == '_'; }, '-');
  return name;
}

struct Classifier::Engine {
  Engine(const ClassifierModel& classifier, std::unique_ptr<Backend> backend,
         InferenceArenas arenas)
      : schema(classifier.batch_schema()),
        model(classifier, std::move(backend), std::move(arenas)) {}

  void forward(const Sample& sample, std::span<float> logits) {
    HostBatch host(schema, 1);
    host.put(0, 0, sample);
    Arena& workspace = model.arenas().workspace;
    const WorkspaceScope scope(workspace);
    const BatchMemory memory(schema, 1, 1, workspace);
    memory.upload(model.context(), 0, host);
    const Tensor row = workspace.allocate(DType::kF32, {1, std::ssize(logits)});
    model.infer(memory[0], {.logits = row});
    model.read_back(row, logits);
  }

  BatchSchema schema;
  InferenceModel model;
};

Classifier::Classifier(const TrainConfig& config, const ClassifierConfig& model,
                       const CheckpointReader& checkpoint, cpu::ProductPrecision products)
    : classes_(model.classes) {
  const ClassifierModel classifier(model);
  const auto threads = static_cast<int>(config.layout.threads_per_rank);
  Engine rehearsal(classifier, make_meta_backend(threads, products), InferenceArenas::planning());
  std::vector<float> none(static_cast<std::size_t>(classes_));
  rehearsal.forward(Sample(rehearsal.schema), none);
  expect_room(config, rehearsal.model.arenas(), "End other programs");
  engine_ = std::make_unique<Engine>(classifier, make_cpu_backend(threads, products),
                                     rehearsal.model.arenas().sized());
  engine_->model.load(checkpoint);
}

Classifier::~Classifier() = default;

std::vector<float> Classifier::logits(const ClassificationSamples& samples, std::int64_t index) {
  Sample sample(engine_->schema);
  std::vector<double> counts(static_cast<std::size_t>(samples.losses()));
  samples.fetch(index, sample, counts);
  std::vector<float> result(static_cast<std::size_t>(classes_));
  engine_->forward(sample, result);
  for (const float logit : result) {
    if (!std::isfinite(logit)) {
      throw DataError("a logit of sample {} is not a number: the weights are not sound", index + 1);
    }
  }
  return result;
}

Confusion Classifier::evaluate(
    const ClassificationSamples& samples,
    const std::function<void(std::int32_t, const std::vector<float>&)>& on_sample) {
  Confusion found(classes_);
  for (std::int64_t i = 0; i < samples.size(); ++i) {
    const std::vector<float> scores = logits(samples, i);
    const auto prediction =
        static_cast<std::int32_t>(std::ranges::max_element(scores) - scores.begin());
    found.add(samples.label(i), prediction);
    if (on_sample) on_sample(prediction, scores);
  }
  return found;
}

}  // namespace phalanx
