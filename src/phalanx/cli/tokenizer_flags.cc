#include "phalanx/cli/tokenizer_flags.h"

#include "phalanx/train/flags.h"

namespace phalanx {

void TokenizerFlags::add_to(FlagSet& flags) {
  for (const TrainFlag& flag : tokenizer_flags()) flags.add(flag.spec, flag.target(config_));
}

}  // namespace phalanx
