#pragma once
// The families that come with Phalanx.

#include <memory>

#include "phalanx/families/family.h"
#include "phalanx/model/bert.h"
#include "phalanx/model/t5.h"

namespace phalanx {

std::shared_ptr<const ModelFamily> gpt_family();
std::shared_ptr<const ModelFamily> bert_family();
std::shared_ptr<const ModelFamily> t5_family();

// The models' configurations, from a resolved one of the run.
BertConfig bert_config(const TrainConfig& config, std::int64_t tokenizer_size);
T5Config t5_config(const TrainConfig& config, std::int64_t tokenizer_size);

}  // namespace phalanx
