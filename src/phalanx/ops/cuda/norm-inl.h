#pragma once
// Layer norms and RMS norms, forward, applied again, and backward to the rows. A team of threads
// has a row: a warp, or a block of 256. Sums: a thread over its packs in order, then warp_sum or
// block_sum. A short row stays in registers, a long one is read again. What decides is the number
// of columns alone, and a row has the same bits with and without packs.

#include "phalanx/ops/cuda/pack-inl.h"

namespace phalanx::cuda {

// Rows are fewer than 2^31: a division of 64 bits takes many registers.
struct RowAndPlace {
  std::int64_t row;
  std::int64_t place;
};
PHALANX_DEVICE RowAndPlace divided(std::int64_t r, std::int64_t places) {
  const auto n = static_cast<std::uint32_t>(r);
  const auto d = static_cast<std::uint32_t>(places);
  return {n / d, n % d};
}

// Rows of an operand [rows, places, columns]: row r has place r % places of row r / places.
struct NormRows {
  std::int64_t row = 0;    // elements between rows
  std::int64_t place = 0;  // and between places of a row

  PHALANX_DEVICE std::int64_t at(std::int64_t r, std::int64_t places) const {
    if (places == 1) return r * row;
    const auto [of_row, of_place] = divided(r, places);
    return of_row * row + of_place * place;
  }
};

// Where the statistics of row r lie, of [places, rows].
PHALANX_DEVICE std::int64_t statistic_of(std::int64_t r, std::int64_t places, std::int64_t rows) {
  if (places == 1) return r;
  const auto [row, place] = divided(r, places);
  return place * divided(rows, places).row + row;
}

template <int kTeam>
struct NormTeam {
  static constexpr int kThreads = 256;
  static constexpr int kRows = kThreads / kTeam;  // of a block
  static constexpr std::int64_t kSharedBytes = kTeam == 32 ? 0 : 2 * 128;

  PHALANX_DEVICE static std::int64_t row(const Thread& t) {
    return t.block() * kRows + t.index() / kTeam;
  }
  // The first element of the j-th pack of this thread.
  PHALANX_DEVICE static std::int64_t pack(const Thread& t, int j) {
    return (t.index() % kTeam + std::int64_t{j} * kTeam) * 8;
  }
  PHALANX_DEVICE static float sum(Thread& t, float value, float* parts) {
    if constexpr (kTeam == 32) {
      return warp_sum(t, value);
    } else {
      return block_sum(t, value, parts);
    }
  }
};

// Packs of a thread that stay in registers.
inline constexpr int kKeptPacks = 4;

struct NormForwardShape {
  std::int64_t rows;  // all places of all rows
  std::int64_t places;
  std::int64_t columns;
  NormRows y_rows;
  NormRows x_rows;
  bool zero_centred;
  bool packed;
};

// y = (x - mean) rstd weight + bias of one pack; without a mean, x rstd weight.
template <typename T, typename Params>
PHALANX_DEVICE void normalise8(const Params& p, T* y, std::int64_t i, float mean, float rstd,
                               float (&x)[8]) {
  float weight[8];
  float bias[8];
  load8(p.weight, i, p.shape.columns, p.shape.packed, weight);
  const bool has_mean = p.mean != nullptr;
  if (has_mean) load8(p.bias, i, p.shape.columns, p.shape.packed, bias);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const float factor = p.shape.zero_centred ? 1.0F + weight[e] : weight[e];
    if (has_mean) {
      x[e] = fma_of((x[e] - mean) * rstd, factor, bias[e]);
    } else {
      x[e] = x[e] * rstd * factor;
    }
  }
  store8(y, i, p.shape.columns, p.shape.packed, x);
}

