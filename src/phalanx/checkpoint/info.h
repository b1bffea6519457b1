#pragma once
// `phalanx checkpoint info`: what is in a checkpoint, from its manifest.

#include <string>

#include "phalanx/checkpoint/checkpoint_reader.h"

namespace phalanx {

// {"directory", "iteration", "consumed_train_samples", "consumed_valid_samples", "phalanx_version",
// "parameters", "tensors", "bytes", "has_optimizer", "optimizer_states", "adam_step", "loss_scale",
// "matmul_precision", "threads_per_rank", "seed", "requested_samples", "arguments", "base",
// "files", "parts", "input_files", "data_blocks"} and a newline.
std::string info_json(const CheckpointReader& reader);
std::string info_text(const CheckpointReader& reader);

}  // namespace phalanx
