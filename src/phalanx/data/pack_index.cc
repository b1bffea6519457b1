#include "phalanx/data/pack_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/hash.h"
#include "phalanx/base/memory_need.h"
#include "phalanx/base/numeric.h"
#include "phalanx/data/index_cache.h"
#include "phalanx/data/numpy_random.h"

namespace phalanx {
namespace {

constexpr std::int64_t kMaxSamples = std::int64_t{1} << 40;

// A block begins with these numbers; begins (8 bytes each), documents and shuffle (4 bytes each)
// follow.
struct Head {
  PackingCounts counts;
  std::int64_t shuffled = 0;  // entries of the order
};
static_assert(sizeof(Head) == 8 * sizeof(std::int64_t));

struct Layout {
  std::int64_t begins, documents, shuffle, end;
};
Layout layout_of(const Head& head) {
  Layout at{};
  at.begins = sizeof(Head);
  at.documents = at.begins + (head.counts.packs + 1) * 8;
  at.shuffle = at.documents + head.counts.documents * 4;
  at.end = at.shuffle + head.shuffled * 4;
  return at;
}

std::string_view name_of(DocumentPacking packing) {
  if (packing == DocumentPacking::kSingle) return "single";
  return packing == DocumentPacking::kGreedy ? "greedy" : "best-fit";
}

std::int64_t shuffled_samples(std::int64_t packs, const PackIndexOptions& options) {
  if (options.order == DataOrder::kSequential) return 0;
  const std::int64_t samples = options.samples.value_or(packs);
  if (samples < 0 || samples > kMaxSamples) {
    throw ConfigError("{} samples are requested; a dataset gives 0 to {}", samples,
                      format_count(kMaxSamples));
  }
  return std::max<std::int64_t>(1, ceil_div(samples, packs)) * packs;
}

// Every epoch is a permutation of its own.
void fill_shuffle(std::span<std::uint32_t> shuffle, std::int64_t packs,
                  const PackIndexOptions& options) {
  NumpyRandom random(options.seed);
  const auto step = static_cast<std::size_t>(packs);
  for (std::size_t begin = 0; begin < shuffle.size(); begin += step) {
    const auto epoch = shuffle.subspan(begin, step);
    std::iota(epoch.begin(), epoch.end(), 0U);
    random.shuffle(epoch, options.poll);
  }
}

IndexBlock build_block(const SequenceLengths& lengths, const PackIndexOptions& options) {
  const DocumentPacks packs = pack_documents(lengths, options.sequence_length, options.packing,
                                             options.poll, options.document_multiple);
  if (packs.counts.packs == 0) {
    throw ConfigError(
        "{} documents, none of two tokens or more: nothing can be packed; give more data or a "
        "larger share in --split",
        format_count(lengths.size()));
  }
  const Head head{.counts = packs.counts,
                  .shuffled = shuffled_samples(packs.counts.packs, options)};
  const Layout at = layout_of(head);
  expect_memory(fmt::format("the order of {} samples from {} packs of documents",
                            format_count(head.shuffled), format_count(packs.counts.packs)),
                static_cast<double>(at.end), "train for fewer samples");
  std::shared_ptr<std::byte[]> memory(new std::byte[static_cast<std::size_t>(at.end)]);
  const auto put = [&](std::int64_t to, const auto& from) {
    const auto bytes = std::as_bytes(std::span(from));
    std::memcpy(memory.get() + to, bytes.data(), bytes.size());
  };
  put(0, std::array{head});
  put(at.begins, packs.begins);
  put(at.documents, packs.documents);
  fill_shuffle({reinterpret_cast<std::uint32_t*>(memory.get() + at.shuffle),
                static_cast<std::size_t>(head.shuffled)},
               packs.counts.packs, options);
  return IndexBlock::in_memory(memory, at.end);
}

// A file may say anything, so its numbers are checked; entries are checked where they are used.
PackIndex view(const IndexBlock& block) {
  Head head;
  const auto refuse = [&] [[noreturn]] {
    throw DataError("{}: it is no index of packs; delete the file, and it is made anew",
                    block.file);
  };
  const std::int64_t bytes = std::ssize(block.bytes);
  if (bytes < static_cast<std::int64_t>(sizeof(Head))) refuse();
  std::memcpy(&head, block.bytes.data(), sizeof(Head));
  const auto is_count = [&](std::int64_t number) { return number >= 0 && number <= bytes; };
  if (head.counts.packs < 1 || !is_count(head.counts.packs) || !is_count(head.counts.documents) ||
      !is_count(head.shuffled)) {
    refuse();
  }
  const Layout at = layout_of(head);
  if (at.end != bytes || head.shuffled % head.counts.packs != 0) refuse();
  const auto part = [&](std::int64_t begin, std::int64_t end, int width) {
    return IndexArray(
        block.bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
        width);
  };
  return {.counts = head.counts,
          .begins = part(at.begins, at.documents, 8),
          .documents = part(at.documents, at.shuffle, 4),
          .shuffle = part(at.shuffle, at.end, 4),
          .owner = block.owner,
          .file = block.file};
}

// Everything that decides the block. Of the documents only the lengths decide it.
std::string describe(const SequenceLengths& lengths, const PackIndexOptions& options) {
  std::string text = fmt::format(
      "packs of whole documents, version 1\nsequences: {}\nxxh3 of their lengths: {}\n"
      "sequence length: {}\npacking: {}\nsamples: {}\nseed: {}\ndata order: {}\n",
      lengths.size(), digest_to_text(xxh3(lengths.bytes())), options.sequence_length,
      name_of(options.packing), options.samples ? fmt::to_string(*options.samples) : "one epoch",
      options.seed, options.order == DataOrder::kMegatron ? "megatron" : "sequential");
  if (options.document_multiple > 1) {
    text += fmt::format("rows of a document: a multiple of {}\n", options.document_multiple);
  }
  return text;
}

}  // namespace

PackIndex build_pack_index(const SequenceLengths& lengths, const PackIndexOptions& options) {
  return view(build_block(lengths, options));
}

PackIndex cached_pack_index(const SequenceLengths& lengths, const PackIndexOptions& options,
                            const IndexCache& cache) {
  const IndexRequest request{
      .name = "packs", .description = describe(lengths, options), .bytes = std::nullopt};
  return view(cache.get(
      request, [&] { return build_block(lengths, options); }, options.poll));
}

}  // namespace phalanx