template <typename T, typename Stream, int kTeam, bool kKept>
struct NormForwardKernel : NormTeam<kTeam> {
  using Team = NormTeam<kTeam>;
  struct Params {
    NormForwardShape shape;
    T* y;
    const Stream* x;
    const T* weight;
    const T* bias;  // null without mean
    float* mean;    // null: an RMS norm
    float* rstd;
    float epsilon;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return Team::kSharedBytes; }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t r = Team::row(t);
    if (r >= p.shape.rows) return;  // a whole warp; a team of 256 has always a row
    float* mean_parts = nullptr;
    float* square_parts = nullptr;
    if constexpr (kTeam != 32) {
      mean_parts = t.template shared<float>(8);
      square_parts = t.template shared<float>(8);
    }
    const std::int64_t columns = p.shape.columns;
    const Stream* x = p.x + p.shape.x_rows.at(r, p.shape.places);
    T* y = p.y + p.shape.y_rows.at(r, p.shape.places);
    const auto count = static_cast<float>(columns);
    Stored8<Stream> kept[kKept ? kKeptPacks : 1];
    if constexpr (kKept) {
#pragma unroll
      for (int j = 0; j < kKeptPacks; ++j) {
        if (Team::pack(t, j) < columns) {
          load_stored8(x, Team::pack(t, j), columns, p.shape.packed, kept[j]);
        }
      }
    }
    // use(first element of the pack, its elements), for all packs of this thread.
    const auto for_packs = [&](auto use) {
      float values[8];
      if constexpr (kKept) {
#pragma unroll
        for (int j = 0; j < kKeptPacks; ++j) {
          if (Team::pack(t, j) < columns) {
            to_floats(kept[j], values);
            use(Team::pack(t, j), values);
          }
        }
      } else {
        for (int j = 0; Team::pack(t, j) < columns; ++j) {
          load8(x, Team::pack(t, j), columns, p.shape.packed, values);
          use(Team::pack(t, j), values);
        }
      }
    };
    float mean = 0.0F;
    if (p.mean != nullptr) {
      float sum = 0.0F;
      for_packs([&](std::int64_t /*i*/, const float(&values)[8]) {
#pragma unroll
        for (int e = 0; e < 8; ++e) sum += values[e];
      });
      mean = Team::sum(t, sum, mean_parts) / count;
    }
    float squares = 0.0F;
    for_packs([&](std::int64_t i, const float(&values)[8]) {
      const int inside = columns - i < 8 ? static_cast<int>(columns - i) : 8;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float centred = e < inside ? values[e] - mean : 0.0F;
        squares = fma_of(centred, centred, squares);
      }
    });
    const float variance = Team::sum(t, squares, square_parts) / count;
    const float rstd = 1.0F / sqrt_of(variance + p.epsilon);
    if (t.index() % kTeam == 0) {
      const std::int64_t s = statistic_of(r, p.shape.places, p.shape.rows);
      if (p.mean != nullptr) p.mean[s] = mean;
      p.rstd[s] = rstd;
    }
    for_packs([&](std::int64_t i, float(&values)[8]) { normalise8(p, y, i, mean, rstd, values); });
  }
};

template <typename T, typename Stream>
struct NormApplyKernel : NormTeam<32> {
  using Team = NormTeam<32>;
  struct Params {
    NormForwardShape shape;
    T* y;
    const Stream* x;
    const T* weight;
    const T* bias;
    const float* mean;
    const float* rstd;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return 0; }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t r = Team::row(t);
    if (r >= p.shape.rows) return;
    const Stream* x = p.x + p.shape.x_rows.at(r, p.shape.places);
    T* y = p.y + p.shape.y_rows.at(r, p.shape.places);
    const std::int64_t s = statistic_of(r, p.shape.places, p.shape.rows);
    const float mean = p.mean != nullptr ? p.mean[s] : 0.0F;
    const float rstd = p.rstd[s];
    for (int j = 0; Team::pack(t, j) < p.shape.columns; ++j) {
      float values[8];
      load8(x, Team::pack(t, j), p.shape.columns, p.shape.packed, values);
      normalise8(p, y, Team::pack(t, j), mean, rstd, values);
    }
  }
};

