#include "phalanx/saving/rank_numbers.h"

#include <algorithm>
#include <span>

namespace phalanx {

std::vector<std::vector<std::int64_t>> gather_numbers(Rank& rank,
                                                      const std::vector<std::int64_t>& mine) {
  Communicator& world = *rank.ranks().control;
  if (world.size() == 1) return {mine};
  Context& context = rank.host_context();
  const std::int64_t ranks = world.size();
  Arena counts_arena("loading", (ranks + 2) * kArenaAlignment);
  const Tensor count = counts_arena.allocate(DType::kI64, {1});
  const Tensor counts = counts_arena.allocate(DType::kI64, {ranks});
  count.as<std::int64_t>()[0] = std::ssize(mine);
  world.all_gather(context, counts, count).wait(context.queue);
  const std::span all(counts.as<std::int64_t>(), static_cast<std::size_t>(ranks));
  const std::int64_t most = std::max<std::int64_t>(1, *std::ranges::max_element(all));
  Arena arena("loading", (ranks + 1) * most * size_of(DType::kI64) + 2 * kArenaAlignment);
  const Tensor own = arena.allocate(DType::kI64, {most});
  const Tensor numbers = arena.allocate(DType::kI64, {ranks * most});
  std::int64_t* const to = own.as<std::int64_t>();
  std::fill(std::ranges::copy(mine, to).out, to + most, 0);
  world.all_gather(context, numbers, own).wait(context.queue);
  std::vector<std::vector<std::int64_t>> gathered;
  for (std::int64_t r = 0; r < ranks; ++r) {
    const std::int64_t* const from = numbers.as<std::int64_t>() + r * most;
    gathered.emplace_back(from, from + all[static_cast<std::size_t>(r)]);
  }
  // Nobody's memory is read any more.
  world.barrier(context);
  return gathered;
}

std::vector<std::string> gather_texts(Rank& rank, std::string_view mine) {
  std::vector<std::int64_t> numbers(mine.size());
  std::ranges::transform(mine, numbers.begin(), [](char c) { return std::int64_t{c}; });
  std::vector<std::string> texts;
  for (const auto& all : gather_numbers(rank, numbers)) {
    auto& text = texts.emplace_back(all.size(), '\0');
    std::ranges::transform(all, text.begin(), [](std::int64_t c) { return static_cast<char>(c); });
  }
  return texts;
}

}  // namespace phalanx
