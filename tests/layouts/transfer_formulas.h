#pragma once
// What a rank reads from its files and writes to them in a training step, in closed form: of each
// kind the bytes of what lies there, so many times (M microbatches; docs/zero.md):
//
//   exp_avg, exp_avg_sq, main parameters    read once, written once
//   gradients, where they are cut           written M times, read M + 1 times: by all microbatches
//                                           but the first, by the norm, by the update
//   parameters                              read as often as they are gathered, and by the update
//                                           where they are the main ones; written once
//
// In files are the buckets' own parts, the first ones until --offload-fraction of all is there;
// never those of parameters that stay, or whose gradients are summed over other ranks once more.

#include "message_formulas.h"

namespace phalanx {

TransferTotals step_transfers(const TrainConfig& config, std::int64_t vocabulary, int rank);

}  // namespace phalanx
