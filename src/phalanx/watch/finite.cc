#include "phalanx/watch/finite.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "phalanx/ops/backend_pieces.h"

namespace phalanx {
namespace {

constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;

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
  BackendPieces pieces(context);
  const std::int64_t most = kPieceBytes / size_of(tensor.dtype);
  bool is_so = true;
  for (std::int64_t begin = 0; is_so && begin < tensor.count(); begin += most) {
    pieces.visit(elements_of(tensor, begin, std::min(most, tensor.count() - begin)), kPieceBytes,
                 [&](std::span<const std::byte> bytes) {
                   is_so = all_finite(bytes, tensor.dtype, minus_infinity);
                 });
  }
  return is_so;
}

}  // namespace phalanx
