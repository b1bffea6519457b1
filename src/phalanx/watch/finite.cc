#include "phalanx/watch/finite.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace phalanx {
namespace {

constexpr std::int64_t kPieceBytes = 16384;

// All bits of the exponent are set in infinities and NaN; in minus infinity also the sign.
template <typename Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent, bool minus_infinity) {
  constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto allowed = static_cast<Bits>(kSign | exponent);
  bool found = false;
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(Bits)) {
    Bits bits{};
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    found |= (bits & exponent) == exponent && !(minus_infinity && bits == allowed);
  }
  return !found;
}

bool all_finite(std::span<const std::byte> bytes, DType dtype, bool minus_infinity) {
  switch (dtype) {
    case DType::kF64:
      return all_finite<std::uint64_t>(bytes, 0x7ff0000000000000U, minus_infinity);
    case DType::kF32:
      return all_finite<std::uint32_t>(bytes, 0x7f800000U, minus_infinity);
    case DType::kBF16:
      return all_finite<std::uint16_t>(bytes, 0x7f80U, minus_infinity);
    case DType::kF16:
      return all_finite<std::uint16_t>(bytes, 0x7c00U, minus_infinity);
    default:
      return true;
  }
}

}  // namespace

bool is_finite(Context& context, const Tensor& tensor, bool minus_infinity) {
  if (!tensor || !is_floating(tensor.dtype) || tensor.count() == 0) return true;
  const Tensor flat = tensor.reshape({tensor.count()});
  const std::int64_t most = kPieceBytes / size_of(tensor.dtype);
  std::array<std::byte, kPieceBytes> buffer{};
  for (std::int64_t begin = 0; begin < flat.count(); begin += most) {
    const Tensor piece = flat.slice(0, begin, std::min(most, flat.count() - begin));
    const auto bytes = std::span(buffer).first(static_cast<std::size_t>(piece.bytes()));
    context.backend.read_back(context.queue, piece, bytes);
    if (!all_finite(bytes, tensor.dtype, minus_infinity)) return false;
  }
  return true;
}

}  // namespace phalanx
