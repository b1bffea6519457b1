// The part of resolve() that is about low-rank adapters.

#include "phalanx/flag_table/train_flags.h"
#include "phalanx/rules/rules.h"
#include "phalanx/settings/adapter_settings.h"

namespace phalanx {

void check_adapters(const TrainConfig& config) {
  if (config.lora.rank > 0) {
    adapter_settings(config.lora, config.model);  // throws if it is contradictory
    return;
  }
  TrainConfig values = config;  // the table needs variables; they are only read
  TrainConfig plain;
  for (const TrainFlag& flag : lora_flags()) {
    const std::string text = text_of(flag.target(values));
    if (text == text_of(flag.target(plain))) continue;
    throw ConfigError("{} {} needs --lora-rank, the rank of the adapters", flag.spec.name, text);
  }
}

}  // namespace phalanx
