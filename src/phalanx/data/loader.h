#pragma once
// Microbatches ahead of the steps that need them: threads read the samples of a source and leave
// whole microbatches in a ring, which is a global batch long. What comes out depends on the source
// and the order of samples alone, not on threads or time. Context-parallel ranks read the same
// samples, whole, and each keeps its own rows of them.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "phalanx/base/threads.h"
#include "phalanx/data/host_batch.h"
#include "phalanx/data/sample_source.h"
#include "phalanx/mesh/context_cut.h"

namespace phalanx {

struct BatchLoaderOptions {
  std::int64_t micro_batch_size = 1;
  // Microbatches that are read before they are asked for: of a global batch. Threads wake up when
  // half of them are left.
  int ahead = 1;
  int workers = 2;  // --num-workers; 0: the thread that asks reads, when it asks
  // How samples are cut among context-parallel ranks, and which of them reads.
  ContextCut cut = {};
  int context_rank = 0;
  // The cores that workers run on; empty: those of the thread that asks first.
  std::vector<int> cores = {};
  ThreadStarter start_thread = phalanx::start_thread;
};

// One thread asks. Threads, and the memory of the ring, are there from the first question on, so a
// loader that is not needed costs nothing; none is added later.
class BatchLoader {
 public:
  // The samples of the next microbatch, as many as it has; asked in order, by one thread at a time.
  using NextSamples = std::function<std::vector<SampleId>()>;

  BatchLoader(std::shared_ptr<const SampleSource> source, NextSamples next_samples,
              BatchLoaderOptions options);
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  // Its threads end with the sample that they are at.
  ~BatchLoader();

  // The next microbatch, which stays until this or counts() is called. What the source or the order
  // of samples threw for one of its samples is thrown here, now and whenever it is asked for again;
  // SystemError where threads are refused.
  const HostBatch& next();
  // The unmasked tokens of each loss in the next `microbatches` (at most `ahead`), which are all
  // read then; of samples that are cut, those in the rank's own rows. Errors as next(), of any of
  // these.
  std::vector<double> counts(int microbatches);

  // The bytes of the ring, for batches of this schema: the microbatches ahead and the one in use.
  // Without threads this is an upper bound; without counts() it is one microbatch.
  static std::int64_t bytes(const BatchSchema& schema, const BatchLoaderOptions& options) {
    const std::int64_t batches = options.ahead + (options.workers > 0 ? 1 : 0);
    return batches * schema.bytes(options.micro_batch_size);
  }

 private:
  struct Slot {
    HostBatch batch;
    std::vector<SampleId> samples;
    std::vector<double> counts;  // by loss
    std::exception_ptr error;
    bool is_ready = false;
  };
  // What a thread reads with.
  struct Reader {
    explicit Reader(const SampleSource& source);
    Sample sample;
    std::vector<double> counts;
  };

  void start();
  void start_threads();
  void end_threads();
  void add_slots(int count);
  void work(Reader& reader);
  bool may_claim() const;
  Slot& claim();
  void fill(Slot& slot, Reader& reader) const;
  void finish(Slot& slot);
  Slot& slot_of(std::int64_t microbatch) {
    return slots_[static_cast<std::size_t>(microbatch) % slots_.size()];
  }
  // Until it is read, here where nobody has begun; throws its error. Those before it were waited
  // for.
  Slot& wait_for(std::int64_t microbatch, std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<const SampleSource> source_;
  const NextSamples next_samples_;
  const BatchLoaderOptions options_;
  std::vector<std::unique_ptr<Reader>> readers_;  // of each thread, then of the one that asks

  std::mutex mutex_;  // of all below
  std::condition_variable is_room_, is_ready_;
  std::vector<Slot> slots_;
  std::int64_t claimed_ = 0;  // microbatches that somebody has begun to read
  std::int64_t taken_ = 0;    // microbatches that were asked for; the last one may still be in use
  bool has_failed_ = false;   // nobody reads on
  std::atomic<bool> ends_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace phalanx
