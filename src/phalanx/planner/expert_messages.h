#pragma once
// The closed forms of the messages with which tokens travel to their experts and back, beside which
// a plan's counted messages can be held.

#include <cstdint>
#include <optional>
#include <string>

#include "phalanx/base/dtype.h"
#include "phalanx/settings/train_config.h"

namespace phalanx {

// What a rank contributes to messages of a layer with experts in one pass of a microbatch, if all
// experts have equally many rows and take them in one round: bytes, with T tokens of the rank, k
// experts of a token, hidden size h, e expert- and etp expert-tensor-parallel ranks; and where a
// capacity C bounds the rows of the E experts, E C in place of T k.
struct ExpertMessage {
  std::string formula;
  std::int64_t bytes = 0;
};
struct ExpertMessages {
  // Rows to their experts, with probabilities and, where these travel, numbers of experts; in the
  // backward pass gradients of results.
  ExpertMessage dispatch, dispatch_backward;
  // Results back; in the backward pass gradients of rows and of probabilities.
  ExpertMessage combine, combine_backward;
};

// Of a resolved configuration whose layers compute in `dtype`; empty where tokens do not travel.
std::optional<ExpertMessages> expert_messages(const TrainConfig& config, DType dtype);

// A line for dispatch and one for combine, under what the letters stand for.
std::string to_text(const ExpertMessages& messages, const TrainConfig& config);

}  // namespace phalanx
