#include "phalanx/tasks/classification.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string_view>

#include "phalanx/base/error.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/inference/inference_model.h"
#include "phalanx/tasks/class_scores.h"

namespace phalanx {
namespace {

std::string share_of(std::int64_t correct, std::int64_t total) {
  const double percent =
      total > 0 ? 100.0 * static_cast<double>(correct) / static_cast<double>(total) : 0.0;
  return fmt::format("correct / total = {} / {} = {:.4f} %", correct, total, percent);
}

// The most rows of a batch of several samples, padding included.
constexpr std::int64_t kMostRows = 2048;
constexpr std::int64_t kMostSamples = 32;

// The most samples that are computed at once; smaller batches have half as many, a quarter and so
// on.
std::int64_t largest_batch(std::int64_t length) {
  std::int64_t samples = kMostSamples;
  while (samples > 1 && samples * length > kMostRows) samples /= 2;
  return samples;
}

// Powers of two and the values half-way between them: few lengths are rehearsed, little is padded.
std::vector<std::int64_t> lengths_up_to(std::int64_t sequence) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t power = 16; power < sequence; power *= 2) {
    lengths.push_back(power);
    if (power * 3 / 2 < sequence) lengths.push_back(power * 3 / 2);
  }
  lengths.push_back(sequence);
  return lengths;
}

// [samples, classes], of sequences of this length.
std::vector<float> forward(InferenceModel& model, std::span<const EncodedPair* const> pairs,
                           std::int64_t length, std::int32_t pad, std::int64_t classes) {
  const BatchSchema schema = classification_schema(length);
  HostBatch host(schema, std::ssize(pairs));
  Sample sample(schema);
  for (std::int64_t i = 0; i < std::ssize(pairs); ++i) {
    fill_sample(*pairs[static_cast<std::size_t>(i)], 0, pad, schema, sample);
    host.put(i, 0, sample);
  }
  return model.answer(host, {.logits = {std::ssize(pairs), classes}}).logits;
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

double Confusion::f1() const {
  std::vector<double> hits(counts_.size()), labelled(counts_.size()), predicted(counts_.size());
  for (std::size_t label = 0; label < counts_.size(); ++label) {
    hits[label] = static_cast<double>(counts_[label][label]);
    for (std::size_t prediction = 0; prediction < counts_.size(); ++prediction) {
      const auto count = static_cast<double>(counts_[label][prediction]);
      labelled[label] += count;
      predicted[prediction] += count;
    }
  }
  return f1_score(hits, labelled, predicted);
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

Classifier::Classifier(const TrainConfig& config, const ClassifierConfig& model,
                       const Tokenizer& tokenizer, const CheckpointReader& checkpoint,
                       const DeviceChoice& device)
    : classes_(model.classes),
      pad_(ClassificationTokens(tokenizer).pad),
      lengths_(lengths_up_to(model.bert.sequence)) {
  model_ = load_rehearsed(config, ClassifierModel(model), checkpoint, device, "End other programs",
                          [&](InferenceModel& rehearsal) {
                            const EncodedPair nothing;
                            for (const std::int64_t length : lengths_) {
                              for (std::int64_t samples = largest_batch(length); samples > 0;
                                   samples /= 2) {
                                const std::vector<const EncodedPair*> pairs(
                                    static_cast<std::size_t>(samples), &nothing);
                                forward(rehearsal, pairs, length, pad_, classes_);
                              }
                            }
                          });
}

Classifier::~Classifier() = default;

std::int64_t Classifier::padded(std::int64_t tokens) const {
  return *std::ranges::lower_bound(lengths_, tokens);
}

std::vector<std::vector<float>> Classifier::logits(std::span<const EncodedPair> samples) {
  std::map<std::int64_t, std::vector<std::size_t>> by_length;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    by_length[padded(std::ssize(samples[i].tokens))].push_back(i);
  }
  std::vector<std::vector<float>> result(samples.size());
  for (const auto& [length, numbers] : by_length) {
    auto batch = static_cast<std::size_t>(largest_batch(length));
    for (std::size_t done = 0; done < numbers.size(); done += batch) {
      while (batch > numbers.size() - done) batch /= 2;
      std::vector<const EncodedPair*> pairs;
      for (std::size_t i = 0; i < batch; ++i) pairs.push_back(&samples[numbers[done + i]]);
      const std::vector<float> rows = forward(*model_, pairs, length, pad_, classes_);
      const auto classes = static_cast<std::size_t>(classes_);
      for (std::size_t i = 0; i < batch; ++i) {
        const auto row = std::span(rows).subspan(i * classes, classes);
        if (!std::ranges::all_of(row, [](float logit) { return std::isfinite(logit); })) {
          throw DataError("a logit is not a number: the weights are not sound");
        }
        result[numbers[done + i]].assign(row.begin(), row.end());
      }
    }
  }
  return result;
}

Confusion Classifier::evaluate(
    const ClassificationSamples& samples,
    const std::function<void(std::int32_t, const std::vector<float>&)>& on_sample) {
  constexpr std::size_t kAtOnce = 256;
  const std::span<const EncodedPair> pairs = samples.pairs();
  Confusion found(classes_);
  for (std::size_t begin = 0; begin < pairs.size(); begin += kAtOnce) {
    const auto some = pairs.subspan(begin, std::min(kAtOnce, pairs.size() - begin));
    std::size_t number = begin;
    for (const std::vector<float>& scores : logits(some)) {
      const std::int32_t prediction = class_of(scores);
      found.add(samples.label(static_cast<std::int64_t>(number++)), prediction);
      if (on_sample) on_sample(prediction, scores);
    }
  }
  return found;
}

double cross_entropy_of(std::span<const float> logits, std::int32_t label) {
  const auto largest = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return largest + std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(label)]);
}

}  // namespace phalanx
