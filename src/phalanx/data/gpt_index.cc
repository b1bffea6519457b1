#include "phalanx/data/gpt_index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "phalanx/base/error.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/numpy_random.h"

namespace phalanx {
namespace {

// Rows and document visits are 32-bit numbers; Megatron changes its files to 64 bits at the same
// count.
constexpr std::int64_t kMaxEntries = std::numeric_limits<std::uint32_t>::max() - std::int64_t{1};
// Keeps every product below 2^63.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 61;
// The last epoch is shuffled on its own where fewer than this share of its samples is used, lest
// its documents be scattered among the full epochs and some of them never be seen.
constexpr double kSeparateEpochShare = 0.80;

struct Epochs {
  std::int64_t tokens = 0;  // T, of one epoch
  std::int64_t count = 1;   // E
  bool separate_last = false;
  std::int64_t before_last = 0;  // samples that begin and end before the last epoch
};

void check_request(std::int64_t documents, std::int64_t tokens, const GptIndexOptions& options) {
  if (documents > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError("{} documents are more than can be indexed (2,147,483,647)", documents);
  }
  const std::int64_t s = options.sequence_length;
  if (s < 1 || s >= std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError("--seq-length {}: give a number from 1 to 2,147,483,646", s);
  }
  const bool one_epoch = !options.samples || options.order == DataOrder::kSequential;
  const std::int64_t needed = one_epoch && !options.keep_partial_tail ? s + 1 : 2;
  if (tokens < needed) {
    throw ConfigError(
        "{} tokens are too few for samples of --seq-length {}: {} are needed; give "
        "more data, a larger share in --split or a shorter --seq-length",
        tokens, s, needed);
  }
  const std::int64_t samples = options.samples.value_or(0);
  const std::int64_t most = std::min(kMaxEntries, kMaxTokens / s);
  if (samples < 0 || samples > most) {
    throw ConfigError("{} samples of --seq-length {} are requested; a dataset gives 0 to {}",
                      samples, s, format_count(most));
  }
}

Epochs plan_epochs(std::int64_t tokens, const GptIndexOptions& options) {
  Epochs epochs{.tokens = tokens};
  if (!options.samples || options.order == DataOrder::kSequential) return epochs;
  const std::int64_t s = options.sequence_length;
  const std::int64_t samples = *options.samples;
  epochs.count = ceil_div(samples * s + 1, tokens);
  if (epochs.count == 1) return epochs;
  epochs.before_last = ((epochs.count - 1) * tokens - 1) / s;
  const std::int64_t from_last = samples - epochs.before_last;
  const std::int64_t per_epoch = (tokens - 1) / s;
  epochs.separate_last =
      from_last < static_cast<std::int64_t>(kSeparateEpochShare * static_cast<double>(per_epoch));
  return epochs;
}

std::int64_t count_samples(const Epochs& epochs, const GptIndexOptions& options) {
  const std::int64_t last = epochs.count * epochs.tokens - 1;
  const std::int64_t s = options.sequence_length;
  if (!options.keep_partial_tail) return last / s;
  // Megatron divides in single precision. Rounded down, that drops samples, and we follow; rounded
  // up, it would count samples that begin beyond the last token.
  const float in_single = std::ceil(static_cast<float>(last) / static_cast<float>(s));
  return std::min(static_cast<std::int64_t>(in_single), ceil_div(last, s));
}

std::vector<std::int32_t> shuffled_documents(std::size_t documents, const Epochs& epochs,
                                             NumpyRandom& random,
                                             const std::function<void()>& poll) {
  std::vector<std::int32_t> order(documents * static_cast<std::size_t>(epochs.count));
  for (auto block = order.begin(); block != order.end();
       block += static_cast<std::ptrdiff_t>(documents)) {
    std::iota(block, block + static_cast<std::ptrdiff_t>(documents), 0);
  }
  const std::span all(order);
  if (epochs.separate_last) {
    random.shuffle(all.first(all.size() - documents), poll);
    random.shuffle(all.last(documents), poll);
  } else {
    random.shuffle(all, poll);
  }
  return order;
}

// Walks the documents in steps of s tokens. `document_at(k)` is the k-th document that is read, of
// `visits`.
template <typename DocumentAt>
std::vector<SampleStart> sample_starts(std::span<const std::int32_t> lengths, std::int64_t visits,
                                       std::int64_t samples, const GptIndexOptions& options,
                                       DocumentAt document_at) {
  const std::int64_t s = options.sequence_length;
  std::vector<SampleStart> starts;
  starts.reserve(static_cast<std::size_t>(samples) + 1);
  starts.push_back({0, 0});
  constexpr std::int64_t kSamplesBetweenPolls = 1 << 14;
  constexpr std::int64_t kAhead = 16;  // shuffled documents have their lengths far apart in memory
  std::int64_t visit = 0;
  std::int64_t offset = 0;
  for (std::int64_t m = 0; m < samples; ++m) {
    if (options.poll && m % kSamplesBetweenPolls == 0) options.poll();
    std::int64_t remaining = s + 1;
    while (true) {
      const std::int64_t length = lengths[document_at(visit)];
      const std::int64_t available = length - offset;
      if (available >= remaining) {
        offset += remaining - 1;  // the last token is the first of the next sample
        break;
      }
      if (visit == visits - 1) {
        offset = length - 1;  // a partial tail ends with the last document
        break;
      }
      remaining -= available;
      ++visit;
      offset = 0;
      if (visit + kAhead < visits) __builtin_prefetch(&lengths[document_at(visit + kAhead)]);
    }
    starts.push_back({static_cast<std::uint32_t>(visit), static_cast<std::int32_t>(offset)});
  }
  return starts;
}

std::vector<std::uint32_t> shuffled_samples(std::int64_t samples, const Epochs& epochs,
                                            NumpyRandom& random,
                                            const std::function<void()>& poll) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), 0U);
  const std::span all(order);
  if (epochs.separate_last) {
    const auto before = static_cast<std::size_t>(epochs.before_last);
    random.shuffle(all.first(before), poll);
    random.shuffle(all.subspan(before), poll);
  } else {
    random.shuffle(all, poll);
  }
  return order;
}

}  // namespace

GptIndex build_gpt_index(std::span<const std::int32_t> lengths, const GptIndexOptions& options) {
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  const auto documents = static_cast<std::int64_t>(lengths.size());
  check_request(documents, tokens, options);
  const Epochs epochs = plan_epochs(tokens, options);
  const std::int64_t samples = count_samples(epochs, options);
  if (samples > kMaxEntries || epochs.count > kMaxEntries / documents) {
    throw ConfigError(
        "{} samples of --seq-length {} take {} epochs of {} documents ({} tokens), "
        "more than can be indexed: give more data or train for fewer samples",
        format_count(options.samples.value_or(samples)), options.sequence_length,
        format_count(epochs.count), format_count(documents), format_count(tokens));
  }

  GptIndex index{.epochs = epochs.count, .documents = {}, .starts = {}, .shuffle = {}};
  if (options.order == DataOrder::kSequential) {
    index.starts = sample_starts(lengths, documents, samples, options,
                                 [](std::int64_t visit) { return visit; });
    return index;
  }
  NumpyRandom random(options.seed);
  index.documents = shuffled_documents(lengths.size(), epochs, random, options.poll);
  index.starts = sample_starts(lengths, static_cast<std::int64_t>(index.documents.size()), samples,
                               options, [&](std::int64_t visit) { return index.documents[visit]; });
  index.shuffle = shuffled_samples(samples, epochs, random, options.poll);
  return index;
}

}  // namespace phalanx
