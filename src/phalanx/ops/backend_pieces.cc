#include "phalanx/ops/backend_pieces.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

// What is written at once.
constexpr std::int64_t kWrittenBytes = std::int64_t{1} << 20;

// body(piece) for pieces of at most `bytes`.
template <typename Body>
void for_pieces(const Tensor& tensor, std::int64_t bytes, const Body& body) {
  const std::int64_t most = bytes / size_of(tensor.dtype);
  PHALANX_CHECK(most > 0, "pieces of {} bytes of {}", bytes, name_of(tensor.dtype));
  for (std::int64_t begin = 0; begin < tensor.count(); begin += most) {
    body(elements_of(tensor, begin, std::min(most, tensor.count() - begin)));
  }
}

}  // namespace

Queue BackendPieces::out() const {
  Backend& backend = context_.backend;
  const Queue out = backend.queue(StreamKind::kCopyOut);
  backend.wait(out, backend.record(context_.queue));
  return out;
}

// The next piece is on its way while one is visited.
void BackendPieces::visit(const Tensor& tensor, std::int64_t bytes,
                          const std::function<void(std::span<const std::byte>)>& body) {
  if (is_host(tensor.space)) return host_pieces().visit(tensor, bytes, body);
  const Queue from = out();
  std::optional<ReadBack> coming;
  for_pieces(tensor, bytes, [&](const Tensor& piece) {
    std::optional<ReadBack> here = std::exchange(coming, context_.backend.read_later(from, piece));
    if (here) body(here->wait());
  });
  if (coming) body(coming->wait());
}

void BackendPieces::fill(const Tensor& tensor,
                         const std::function<void(std::span<std::byte>)>& body) {
  if (is_host(tensor.space)) return host_pieces().fill(tensor, body);
  for_pieces(tensor, kWrittenBytes, [&](const Tensor& piece) {
    const auto size = static_cast<std::size_t>(piece.bytes());
    if (buffer_.size() < size) buffer_.resize(size);
    const std::span memory = std::span(buffer_).first(size);
    body(memory);
    context_.backend.upload(context_.queue, piece, memory);
  });
}

void BackendPieces::read(const Tensor& tensor, std::span<std::byte> to) {
  if (is_host(tensor.space)) return host_pieces().read(tensor, to);
  if (tensor.bytes() > 0) context_.backend.read_back(out(), tensor, to);
}

void BackendPieces::write(const Tensor& tensor, std::span<const std::byte> from) {
  if (is_host(tensor.space)) return host_pieces().write(tensor, from);
  if (tensor.bytes() > 0) context_.backend.upload(context_.queue, tensor, from);
}

}  // namespace phalanx
