// Activations of blocks of a row. Included once per target.

#include <array>
#include <cstdint>

#include "phalanx/ops/activation.h"

// Has toggles of its own.
#include "phalanx/ops/cpu/activation-inl.h"
#include "phalanx/ops/cpu/storage-inl.h"

#if defined(PHALANX_OPS_CPU_ACTIVATION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHALANX_OPS_CPU_ACTIVATION_BLOCKS_INL_H_
#undef PHALANX_OPS_CPU_ACTIVATION_BLOCKS_INL_H_
#else
#define PHALANX_OPS_CPU_ACTIVATION_BLOCKS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace phalanx::cpu::HWY_NAMESPACE {

// Columns of a row at a time: read as floats into the first-level cache, computed on there,
// written. So a form is compiled once for all storage types. While a block is computed the next
// columns come from memory.
constexpr std::int64_t kColumnBlock = 256;
using FloatBlock = std::array<float, kColumnBlock>;

template <typename T>
HWY_INLINE void prefetch_next(const T* columns) {
  prefetch(columns, kColumnBlock * static_cast<std::int64_t>(sizeof(T)));
}

// to = x + bias, where there is a bias; whole vectors are written, with zeros beyond `count`.
template <typename T>
HWY_NOINLINE void read(const T* x, const T* bias, std::int64_t count, FloatBlock& to) {
  if (bias == nullptr) {
    for_vectors(0, count, [&](std::int64_t i, auto lanes) HWY_ATTR {
      prefetch_next(x + i);
      store(lanes.load(x + i), to.data() + i);
    });
  } else {
    for_vectors(0, count, [&](std::int64_t i, auto lanes) HWY_ATTR {
      prefetch_next(x + i);
      store(hn::Add(lanes.load(x + i), lanes.load(bias + i)), to.data() + i);
    });
  }
}
template <typename T>
void write(const FloatBlock& from, std::int64_t count, T* to) {
  for_vectors(0, count, [&](std::int64_t i, auto lanes) HWY_ATTR {
    prefetch_next(to + i);
    lanes.store(load(from.data() + i), to + i);
  });
}

// x = body(x) or body(x, y), vector by vector.
template <typename Body, typename... Others>
HWY_INLINE void transform(std::int64_t count, const Body& body, FloatBlock& x,
                          const Others&... others) {
  for (std::int64_t i = 0; i < count; i += lane_count()) {
    store(body(load(x.data() + i), load(others.data() + i)...), x.data() + i);
  }
}
template <typename Block>
HWY_NOINLINE void multiply(std::int64_t count, Block& x, const Block& y) {
  const auto product = [](FloatVector a, FloatVector b) HWY_ATTR { return hn::Mul(a, b); };
  transform(count, product, x, y);
}

// An activation and its derivative, which replace x; or both, of one exponential.
struct BlockForm {
  void (*value)(std::int64_t count, FloatBlock& x);
  void (*derivative)(std::int64_t count, FloatBlock& x);
  void (*both)(std::int64_t count, FloatBlock& x, FloatBlock& derivative);
};
template <typename Form>
void values(std::int64_t count, FloatBlock& x) {
  transform(
      count, [](FloatVector v) HWY_ATTR { return Form::value(v); }, x);
}
template <typename Form>
void derivatives(std::int64_t count, FloatBlock& x) {
  transform(
      count, [](FloatVector v) HWY_ATTR { return Form::derivative(v); }, x);
}
template <typename Form>
void values_and_derivatives(std::int64_t count, FloatBlock& x, FloatBlock& derivative) {
  for (std::int64_t i = 0; i < count; i += lane_count()) {
    const auto v = load(x.data() + i);
    store(Form::derivative(v), derivative.data() + i);
    store(Form::value(v), x.data() + i);
  }
}
inline BlockForm form_of(ops::ActivationKind kind) {
  BlockForm form{};
  with_form(kind, [&](auto type) HWY_ATTR {
    using Form = decltype(type);
    form = {values<Form>, derivatives<Form>, values_and_derivatives<Form>};
  });
  return form;
}

template <typename T>
const T* offset(const T* from, std::int64_t by) {
  return from == nullptr ? nullptr : from + by;
}

}  // namespace phalanx::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target toggle
