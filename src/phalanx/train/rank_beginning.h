#pragma once
// What a rank begins a run with: its memory, and the state it loads or draws.

#include "phalanx/saving/memory_snapshots.h"
#include "phalanx/start/run_setup.h"
#include "phalanx/train/run_end.h"

namespace phalanx {

// The planned arenas and the folders of files. StoppedEarly where a signal comes meanwhile.
RankArenas arenas_of_run(const RunSetup& setup, Communicator& world, Backend& backend,
                         ArenaMemory& memory, bool from_checkpoint, const StopToken& stop);

// The run's snapshots in memory. The setup must outlive them.
MemorySnapshots snapshots_of(const RunSetup& setup, Rank& rank);

// Loads the checkpoint into the rank, or draws the weights where it is null. Then the first rank
// claims --save. UnreadableCheckpoint.
RunState begin_state(const RunSetup& setup, const CheckpointReader* checkpoint, Rank& rank,
                     StepTimers& timers);

}  // namespace phalanx
