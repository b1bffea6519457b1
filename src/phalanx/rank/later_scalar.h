#pragma once
// Scalars that are on their way to the host: a step asks for all of its numbers before it waits for
// one of them.

#include <cstring>
#include <span>

#include "phalanx/base/error.h"
#include "phalanx/ops/backend.h"

namespace phalanx {

// One f32 or f64 element, as it is when all that is enqueued now has run.
class LaterScalar {
 public:
  LaterScalar(Context& context, const Tensor& scalar)
      : dtype_(scalar.dtype), bytes_(context.backend.read_later(context.queue, scalar)) {
    PHALANX_CHECK(scalar.count() == 1, "{} is no scalar", scalar.shape.to_string());
  }

  double wait() {
    return dtype_ == DType::kF64 ? value<double>() : static_cast<double>(value<float>());
  }

 private:
  template <typename T>
  T value() {
    T number;
    const std::span<const std::byte> bytes = bytes_.wait();
    PHALANX_CHECK(bytes.size() == sizeof number, "{} bytes of a scalar", bytes.size());
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  }

  DType dtype_;
  ReadBack bytes_;
};

}  // namespace phalanx
