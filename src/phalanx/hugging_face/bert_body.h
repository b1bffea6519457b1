#pragma once
// What the architectures of BERT have in common, whatever their heads are: embeddings, layers and
// the pooler.

#include <nlohmann/json_fwd.hpp>

#include "phalanx/hugging_face/architecture.h"

namespace phalanx::hugging_face {

// All but the activation and the heads.
void read_bert_body(const ConfigFile& config, ModelArguments& settings);
void write_bert_body(const ModelArguments& settings, nlohmann::json& config, Faults& faults);
// A fault unless the norms stand behind the sub-layers (`post`), or before them.
void expect_bert_norms(const ModelArguments& settings, bool post, Faults& faults);
TensorTable bert_body_tensors(const ModelArguments& settings);

}  // namespace phalanx::hugging_face
