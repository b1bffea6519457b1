#include "phalanx/cli/tokenizer_flags.h"

#include <algorithm>

#include "phalanx/flag_table/train_flags.h"

namespace phalanx {

void TokenizerFlags::add_to(FlagSet& flags) {
  for (const TrainFlag& flag : tokenizer_flags()) flags.add(flag.spec, flag.target(config_));
}

bool TokenizerFlags::names_tokenizer(const FlagSet& flags) {
  return std::ranges::any_of(tokenizer_flags(), [&](const TrainFlag& flag) {
    return flag.spec.name != "--vocab-size" && flags.given(flag.spec.name);
  });
}

}  // namespace phalanx
