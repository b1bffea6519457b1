#pragma once
// What the architectures of BERT have in common, with any head: embeddings, layers and the pooler.

#include <nlohmann/json_fwd.hpp>

#include "phalanx/hugging_face/architecture.h"

namespace phalanx::hugging_face {

// Reads all settings except the activation and the heads.
void read_bert_body(const ConfigFile& config, ModelArguments& settings);
void write_bert_body(const ModelArguments& settings, nlohmann::json& config, Faults& faults);
// Adds a fault unless the norms are after the sub-layers (`post`) or before them (not `post`).
void expect_bert_norms(const ModelArguments& settings, bool post, Faults& faults);
TensorTable bert_body_tensors(const ModelArguments& settings);

}  // namespace phalanx::hugging_face
