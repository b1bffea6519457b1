#pragma once
// How good predictions of classes are, of counts of them.

#include <cstdint>
#include <memory>
#include <span>

#include "phalanx/families/evaluation_scores.h"

namespace phalanx {

// Of one class: 2 hits / (of the class + predicted so); 0 where there is neither.
double f1_score(double hits, double labelled, double predicted);
// By class. Of two classes that of class 1, else the mean over all.
double f1_score(std::span<const double> hits, std::span<const double> labelled,
                std::span<const double> predicted);

// The class of the largest of these; of equals the first.
std::int32_t class_of(std::span<const float> logits);

// "accuracy" and "f1" of the samples that a model with a nn::ClassificationHead is evaluated with.
std::shared_ptr<const EvaluationScores> class_scores(std::int64_t classes);

}  // namespace phalanx
