#include "phalanx/ops/cpu/product_epilogue.h"

// clang-format off
#include "phalanx/ops/cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "phalanx/ops/cpu/product_epilogue.cc"
#include "hwy/foreach_target.h"
// clang-format on

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/activation-inl.h"
#include "phalanx/ops/cpu/storage-inl.h"
#include "phalanx/ops/cpu/transpose-inl.h"

#ifndef PHALANX_OPS_CPU_PRODUCT_EPILOGUE_ONCE
#define PHALANX_OPS_CPU_PRODUCT_EPILOGUE_ONCE
namespace phalanx::cpu {
template <typename T>
T* row_of(const EpilogueRows& rows, std::int64_t row, std::int64_t column) {
  return reinterpret_cast<T*>(rows.data) + row * rows.stride + column;
}
}  // namespace phalanx::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Calls body(row of the sums, lanes, column, sums) for all sums.
template <typename Body>
HWY_INLINE void for_sums(const FinishedSums& f, const Body& body) {
  for (std::int64_t r = 0; r < f.rows; ++r) {
    const float* row = f.sums + r * f.stride;
    for_vectors(0, f.columns, [&](std::int64_t i, auto lanes) HWY_ATTR {
      body(r, lanes, i, lanes.load(row + i));
    });
  }
}

template <typename T, typename Bias>
HWY_INLINE void store_sums(const Epilogue& e, const FinishedSums& f) {
  if (e.has_bias && e.bias_factors != nullptr) {
    const auto* bias = reinterpret_cast<const Bias*>(e.bias) + f.column;
    for_sums(f, [&](std::int64_t r, auto lanes, std::int64_t i, auto sum) HWY_ATTR {
      const auto factor = hn::Set(FloatTag(), e.bias_factors[f.row + r]);
      lanes.store(hn::MulAdd(factor, lanes.load(bias + i), sum),
                  row_of<T>(e.c, f.row + r, f.column) + i);
    });
  } else if (e.has_bias) {
    const auto* bias = reinterpret_cast<const Bias*>(e.bias) + f.column;
    for_sums(f, [&](std::int64_t r, auto lanes, std::int64_t i, auto sum) HWY_ATTR {
      lanes.store(hn::Add(sum, lanes.load(bias + i)), row_of<T>(e.c, f.row + r, f.column) + i);
    });
  } else if (e.accumulate) {
    for_sums(f, [&](std::int64_t r, auto lanes, std::int64_t i, auto sum) HWY_ATTR {
      T* to = row_of<T>(e.c, f.row + r, f.column) + i;
      lanes.store(hn::Add(lanes.load(to), sum), to);
    });
  } else {
    for_sums(f, [&](std::int64_t r, auto lanes, std::int64_t i, auto sum)
                    HWY_ATTR { lanes.store(sum, row_of<T>(e.c, f.row + r, f.column) + i); });
  }
}

// Prefetches later rows of both matrices while an activation is computed.
template <typename T>
HWY_INLINE void prefetch_rows(const Epilogue& e, const FinishedSums& f, std::int64_t r,
                              std::int64_t i) {
  constexpr std::int64_t kAhead = 4;
  prefetch(row_of<const T>(e.c, f.row + r + kAhead, f.column) + i, 0);
  prefetch(row_of<const T>(e.other, f.row + r + kAhead, f.column) + i, 0);
}

template <typename Form, typename T>
HWY_INLINE void activate(const Epilogue& e, const FinishedSums& f) {
  const auto* bias = reinterpret_cast<const T*>(e.bias) + f.column;
  const auto* inner = reinterpret_cast<const T*>(e.activation_bias) + f.column;
  for_sums(f, [&](std::int64_t r, auto lanes, std::int64_t i, auto sum) HWY_ATTR {
    prefetch_rows<T>(e, f, r, i);
    if (e.has_bias) sum = hn::Add(sum, lanes.load(bias + i));
    auto x = round_to<T>(sum);
    lanes.store(x, row_of<T>(e.c, f.row + r, f.column) + i);
    if (e.activation_bias != nullptr) x = hn::Add(x, lanes.load(inner + i));
    lanes.store(Form::value(x), row_of<T>(e.other, f.row + r, f.column) + i);
  });
}

template <typename Form, typename T>
HWY_INLINE void differentiate(const Epilogue& e, const FinishedSums& f) {
  const auto* inner = reinterpret_cast<const T*>(e.activation_bias) + f.column;
  for_sums(f, [&](std::int64_t r, auto lanes, std::int64_t i, auto sum) HWY_ATTR {
    prefetch_rows<T>(e, f, r, i);
    auto x = lanes.load(row_of<const T>(e.other, f.row + r, f.column) + i);
    if (e.activation_bias != nullptr) x = hn::Add(x, lanes.load(inner + i));
    lanes.store(hn::Mul(round_to<T>(sum), Form::derivative(x)),
                row_of<T>(e.c, f.row + r, f.column) + i);
  });
}

template <typename Form, typename T>
HWY_INLINE void finish_activation(const Epilogue& e, const FinishedSums& f) {
  if (e.kind == Epilogue::Kind::kActivation) {
    activate<Form, T>(e, f);
  } else {
    differentiate<Form, T>(e, f);
  }
}

void finish_sums(const Epilogue& e, const FinishedSums& f) {
  with_storage(e.c.dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    if (e.kind != Epilogue::Kind::kStore) {
      with_form(e.activation,
                [&](auto form) HWY_ATTR { finish_activation<decltype(form), T>(e, f); });
      return;
    }
    with_storage(e.bias_dtype,
                 [&](auto bias_type) HWY_ATTR { store_sums<T, decltype(bias_type)>(e, f); });
  });
}

void transpose_padded(const float* from, std::int64_t from_stride, std::int64_t rows,
                      std::int64_t columns, float* to, std::int64_t to_stride) {
  transpose(from, from_stride, round_up(rows, lane_count()), round_up(columns, kTransposed), to,
            to_stride);
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phalanx::cpu {

HWY_EXPORT(finish_sums);
HWY_EXPORT(transpose_padded);

void finish(const Epilogue& epilogue, const FinishedSums& sums) {
  HWY_DYNAMIC_DISPATCH(finish_sums)(epilogue, sums);
}
void transpose_sums(const float* from, std::int64_t from_stride, std::int64_t rows,
                    std::int64_t columns, float* to, std::int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(transpose_padded)(from, from_stride, rows, columns, to, to_stride);
}

}  // namespace phalanx::cpu
#endif  // HWY_ONCE
