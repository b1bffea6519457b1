#pragma once
// Loads a checkpoint into all ranks. Each reads its share of the files (load_plan.h), verifies it,
// and sends the others what they need of it. Beside the states a rank has one block in memory, what
// it sends of it, and one message.

#include <cstdint>
#include <set>
#include <string>

#include "phalanx/checkpoint/checkpoint_reader.h"
#include "phalanx/rank/rank.h"
#include "phalanx/saving/upcycling.h"

namespace phalanx {

struct LoadFacts {
  std::int64_t bytes_read = 0;  // from files, by all ranks
  std::int64_t bytes_sent = 0;  // between ranks, before weights are gathered
  double seconds = 0;
  // What a rank could not read, with its number; empty: all is loaded. The same on all ranks.
  std::string fault;
};

struct LoadOptions {
  bool with_optimizer = true;
  bool in_shares = true;              // else each rank reads all that it needs, and nothing is sent
  std::set<std::string> absent = {};  // parameters that are left as they are
  // What makes experts of the checkpoint's weights; null: nothing. It must outlive the call.
  const Upcycling* upcycling = nullptr;
};

// All ranks call it at the same time. The states that are loaded must have been cleared. Where one
// rank finds damage, all return its fault, and the states of none may be used. ConfigError where
// the checkpoint does not have what the model asks for.
LoadFacts load_states(const CheckpointReader& reader, Rank& rank, const LoadOptions& options);

}  // namespace phalanx
