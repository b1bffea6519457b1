#include "phalanx/data/loader.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <system_error>
#include <utility>

#include "phalanx/base/cpu_affinity.h"
#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// With few cores the steps have precedence, but readers must not starve beside other programs.
constexpr int kNicer = 5;

// If the system refuses this, it only costs time.
void become_a_reader(const std::vector<int>& cores) {
  // With the batch policy, a thread that wakes up does not displace the step that woke it.
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);
  const auto self = static_cast<id_t>(::gettid());
  ::setpriority(PRIO_PROCESS, self, ::getpriority(PRIO_PROCESS, self) + kNicer);
  if (!cores.empty()) bind_thread(cores);
}

}  // namespace

BatchLoader::Reader::Reader(const SampleSource& source)
    : sample(source.schema()), counts(static_cast<std::size_t>(source.losses())) {}

BatchLoader::BatchLoader(std::shared_ptr<const SampleSource> source, NextSamples next_samples,
                         BatchLoaderOptions options)
    : source_(std::move(source)),
      next_samples_(std::move(next_samples)),
      options_(std::move(options)) {
  PHALANX_CHECK(options_.micro_batch_size > 0 && options_.ahead > 0 && options_.workers >= 0,
                "a loader of {} samples, {} ahead, with {} workers", options_.micro_batch_size,
                options_.ahead, options_.workers);
  PHALANX_CHECK(options_.cut.ranks() == 1 || source_->losses() == 1,
                "samples of {} losses are cut among ranks", source_->losses());
}

BatchLoader::~BatchLoader() { end_threads(); }

void BatchLoader::end_threads() {
  ends_ = true;
  // After this lock every thread has either seen the stop or is waiting.
  { const std::lock_guard lock(mutex_); }
  is_room_.notify_all();
  threads_.clear();
}

const HostBatch& BatchLoader::next() {
  start();
  std::unique_lock lock(mutex_);
  Slot& slot = wait_for(taken_, lock);
  ++taken_;
  // Waking a thread is the most expensive part for the step, so it is done for half a ring at a
  // time.
  const bool is_low = claimed_ - taken_ <= options_.ahead / 2;
  lock.unlock();
  if (is_low) is_room_.notify_all();
  return slot.batch;
}

std::vector<double> BatchLoader::counts(int microbatches) {
  PHALANX_CHECK(microbatches >= 0 && microbatches <= options_.ahead,
                "the counts of {} microbatches of a loader that is {} ahead", microbatches,
                options_.ahead);
  start();
  is_room_.notify_all();
  std::unique_lock lock(mutex_);
  // Without threads, only counts() reads ahead.
  if (options_.workers == 0) add_slots(options_.ahead);
  std::vector<double> sums(static_cast<std::size_t>(source_->losses()), 0.0);
  for (std::int64_t i = taken_; i < taken_ + microbatches; ++i) {
    const Slot& slot = wait_for(i, lock);
    std::ranges::transform(sums, slot.counts, sums.begin(), std::plus<>());
  }
  return sums;
}

void BatchLoader::start() {
  if (!slots_.empty()) return;
  const bool has_threads = options_.workers > 0;
  for (int i = 0; i < options_.workers + 1; ++i) {
    readers_.push_back(std::make_unique<Reader>(*source_));
  }
  add_slots(has_threads ? options_.ahead + 1 : 1);
  if (has_threads) start_threads();
}

void BatchLoader::start_threads() {
  // All threads or none, because the run was planned with all of them.
  try {
    for (int i = 0; i < options_.workers; ++i) {
      Reader& reader = *readers_[static_cast<std::size_t>(i)];
      threads_.push_back(options_.start_thread([this, &reader] {
        become_a_reader(options_.cores);
        work(reader);
      }));
    }
  } catch (const std::system_error& refused) {
    const auto started = static_cast<int>(threads_.size());
    end_threads();
    throw_threads_refused(started, options_.workers, refused);
  }
}

void BatchLoader::add_slots(int count) {
  while (std::ssize(slots_) < count) {
    Slot& slot = slots_.emplace_back();
    slot.batch = HostBatch(source_->schema(), options_.micro_batch_size, options_.cut,
                           options_.context_rank);
    slot.counts.resize(static_cast<std::size_t>(source_->losses()));
  }
}

bool BatchLoader::may_claim() const { return claimed_ < taken_ + options_.ahead; }

void BatchLoader::work(Reader& reader) {
  std::unique_lock lock(mutex_);
  while (true) {
    is_room_.wait(lock, [&] { return ends_ || has_failed_ || may_claim(); });
    if (ends_ || has_failed_) return;
    Slot& slot = claim();
    lock.unlock();
    fill(slot, reader);
    lock.lock();
    finish(slot);
  }
}

// Gives the calling thread the next microbatch to read. If its samples cannot be found, the
// microbatch has an error.
BatchLoader::Slot& BatchLoader::claim() {
  Slot& slot = slot_of(claimed_++);
  slot.is_ready = false;
  slot.error = nullptr;
  try {
    slot.samples = next_samples_();
  } catch (...) {
    slot.error = std::current_exception();
  }
  return slot;
}

void BatchLoader::fill(Slot& slot, Reader& reader) const {
  if (slot.error) return;
  try {
    PHALANX_CHECK(std::ssize(slot.samples) == options_.micro_batch_size,
                  "{} samples of a microbatch of {}", slot.samples.size(),
                  options_.micro_batch_size);
    std::ranges::fill(slot.counts, 0.0);
    for (std::int64_t place = 0; place < options_.micro_batch_size && !ends_; ++place) {
      const SampleId& id = slot.samples[static_cast<std::size_t>(place)];
      source_->fetch(id.index, reader.sample, reader.counts);
      slot.batch.put(place, id.number, reader.sample);
      std::ranges::transform(slot.counts, reader.counts, slot.counts.begin(), std::plus<>());
    }
    if (options_.cut.ranks() > 1) {
      // What samples count for as a whole is divided among the ranks.
      const auto mask = std::as_const(slot.batch).column<float>("loss_mask");
      slot.counts[0] = std::accumulate(mask.begin(), mask.end(), 0.0);
    }
  } catch (...) {
    slot.error = std::current_exception();
  }
}

void BatchLoader::finish(Slot& slot) {
  slot.is_ready = true;
  is_ready_.notify_one();
  if (!slot.error) return;
  // Earlier microbatches are being read by other threads; later ones are not needed.
  has_failed_ = true;
  is_room_.notify_all();
}

BatchLoader::Slot& BatchLoader::wait_for(std::int64_t microbatch,
                                         std::unique_lock<std::mutex>& lock) {
  Slot& slot = slot_of(microbatch);
  if (claimed_ == microbatch) {
    // No thread has begun it, so this one reads it.
    claim();
    lock.unlock();
    fill(slot, *readers_.back());
    lock.lock();
    finish(slot);
  }
  is_ready_.wait(lock, [&] { return slot.is_ready; });
  if (slot.error) std::rethrow_exception(slot.error);
  return slot;
}

}  // namespace phalanx
