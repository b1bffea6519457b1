// The parts of resolve() that are about the family of the model.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/config_views.h"

namespace phalanx {

void check_family_flags(const TrainConfig& config, Faults& faults) {
  // The table needs variables, not constants; they are only read.
  TrainConfig values = config;
  TrainConfig plain;
  for (const TrainFlag& flag : train_flags()) {
    if (flag.target == nullptr || is_of_family(flag, config.model.family)) continue;
    const std::string text = text_of(flag.target(values));
    if (text == text_of(flag.target(plain))) continue;
    const bool is_switch = type_of(flag.target(values), flag.spec.type) == FlagType::kSwitch;
    faults.add(fmt::format("{}{}{} is a flag of {}, not of {}: leave it out", flag.spec.name,
                           is_switch ? "" : " ", is_switch ? "" : text,
                           fmt::join(words_of(flag.families), " and "), config.model.family));
  }
}

void resolve_encoder_ranks(LayoutConfig& l) {
  std::int64_t& tensor = l.encoder_tensor_model_parallel_size;
  if (tensor != 0 && tensor != l.tensor_model_parallel_size) {
    throw ConfigError(
        "--encoder-tensor-model-parallel-size {} is not --tensor-model-parallel-size {}: the word "
        "and position tables, which encoder and decoder share, would be cut in two ways, and an "
        "encoder rank would feed several decoder ranks, whose equal gradients it may not add up. "
        "Leave it out; phalanx grid shows the groups of such a job",
        tensor, l.tensor_model_parallel_size);
  }
  tensor = 0;
  std::int64_t& encoder = l.encoder_pipeline_model_parallel_size;
  if (encoder == 0) return;
  if (l.pipeline_model_parallel_split_rank != 0) {
    throw ConfigError(
        "--encoder-pipeline-model-parallel-size {} and --pipeline-model-parallel-split-rank {} "
        "exclude each other: give one",
        encoder, l.pipeline_model_parallel_split_rank);
  }
  l.pipeline_model_parallel_split_rank = encoder;
  l.pipeline_model_parallel_size += encoder;
  encoder = 0;
}

}  // namespace phalanx
