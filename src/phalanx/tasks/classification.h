#pragma once
// What a trained classifier says of texts, on one rank: predictions, and how good they are.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/ops/device_choice.h"
#include "phalanx/settings/train_config.h"
#include "phalanx/tasks/classification_samples.h"
#include "phalanx/tasks/classifier.h"
#include "phalanx/tokenizer/tokenizer.h"

namespace phalanx {

// How often each class was predicted where each was right: [label][prediction].
class Confusion {
 public:
  explicit Confusion(std::int64_t classes);
  void add(std::int32_t label, std::int32_t prediction);
  void add(const Confusion& other);

  std::int64_t total() const;
  std::int64_t correct() const;
  double f1() const;  // class_scores.h
  const std::vector<std::vector<std::int64_t>>& counts() const { return counts_; }

 private:
  std::vector<std::vector<std::int64_t>> counts_;
};

// " > |epoch: 3| metrics for NAME: correct / total = c / n = x.xxxx %", and of all sets together:
// Megatron-LM's lines (tasks/eval_utils.py).
std::string accuracy_line(std::int64_t epoch, const std::string& name, const Confusion& found);
std::string overall_line(std::int64_t epoch, const Confusion& found);

// As Megatron calls a validation file: what is behind MNLI or QQP in its path, else its name, with
// dashes for slashes and underscores.
std::string validation_name(const std::string& path);

// The loss of one sample.
double cross_entropy_of(std::span<const float> logits, std::int32_t label);

class Classifier {
 public:
  // Loads the weights; `config` is for inference (settings/train_config.h).
  Classifier(const TrainConfig& config, const ClassifierConfig& model, const Tokenizer& tokenizer,
             const CheckpointReader& checkpoint, const DeviceChoice& device);
  ~Classifier();

  // Logits by class. What is said of a sample depends on no other one. DataError where one is not a
  // number.
  std::vector<std::vector<float>> logits(std::span<const EncodedPair> samples);
  // Of all samples; `on_sample` is told of each, in their order, its prediction and logits.
  Confusion evaluate(
      const ClassificationSamples& samples,
      const std::function<void(std::int32_t, const std::vector<float>&)>& on_sample = nullptr);

 private:
  struct Engine;
  // Samples that are computed at once have one length, with padding: one of `lengths_`.
  std::int64_t padded(std::int64_t tokens) const;

  std::unique_ptr<Engine> engine_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace phalanx
