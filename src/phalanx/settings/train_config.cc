#include "phalanx/settings/train_config.h"

namespace phalanx {

TrainConfig for_inference(const TrainConfig& trained) {
  TrainConfig config{.family = trained.family,
                     .family_options = trained.family_options,
                     .imported = trained.imported,
                     .model = trained.model,
                     .experts = trained.experts,
                     .lora = trained.lora,
                     .layout = {},
                     .data = trained.data,
                     .tokenizer = trained.tokenizer,
                     .optimizer = {},
                     .run = {}};
  config.layout.micro_batch_size = 1;
  return config;
}

}  // namespace phalanx
