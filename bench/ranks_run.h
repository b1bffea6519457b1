#pragma once
// Training steps of a GPT, with random tokens if no others are given, on ranks that are threads of
// this process: for benches that run layouts by turns.

#include <cstdint>
#include <functional>
#include <vector>

#include "phalanx/data/host_batch.h"
#include "phalanx/flags/flag_set.h"
#include "phalanx/rehearsal/memory_plan.h"
#include "phalanx/settings/train_config.h"

namespace phalanx::bench {

struct GptSize {
  std::int64_t layers = 4;
  std::int64_t hidden = 512;
  std::int64_t heads = 8;
  std::int64_t sequence = 256;
  std::int64_t vocabulary = 8192;
  bool bf16 = false;

  void add_to(FlagSet& flags);
  // Without dropout, of one thread a rank; what else it needs is left open.
  TrainConfig config() const;
};

// Of the first rank.
struct RanksRun {
  MemoryPlan plan;
  std::vector<double> seconds;       // of each timed step
  std::vector<double> pass_seconds;  // of it: forward and backward
  std::vector<double> file_seconds;  // of it: waiting for files
};

// A microbatch of the samples from `first` on.
using MakeBatch = std::function<HostBatch(std::int64_t first, std::int64_t samples)>;

// `config` is resolved. One step of warm-up comes first. Without `make_batch` tokens are random.
RanksRun run_on_ranks(const TrainConfig& config, std::int64_t vocabulary, std::int64_t steps,
                      const MakeBatch& make_batch = nullptr);

double median(std::vector<double> values);
void append(std::vector<double>& all, const std::vector<double>& more);

}  // namespace phalanx::bench