// With g = dy weight and n the normalised row: dx = rstd (g - mean(g) - n mean(g n)), without
// mean(g) in RMS norms; then round(dx) + residual.
template <typename T, typename Stream, int kTeam>
struct NormBackwardKernel : NormTeam<kTeam> {
  using Team = NormTeam<kTeam>;
  struct Params {
    std::int64_t rows;
    std::int64_t places;
    std::int64_t columns;
    NormRows dx_rows;
    NormRows dy_rows;
    NormRows x_rows;
    NormRows residual_rows;
    Stream* dx;
    const T* dy;
    const Stream* x;
    const float* mean;
    const float* rstd;
    const T* weight;
    const Stream* residual;  // may be null, or dx
    bool zero_centred;
    bool packed;
  };
  static std::int64_t shared_bytes(const Params& /*p*/) { return Team::kSharedBytes; }

  PHALANX_DEVICE static void run(Thread& t, const Params& p) {
    const std::int64_t r = Team::row(t);
    if (r >= p.rows) return;
    float* gradient_parts = nullptr;
    float* product_parts = nullptr;
    if constexpr (kTeam != 32) {
      gradient_parts = t.template shared<float>(8);
      product_parts = t.template shared<float>(8);
    }
    const Stream* x = p.x + p.x_rows.at(r, p.places);
    const T* dy = p.dy + p.dy_rows.at(r, p.places);
    const bool has_mean = p.mean != nullptr;
    const std::int64_t s = statistic_of(r, p.places, p.rows);
    const float mean = has_mean ? p.mean[s] : 0.0F;
    const float rstd = p.rstd[s];
    // use(first element, n, g) for the packs of this thread, which are read again each time: in
    // registers they would leave room for half as many threads.
    const auto for_packs = [&](auto use) {
      for (int j = 0; Team::pack(t, j) < p.columns; ++j) {
        const std::int64_t i = Team::pack(t, j);
        Stored8<Stream> stored_x;
        Stored8<T> stored_dy;
        Stored8<T> stored_weight;
        load_stored8(x, i, p.columns, p.packed, stored_x);
        load_stored8(dy, i, p.columns, p.packed, stored_dy);
        load_stored8(p.weight, i, p.columns, p.packed, stored_weight);
        float normalised[8];
        float gradient[8];
        float weight[8];
        to_floats(stored_x, normalised);
        to_floats(stored_dy, gradient);
        to_floats(stored_weight, weight);
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          normalised[e] = (normalised[e] - mean) * rstd;
          gradient[e] *= p.zero_centred ? 1.0F + weight[e] : weight[e];
        }
        use(i, normalised, gradient);
      }
    };
    float gradients = 0.0F;
    float products = 0.0F;
    for_packs([&](std::int64_t /*i*/, const float(&n)[8], const float(&g)[8]) {
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        gradients += g[e];  // beyond the row dy is 0
        products = fma_of(g[e], n[e], products);
      }
    });
    const float inverse = 1.0F / static_cast<float>(p.columns);
    const float mean_product = Team::sum(t, products, product_parts) * inverse;
    const float mean_gradient = has_mean ? Team::sum(t, gradients, gradient_parts) * inverse : 0.0F;
    Stream* dx = p.dx + p.dx_rows.at(r, p.places);
    const Stream* residual =
        p.residual == nullptr ? nullptr : p.residual + p.residual_rows.at(r, p.places);
    for_packs([&](std::int64_t i, const float(&n)[8], const float(&g)[8]) {
      float result[8];
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        const float scaled = has_mean ? g[e] - mean_gradient : g[e];
        result[e] = rstd * fma_of(-n[e], mean_product, scaled);
      }
      if (residual != nullptr) {
        float more[8];
        load8(residual, i, p.columns, p.packed, more);
#pragma unroll
        for (int e = 0; e < 8; ++e) result[e] = rounded<Stream>(result[e]) + more[e];
      }
      store8(dx, i, p.columns, p.packed, result);
    });
  }
};

}  // namespace phalanx::cuda
