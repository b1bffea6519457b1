#include "phalanx/tensor/host_pieces.h"

#include <algorithm>
#include <cstring>

#include "phalanx/base/error.h"

namespace phalanx {
namespace {

class InPlace final : public HostPieces {
 public:
  void visit(const Tensor& tensor, std::int64_t bytes,
             const std::function<void(std::span<const std::byte>)>& body) override {
    std::span<const std::byte> rest = bytes_of(tensor);
    const std::int64_t size = size_of(tensor.dtype);
    PHALANX_CHECK(bytes >= size, "pieces of {} bytes of {}", bytes, name_of(tensor.dtype));
    const auto most = static_cast<std::size_t>(bytes / size * size);
    while (!rest.empty()) {
      const std::size_t now = std::min(most, rest.size());
      body(rest.first(now));
      rest = rest.subspan(now);
    }
  }

  void fill(const Tensor& tensor, const std::function<void(std::span<std::byte>)>& body) override {
    if (tensor.bytes() > 0) body(bytes_of(tensor));
  }

  void read(const Tensor& tensor, std::span<std::byte> to) override {
    const std::span<const std::byte> from = bytes_of(tensor);
    PHALANX_CHECK(from.size() == to.size(), "{} bytes are read as {}", from.size(), to.size());
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  }

  void write(const Tensor& tensor, std::span<const std::byte> from) override {
    const std::span<std::byte> to = bytes_of(tensor);
    PHALANX_CHECK(from.size() == to.size(), "{} bytes are written as {}", to.size(), from.size());
    if (!to.empty()) std::memcpy(to.data(), from.data(), to.size());
  }

 private:
  static std::span<std::byte> bytes_of(const Tensor& tensor) {
    PHALANX_CHECK(tensor.contiguous(), "a strided tensor {} has no pieces",
                  tensor.shape.to_string());
    return {tensor.data(), static_cast<std::size_t>(tensor.bytes())};
  }
};

}  // namespace

HostPieces& host_pieces() {
  static InPlace in_place;  // without state
  return in_place;
}

Tensor elements_of(const Tensor& tensor, std::int64_t begin, std::int64_t count) {
  PHALANX_CHECK(tensor.contiguous() && begin >= 0 && count >= 0 && begin + count <= tensor.count(),
                "elements {} to {} of {}", begin, begin + count, tensor.shape.to_string());
  return dense_tensor(*tensor.arena, tensor.offset + begin * size_of(tensor.dtype), tensor.dtype,
                      {count});
}

}  // namespace phalanx
