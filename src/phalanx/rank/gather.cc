#include "phalanx/rank/gather.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace phalanx {
namespace {

constexpr std::int64_t kPieceBytes = 128;  // of a rank

// `mine` has the same size on all ranks.
std::vector<std::string> gather_equal_sizes(Communicator& group, Context& context,
                                            std::string_view mine) {
  if (group.size() == 1) return {std::string(mine)};
  std::vector<std::string> texts(static_cast<std::size_t>(group.size()));
  for (std::size_t begin = 0; begin < mine.size(); begin += kPieceBytes) {
    const std::string_view piece = mine.substr(begin, kPieceBytes);
    const auto bytes = std::ssize(piece);
    const WorkspaceScope scope(context.workspace);
    const Tensor all = context.workspace.allocate(DType::kU8, {group.size() * bytes});
    const Tensor own = all.slice(0, group.rank() * bytes, bytes);
    context.backend.upload(context.queue, own, std::as_bytes(std::span(piece)));
    group.all_gather(context, all, own).wait(context.queue);
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      std::string part(piece.size(), '\0');
      context.backend.read_back(context.queue,
                                all.slice(0, static_cast<std::int64_t>(rank) * bytes, bytes),
                                std::as_writable_bytes(std::span(part)));
      texts[rank] += part;
    }
  }
  return texts;
}

template <typename T>
std::string bytes_of(std::span<const T> numbers) {
  std::string bytes(numbers.size_bytes(), '\0');
  std::ranges::copy(std::as_bytes(numbers), std::as_writable_bytes(std::span(bytes)).begin());
  return bytes;
}

template <typename T>
std::vector<T> numbers_of(std::string_view bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::ranges::copy(std::as_bytes(std::span(bytes)),
                    std::as_writable_bytes(std::span(numbers)).begin());
  return numbers;
}

}  // namespace

std::int64_t gather_bytes(int ranks) { return ranks > 1 ? ranks * kPieceBytes : 0; }

std::vector<std::int64_t> gather_numbers(Communicator& group, Context& context, std::int64_t mine) {
  std::vector<std::int64_t> numbers;
  for (const std::string& bytes :
       gather_equal_sizes(group, context, bytes_of(std::span<const std::int64_t>(&mine, 1)))) {
    numbers.push_back(numbers_of<std::int64_t>(bytes).front());
  }
  return numbers;
}

std::vector<std::string> gather_texts(Communicator& group, Context& context,
                                      const std::string& mine) {
  const auto sizes = gather_numbers(group, context, std::ssize(mine));
  std::string padded = mine;
  padded.resize(static_cast<std::size_t>(*std::ranges::max_element(sizes)));
  std::vector<std::string> texts = gather_equal_sizes(group, context, padded);
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    texts[rank].resize(static_cast<std::size_t>(sizes[rank]));
  }
  return texts;
}

std::vector<std::vector<double>> gather_numbers(Communicator& group, Context& context,
                                                std::span<const double> mine) {
  std::vector<std::vector<double>> numbers;
  for (const std::string& bytes : gather_texts(group, context, bytes_of(mine))) {
    numbers.push_back(numbers_of<double>(bytes));
  }
  return numbers;
}

}  // namespace phalanx
