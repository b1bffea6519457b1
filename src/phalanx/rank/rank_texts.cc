#include "phalanx/rank/rank_texts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace phalanx {
namespace {

// The bytes of all ranks, in rank order; `mine` has the same size on all.
std::vector<std::byte> gather_bytes(Communicator& group, Context& context,
                                    std::span<const std::byte> mine) {
  const auto count = static_cast<std::int64_t>(mine.size());
  const std::int64_t total = count * group.size();
  Arena arena("texts of ranks", total + count + 2 * kArenaAlignment);
  const Tensor all = arena.allocate(DType::kU8, {total});
  const Tensor own = arena.allocate(DType::kU8, {count});
  context.backend.upload(context.queue, own, mine);
  group.all_gather(context, all, own).wait(context.queue);
  std::vector<std::byte> bytes(static_cast<std::size_t>(total));
  context.backend.read_back(context.queue, all, bytes);
  return bytes;
}

}  // namespace

std::vector<std::int64_t> gather_numbers(Communicator& group, Context& context, std::int64_t mine) {
  const auto bytes = gather_bytes(group, context, std::as_bytes(std::span(&mine, 1)));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(group.size()));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::vector<std::string> gather_texts(Communicator& group, Context& context,
                                      const std::string& mine) {
  const auto sizes = gather_numbers(group, context, std::ssize(mine));
  const auto longest =
      static_cast<std::size_t>(std::max<std::int64_t>(1, *std::ranges::max_element(sizes)));
  std::string padded = mine;
  padded.resize(longest);
  const auto bytes = gather_bytes(group, context, std::as_bytes(std::span(padded)));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()) + rank * longest,
                       static_cast<std::size_t>(sizes[rank]));
  }
  return texts;
}

std::string rank_text(int rank, int world_size, const GridCoordinates& place,
                      const std::string& host) {
  std::string text = fmt::format("rank {}", rank);
  if (world_size > 1) {
    text += fmt::format(" (tp {}, pp {}, dp {})", place.tensor, place.pipeline, place.data);
  }
  if (!host.empty()) text += fmt::format(" on host {}", host);
  return text;
}

std::string rank_text(const RankCommunicators& ranks, const std::vector<RankPlace>& places) {
  const int rank = ranks.world->rank();
  const bool has_hosts = places.back().host > 0;
  return rank_text(rank, ranks.world->size(), ranks.coordinates,
                   has_hosts ? places[static_cast<std::size_t>(rank)].host_name : std::string());
}

}  // namespace phalanx
