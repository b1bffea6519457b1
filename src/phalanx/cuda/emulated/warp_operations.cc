#include "phalanx/cuda/emulated/warp_operations.h"

#include <algorithm>
#include <cstring>

namespace phalanx::cuda {
namespace {

constexpr int kLanes = 32;

std::uint16_t half_word(const std::uint32_t* words, int i) {
  return static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2)));
}

// Lane l gets elements q, q + 1 of row l / 4 of matrix m, transposed of column l / 4.
std::int64_t ldmatrix(bool transposed, const WarpOperand* rows, WarpOperand* results) {
  std::int64_t conflicts = 0;
  for (int m = 0; m < 4; ++m) {
    const WarpOperand* matrix = rows + 8 * m;
    int uses[8] = {};
    for (int r = 0; r < 8; ++r) ++uses[matrix[r].words[4]];
    conflicts += *std::max_element(uses, uses + 8) - 1;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int g = lane / 4;
      const int q = 2 * (lane % 4);
      const std::uint16_t low =
          transposed ? half_word(matrix[q].words, g) : half_word(matrix[g].words, q);
      const std::uint16_t high =
          transposed ? half_word(matrix[q + 1].words, g) : half_word(matrix[g].words, q + 1);
      results[lane].words[m] = low | (static_cast<std::uint32_t>(high) << 16);
    }
  }
  return conflicts;
}

// D[16][8] += A[16][16] B[16][8]. Products of 16-bit numbers are exact in double, and their sum is
// rounded once: what a device does within a product is not said by anyone.
template <typename T>
void mma(const WarpOperand* operands, WarpOperand* results) {
  double a[16][16];
  double b[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const int g = lane / 4;
    const int q = 2 * (lane % 4);
    const std::uint32_t* words = operands[lane].words;
    for (int i = 0; i < 2; ++i) {
      const auto value = [&](int word) {
        return static_cast<double>(to_float(T{half_word(words + word, i)}));
      };
      a[g][q + i] = value(4);
      a[g + 8][q + i] = value(5);
      a[g][q + 8 + i] = value(6);
      a[g + 8][q + 8 + i] = value(7);
      b[q + i][g] = value(8);
      b[q + 8 + i][g] = value(9);
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2);
      const int column = 2 * (lane % 4) + i % 2;
      double sum = float_of_bits(operands[lane].words[i]);
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      results[lane].words[i] = bits_of_float(static_cast<float>(sum));
    }
  }
}

}  // namespace

std::int64_t compute_warp_operation(WarpOp op, const WarpOperand* operands, WarpOperand* results) {
  switch (op) {
    case WarpOp::kSyncWarp:
      return 0;
    case WarpOp::kShuffle:
      for (int lane = 0; lane < kLanes; ++lane) {
        std::memcpy(results[lane].words, operands[operands[lane].words[2]].words, 8);
      }
      return 0;
    case WarpOp::kBallot: {
      std::uint32_t mask = 0;
      for (int lane = 0; lane < kLanes; ++lane) mask |= operands[lane].words[0] << lane;
      for (int lane = 0; lane < kLanes; ++lane) results[lane].words[0] = mask;
      return 0;
    }
    case WarpOp::kLdmatrix:
    case WarpOp::kLdmatrixTrans:
      return ldmatrix(op == WarpOp::kLdmatrixTrans, operands, results);
    case WarpOp::kMmaBf16:
      mma<bf16>(operands, results);
      return 0;
    case WarpOp::kMmaFp16:
      mma<fp16>(operands, results);
      return 0;
  }
  return 0;
}

const char* name_of(WarpOp op) {
  switch (op) {
    case WarpOp::kSyncWarp:
      return "sync_warp";
    case WarpOp::kShuffle:
      return "shuffle";
    case WarpOp::kBallot:
      return "ballot";
    case WarpOp::kLdmatrix:
      return "ldmatrix_x4";
    case WarpOp::kLdmatrixTrans:
      return "ldmatrix_x4_trans";
    case WarpOp::kMmaBf16:
    case WarpOp::kMmaFp16:
      return "mma";
  }
  return "";
}

}  // namespace phalanx::cuda
