#pragma once
// How this process reads and writes tensors wherever they lie. A tensor in its own memory is read
// and written in place, another one in pieces of memory that lie here.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "phalanx/tensor/tensor.h"

namespace phalanx {

// All tensors are contiguous. Not for planning arenas, which have nothing to read.
class HostPieces {
 public:
  virtual ~HostPieces() = default;

  // All bytes in order, in pieces of at most `bytes`, and of whole elements.
  virtual void visit(const Tensor& tensor, std::int64_t bytes,
                     const std::function<void(std::span<const std::byte>)>& body) = 0;
  // The body writes every byte of the pieces, which are all of the tensor in order.
  virtual void fill(const Tensor& tensor,
                    const std::function<void(std::span<std::byte>)>& body) = 0;
  // Copies of all bytes; InternalError unless there are as many.
  virtual void read(const Tensor& tensor, std::span<std::byte> to) = 0;
  virtual void write(const Tensor& tensor, std::span<const std::byte> from) = 0;
};

// For tensors in host memory; InternalError for others (Tensor::data).
HostPieces& host_pieces();

// `count` elements of a contiguous tensor from `begin` on, whatever its shape.
Tensor elements_of(const Tensor& tensor, std::int64_t begin, std::int64_t count);

}  // namespace phalanx
