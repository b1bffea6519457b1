#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bench_data.h"
#include "phalanx/base/text_batches.h"
#include "phalanx/data/gpt_dataset.h"
#include "phalanx/data/gpt_samples.h"
#include "phalanx/data/indexed_dataset.h"
#include "phalanx/data/indexed_dataset_writer.h"
#include "phalanx/data/loader.h"

namespace phalanx::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSequenceLength = 1024;
constexpr std::int64_t kMicroBatch = 4;
constexpr int kAhead = 8;
constexpr int kSteps = 200;
constexpr double kNoticed = 1e-4;  // seconds: a shorter wait is a lock's

std::shared_ptr<const SampleSource> make_source(const DataOptions& options) {
  const std::string prefix = options.directory / "loaded";
  IndexedDatasetWriter writer(prefix, TokenType::kU16);
  std::vector<std::int32_t> ids(700);
  std::iota(ids.begin(), ids.end(), 0);
  for (int document = 0; document < 10000; ++document) {
    writer.add_sequence(std::span(ids).first(100 + static_cast<std::size_t>(document) % 600));
    writer.end_document();
  }
  writer.commit();
  const auto data = std::make_shared<const IndexedDataset>(prefix);
  const GptIndexOptions order{.sequence_length = kSequenceLength,
                              .samples = kMicroBatch * (kSteps + kAhead)};
  return std::make_shared<const GptSamples>(
      std::make_shared<const GptDataset>(data, IndexRange{0, data->sequences()}, 50257, order),
      GptBatchOptions{}, gpt_batch_schema(kSequenceLength));
}

// Seconds that each step waits for its batch when it computes for `compute` seconds.
std::vector<double> waits(const std::shared_ptr<const SampleSource>& source, int workers,
                          double compute) {
  std::int64_t next = 0;
  const auto next_samples = [&] {
    std::vector<SampleId> samples;
    for (std::int64_t i = 0; i < kMicroBatch; ++i, ++next) {
      samples.push_back({.number = next, .index = next % source->size()});
    }
    return samples;
  };
  BatchLoader loader(source, next_samples,
                     {.micro_batch_size = kMicroBatch, .ahead = kAhead, .workers = workers});
  std::vector<double> waited;
  for (int step = 0; step < kSteps; ++step) {
    const auto begin = Clock::now();
    loader.next();
    waited.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    if (compute > 0) std::this_thread::sleep_for(std::chrono::duration<double>(compute));
  }
  return waited;
}

}  // namespace

void measure_loading(const DataOptions& options) {
  const auto source = make_source(options);
  const auto tokens = static_cast<double>(kMicroBatch * kSequenceLength);
  for (std::int64_t workers = 0; workers <= options.workers; ++workers) {
    const auto threads = static_cast<int>(workers);
    std::vector<double> all = waits(source, threads, 0);
    const double rate = tokens * kSteps / std::accumulate(all.begin(), all.end(), 0.0);
    std::vector<double> waited = waits(source, threads, tokens / options.tokens_per_second);
    waited.erase(waited.begin());  // the first batch has nothing to hide behind
    const auto stalls =
        std::ranges::count_if(waited, [](double seconds) { return seconds > kNoticed; });
    std::ranges::sort(waited);
    fmt::print(
        "load, {} workers: {:.1f} million tokens/s at most; at {:.0f} tokens/s {} of {} steps "
        "wait, "
        "median {:.1f} us, longest {:.2f} ms\n",
        workers, rate * 1e-6, options.tokens_per_second, stalls, waited.size(),
        waited[waited.size() / 2] * 1e6, waited.back() * 1e3);
    std::fflush(stdout);
  }
}

}  // namespace phalanx::bench
