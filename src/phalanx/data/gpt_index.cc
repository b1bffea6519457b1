#include "phalanx/data/gpt_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/memory_need.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/numpy_random.h"

namespace phalanx {
namespace {

// Far more than memory holds, and no product of two counts overflows.
constexpr std::int64_t kMaxEntries = std::int64_t{1} << 40;
// Keeps every product below 2^63.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 61;
// The last epoch is shuffled on its own where fewer than this share of its samples is used, lest
// its documents be scattered among the full epochs and some of them never be seen.
constexpr double kSeparateEpochShare = 0.80;

void check_request(std::int64_t tokens, const GptIndexOptions& options) {
  const std::int64_t s = options.sequence_length;
  if (s < 1 || s >= std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError("--seq-length {}: give a number from 1 to 2,147,483,646", s);
  }
  const bool one_epoch = !options.samples || options.order == DataOrder::kSequential;
  const std::int64_t needed = one_epoch && !options.keep_partial_tail ? s + 1 : 2;
  if (tokens > kMaxTokens) throw ConfigError("{} tokens are more than can be indexed", tokens);
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

void plan_epochs(GptIndexPlan& plan, const GptIndexOptions& options) {
  if (!options.samples || options.order == DataOrder::kSequential) return;
  const std::int64_t s = options.sequence_length;
  const std::int64_t samples = *options.samples;
  plan.epochs = ceil_div(samples * s + 1, plan.tokens);
  if (plan.epochs == 1) return;
  plan.before_last = ((plan.epochs - 1) * plan.tokens - 1) / s;
  const std::int64_t from_last = samples - plan.before_last;
  const std::int64_t per_epoch = (plan.tokens - 1) / s;
  plan.separate_last =
      from_last < static_cast<std::int64_t>(kSeparateEpochShare * static_cast<double>(per_epoch));
}

std::int64_t count_samples(const GptIndexPlan& plan, const GptIndexOptions& options) {
  const std::int64_t last = plan.epochs * plan.tokens - 1;
  const std::int64_t s = options.sequence_length;
  if (!options.keep_partial_tail) return last / s;
  // Megatron divides in single precision. Rounded down, that drops samples, and we follow; rounded
  // up, it would count samples that begin beyond the last token.
  const float in_single = std::ceil(static_cast<float>(last) / static_cast<float>(s));
  return std::min(static_cast<std::int64_t>(in_single), ceil_div(last, s));
}

void place_parts(GptIndexPlan& plan, std::int64_t documents, const GptIndexOptions& options) {
  const auto place = [&](GptIndexPlan::Part& part, std::int64_t entries, std::int64_t largest) {
    part = {.begin = plan.bytes, .entries = entries, .width = 4};
    if (largest > options.largest_narrow) part.width = 8;
    plan.bytes += round_up(part.bytes(), 8);
  };
  const bool is_shuffled = options.order == DataOrder::kMegatron;
  place(plan.documents, is_shuffled ? plan.visits : 0, documents - 1);
  // An offset is below 2^31, as a length is.
  place(plan.starts, 2 * (plan.samples + 1), plan.visits - 1);
  place(plan.shuffle, is_shuffled ? plan.samples : 0, plan.samples - 1);
}

// Calls poll(), because touching new memory takes time.
constexpr std::size_t kFilledBetweenPolls = std::size_t{1} << 24;

// 0, 1, 2, ..., `period` - 1 and again, shuffled in two parts: `first` entries and the others.
template <typename T>
void fill_shuffled(std::span<T> entries, std::int64_t period, std::int64_t first,
                   NumpyRandom& random, const std::function<void()>& poll) {
  const auto step = static_cast<std::size_t>(period);
  for (std::size_t at = 0; at < entries.size(); at += step) {
    const auto block = entries.subspan(at, step);
    for (std::size_t begin = 0; begin < step; begin += kFilledBetweenPolls) {
      const auto piece = block.subspan(begin, std::min(kFilledBetweenPolls, step - begin));
      std::iota(piece.begin(), piece.end(), static_cast<T>(begin));
      if (poll) poll();
    }
  }
  random.shuffle(entries.first(static_cast<std::size_t>(first)), poll);
  random.shuffle(entries.subspan(static_cast<std::size_t>(first)), poll);
}

// The document that is read at a visit: an entry of the document index, or in file order itself.
struct VisitOrder {
  IndexArray documents;
  std::int64_t operator[](std::int64_t visit) const {
    return documents.empty() ? visit : documents[visit];
  }
};

// Walks the documents in steps of s tokens.
template <typename T>
void fill_starts(const SequenceLengths& lengths, const VisitOrder& order, const GptIndexPlan& plan,
                 const GptIndexOptions& options, std::span<T> starts) {
  const std::int64_t s = options.sequence_length;
  constexpr std::int64_t kSamplesBetweenPolls = 1 << 14;
  constexpr std::int64_t kAhead = 16;  // the lengths of shuffled documents are far apart in memory
  std::int64_t visit = 0;
  std::int64_t offset = 0;
  starts[0] = starts[1] = 0;
  for (std::int64_t m = 0; m < plan.samples; ++m) {
    if (options.poll && m % kSamplesBetweenPolls == 0) options.poll();
    std::int64_t remaining = s + 1;
    while (true) {
      const std::int64_t length = lengths[order[visit]];
      const std::int64_t available = length - offset;
      if (available >= remaining) {
        offset += remaining - 1;  // the last token is the first of the next sample
        break;
      }
      if (visit == plan.visits - 1) {
        offset = length - 1;  // a partial tail ends with the last document
        break;
      }
      remaining -= available;
      ++visit;
      offset = 0;
      if (visit + kAhead < plan.visits) lengths.prefetch(order[visit + kAhead]);
    }
    starts[2 * (m + 1)] = static_cast<T>(visit);
    starts[2 * (m + 1) + 1] = static_cast<T>(offset);
  }
}

// Calls fill(span<T>) with the part's entries in their stored type.
template <typename Fill>
void with_entries(std::span<std::byte> block, const GptIndexPlan::Part& part, Fill fill) {
  std::byte* const begin = block.data() + part.begin;
  const auto entries = static_cast<std::size_t>(part.entries);
  if (part.width == 8) {
    fill(std::span(reinterpret_cast<std::int64_t*>(begin), entries));
  } else {
    fill(std::span(reinterpret_cast<std::uint32_t*>(begin), entries));
  }
}

IndexArray part_of(std::span<const std::byte> block, const GptIndexPlan::Part& part) {
  return {block.subspan(part.begin, part.bytes()), part.width};
}

// Everything that decides the block. Of the documents only the lengths decide the order.
std::string describe(const SequenceLengths& lengths, const GptIndexOptions& options,
                     const GptIndexPlan& plan) {
  return fmt::format(
      "order of GPT samples, version 1\nsequences: {}\nxxh3 of their lengths: {}\n"
      "tokens: {}\nsequence length: {}\nsamples: {}\nseed: {}\npartial tail: {}\n"
      "data order: {}\nbytes of entries: {} {} {}\n",
      lengths.size(), digest_to_text(xxh3(lengths.bytes())), plan.tokens, options.sequence_length,
      options.samples ? fmt::to_string(*options.samples) : "one epoch", options.seed,
      options.keep_partial_tail ? "kept" : "dropped",
      options.order == DataOrder::kMegatron ? "megatron" : "sequential", plan.documents.width,
      plan.starts.width, plan.shuffle.width);
}

}  // namespace

GptIndexPlan plan_gpt_index(std::int64_t documents, std::int64_t tokens,
                            const GptIndexOptions& options) {
  check_request(tokens, options);
  GptIndexPlan plan;
  plan.tokens = tokens;
  plan_epochs(plan, options);
  plan.samples = count_samples(plan, options);
  if (plan.samples > kMaxEntries || plan.epochs > kMaxEntries / documents) {
    throw ConfigError(
        "{} samples of --seq-length {} take {} epochs of {} documents ({} tokens), "
        "more than can be indexed: give more data or train for fewer samples",
        format_count(options.samples.value_or(plan.samples)), options.sequence_length,
        format_count(plan.epochs), format_count(documents), format_count(tokens));
  }
  plan.visits = plan.epochs * documents;
  place_parts(plan, documents, options);
  return plan;
}

void fill_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options,
                    const GptIndexPlan& plan, std::span<std::byte> block) {
  PHALANX_CHECK(std::ssize(block) == plan.bytes, "{} bytes for an index of {}", block.size(),
                plan.bytes);
  // The gaps that round a part up to 8 bytes: they are in a cache file, and its digest.
  for (const auto& part : {plan.documents, plan.starts, plan.shuffle}) {
    const std::int64_t end = part.begin + part.bytes();
    std::memset(block.data() + end, 0, static_cast<std::size_t>(round_up(end, 8) - end));
  }
  NumpyRandom random(options.seed);
  VisitOrder order;
  // Drawn in this order: documents, then samples.
  with_entries(block, plan.documents, [&](auto entries) {
    const std::int64_t first = plan.separate_last ? plan.visits - lengths.size() : plan.visits;
    if (!entries.empty()) fill_shuffled(entries, lengths.size(), first, random, options.poll);
  });
  order.documents = part_of(block, plan.documents);
  with_entries(block, plan.starts,
               [&](auto entries) { fill_starts(lengths, order, plan, options, entries); });
  with_entries(block, plan.shuffle, [&](auto entries) {
    const std::int64_t first = plan.separate_last ? plan.before_last : plan.samples;
    if (!entries.empty()) fill_shuffled(entries, plan.samples, first, random, options.poll);
  });
}

GptIndex view_gpt_index(const GptIndexPlan& plan, std::span<const std::byte> block,
                        std::shared_ptr<const void> owner, std::string file) {
  PHALANX_CHECK(std::ssize(block) == plan.bytes, "{} bytes for an index of {}", block.size(),
                plan.bytes);
  return {.epochs = plan.epochs,
          .documents = part_of(block, plan.documents),
          .starts = part_of(block, plan.starts),
          .shuffle = part_of(block, plan.shuffle),
          .owner = std::move(owner),
          .file = std::move(file)};
}

std::shared_ptr<std::byte[]> make_gpt_index_block(const SequenceLengths& lengths,
                                                  const GptIndexOptions& options,
                                                  const GptIndexPlan& plan) {
  expect_memory(
      fmt::format("the order of {} samples of --seq-length {} from {} document visits",
                  format_count(plan.samples), options.sequence_length, format_count(plan.visits)),
      static_cast<double>(plan.bytes), "train for fewer samples, or on longer ones");
  const auto bytes = static_cast<std::size_t>(plan.bytes);
  // The memory is not zeroed first, because that would touch it twice.
  std::shared_ptr<std::byte[]> memory(new std::byte[bytes]);
  fill_gpt_index(lengths, options, plan, {memory.get(), bytes});
  return memory;
}

GptIndex build_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options) {
  const GptIndexPlan plan = plan_gpt_index(lengths.size(), total_tokens(lengths), options);
  const auto memory = make_gpt_index_block(lengths, options, plan);
  return view_gpt_index(plan, {memory.get(), static_cast<std::size_t>(plan.bytes)}, memory);
}

GptIndex cached_gpt_index(const SequenceLengths& lengths, const GptIndexOptions& options,
                          const IndexCache& cache) {
  const GptIndexPlan plan = plan_gpt_index(lengths.size(), total_tokens(lengths), options);
  const IndexRequest request{
      .name = "gpt", .description = describe(lengths, options, plan), .bytes = plan.bytes};
  const auto build = [&] {
    return IndexBlock::in_memory(make_gpt_index_block(lengths, options, plan), plan.bytes);
  };
  const IndexBlock block = cache.get(request, build, options.poll);
  return view_gpt_index(plan, block.bytes, block.owner, block.file);
}

GptIndex build_gpt_index(std::span<const std::int32_t> lengths, const GptIndexOptions& options) {
  return build_gpt_index(SequenceLengths(lengths), options);
}

std::int64_t total_tokens(const SequenceLengths& lengths) {
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < lengths.size(); ++i) tokens += lengths[i];
  return tokens;
}

}  // namespace phalanx
