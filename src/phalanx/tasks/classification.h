#pragma once
// A trained classifier on one rank: its predictions for texts, and how good they are.

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

class InferenceModel;

// How often each class was predicted for each label: [label][prediction].
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

// Megatron-LM's lines (tasks/eval_utils.py) of one set, " > |epoch: 3| metrics for NAME: correct /
// total = c / n = x.xxxx %", and of all sets together.
std::string accuracy_line(std::int64_t epoch, const std::string& name, const Confusion& found);
std::string overall_line(std::int64_t epoch, const Confusion& found);

// Megatron's name for a validation file: the part of its path behind MNLI or QQP, else the file's
// name, with dashes for slashes and underscores.
std::string validation_name(const std::string& path);

// The loss of one sample.
double cross_entropy_of(std::span<const float> logits, std::int32_t label);

class Classifier {
 public:
  // Loads the weights; `config` is for inference (settings/train_config.h).
  Classifier(const TrainConfig& config, const ClassifierConfig& model, const Tokenizer& tokenizer,
             const CheckpointReader& checkpoint, const DeviceChoice& device);
  ~Classifier();

  // Logits by class, for each sample; they do not depend on the other samples. DataError where one
  // is not a number.
  std::vector<std::vector<float>> logits(std::span<const EncodedPair> samples);
  // Counts all samples. `on_sample` gets the prediction and the logits of each, in their order.
  Confusion evaluate(
      const ClassificationSamples& samples,
      const std::function<void(std::int32_t, const std::vector<float>&)>& on_sample = nullptr);

 private:
  // Samples that are computed at once are padded to one length: one of `lengths_`.
  std::int64_t padded(std::int64_t tokens) const;

  std::int64_t classes_;
  std::int32_t pad_;
  std::vector<std::int64_t> lengths_;
  std::unique_ptr<InferenceModel> model_;
};

}  // namespace phalanx
