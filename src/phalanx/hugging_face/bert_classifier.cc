// BERT and MegatronBert with a linear layer on the pooled first row, which says which class a text
// is of. Labels are words: config.json's id2label.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "phalanx/base/error.h"
#include "phalanx/hugging_face/architecture.h"
#include "phalanx/hugging_face/bert_body.h"

namespace phalanx::hugging_face {
namespace {

constexpr std::int64_t kMostClasses = 1 << 20;

// The labels that config.json names, or else transformers' default names.
std::vector<std::string> read_labels(const ConfigFile& config) {
  std::vector<std::string> labels;
  const auto named = config.object("id2label");
  const std::int64_t count = config.integer("num_labels", 1, kMostClasses, named ? 0 : 2);
  if (named) {
    while (named->has(std::to_string(labels.size()))) {
      labels.push_back(named->text(std::to_string(labels.size())));
    }
    if (count != 0 && count != std::ssize(labels)) {
      throw DataError("{}: 'num_labels' is {}, but 'id2label' names {}, from 0 on", config.where(),
                      count, labels.size());
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) labels.push_back("LABEL_" + std::to_string(i));
  }
  if (labels.size() < 2) {
    throw ConfigError("{}: {} label: a model of one is a regression, which is not supported here",
                      config.where(), labels.size());
  }
  for (auto label = labels.begin(); label != labels.end(); ++label) {
    if (label->empty() || label->find_first_of("\t\r\n") != std::string::npos) {
      throw ConfigError("{}: 'id2label' {}: a label is a word or words, without tabs and line ends",
                        config.where(), label - labels.begin());
    }
    if (std::find(labels.begin(), label, *label) != label) {
      throw ConfigError("{}: 'id2label' has {} twice", config.where(), *label);
    }
  }
  return labels;
}

void read_classifier(const ConfigFile& config, ModelArguments& settings) {
  read_bert_body(config, settings);
  const std::string activation = config.text("hidden_act", "gelu");
  const bool is_exact = activation == "gelu";
  if (!is_exact && activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    throw ConfigError("{}: 'hidden_act' {} is not supported here: gelu and gelu_new are",
                      config.where(), activation);
  }
  settings.set("--no-bias-gelu-fusion", is_exact);
  const std::string problem = config.text("problem_type", "");
  if (!problem.empty() && problem != "single_label_classification") {
    throw ConfigError("{}: 'problem_type' {} is not supported here: single_label_classification is",
                      config.where(), problem);
  }
  const std::vector<std::string> labels = read_labels(config);
  settings.set("--labels", joined_words(labels));
  settings.set("--num-classes", std::ssize(labels));
  if (const auto numbers = config.object("label2id")) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const auto number = static_cast<std::int64_t>(i);
      if (numbers->integer(labels[i], 0, kMostClasses, number) == number) continue;
      config.warn("'label2id' contradicts 'id2label', which counts");
      break;
    }
  }
  for (const char* key : {"finetuning_task", "tie_word_embeddings"}) config.skip(key);
}

template <bool kPost>
void read_settings(const ConfigFile& config, ModelArguments& settings) {
  read_classifier(config, settings);
  settings.set("--post-layernorm", kPost);
}

void write_classifier(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  if (settings.text("--activation-func", "gelu") != "gelu") {
    faults.emplace_back("--activation-func: the layers' activation is a GeLU");
  }
  write_bert_body(settings, config, faults);
  config["hidden_act"] = settings.is_on("--no-bias-gelu-fusion") ? "gelu" : "gelu_new";
  config["classifier_dropout"] = nullptr;
  config["problem_type"] = "single_label_classification";
  const std::vector<std::string> labels = split_words(settings.text("--labels"));
  config["num_labels"] = labels.size();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    config["id2label"][std::to_string(i)] = labels[i];
    config["label2id"][labels[i]] = i;
  }
}

template <bool kPost>
void write_settings(const ModelArguments& settings, nlohmann::json& config, Faults& faults) {
  write_classifier(settings, config, faults);
  expect_bert_norms(settings, kPost, faults);
}

TensorTable classifier_tensors(const ModelArguments& settings) {
  TensorTable table = bert_body_tensors(settings);
  const std::int64_t classes = settings.integer("--num-classes");
  table.add(plain("classification_head.weight", "classifier.weight", {classes, settings.hidden()}));
  table.add(plain("classification_head.bias", "classifier.bias", {classes}));
  return table;
}

}  // namespace

const Architecture kBertClassifier = {.name = "BertForSequenceClassification",
                                      .model_type = "bert",
                                      .family = "classify",
                                      .read_config = read_settings<true>,
                                      .write_config = write_settings<true>,
                                      .tensors = classifier_tensors};
const Architecture kMegatronBertClassifier = {.name = "MegatronBertForSequenceClassification",
                                              .model_type = "megatron-bert",
                                              .family = "classify",
                                              .read_config = read_settings<false>,
                                              .write_config = write_settings<false>,
                                              .tensors = classifier_tensors};

}  // namespace phalanx::hugging_face
