#pragma once
// Classification as a model family: a BERT's body under a new head, and tables of labelled texts.

#include <memory>
#include <string_view>

#include "phalanx/families/family.h"
#include "phalanx/tasks/classifier.h"

namespace phalanx {

// The model of a resolved configuration whose family this is.
ClassifierConfig classifier_config(const TrainConfig& config, std::int64_t vocabulary);

// The name of the family in a classifier's checkpoint.
inline constexpr std::string_view kClassifyFamily = "classify";
// Its options are ClassifyOptions, as text.
std::shared_ptr<const ModelFamily> classify_family();

}  // namespace phalanx
