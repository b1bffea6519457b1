#pragma once
// Measures of predicted classes, from counts.

#include <cstdint>
#include <memory>
#include <span>

#include "phalanx/families/evaluation_scores.h"

namespace phalanx {

// F1 of one class: 2 hits / (samples of the class + predictions of it); 0 where there is neither.
double f1_score(double hits, double labelled, double predicted);
// From counts by class: with two classes the F1 of class 1, else the mean of all classes.
double f1_score(std::span<const double> hits, std::span<const double> labelled,
                std::span<const double> predicted);

// The class with the largest score; of equal scores the first.
std::int32_t class_of(std::span<const float> logits);

// "accuracy" and "f1" of the evaluation of a model with a nn::ClassificationHead.
std::shared_ptr<const EvaluationScores> class_scores(std::int64_t classes);

}  // namespace phalanx
