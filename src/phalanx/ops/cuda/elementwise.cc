#include "phalanx/ops/cuda/elementwise.h"

#include <bit>

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/elementwise-inl.h"

namespace phalanx::cuda {
namespace {

Grid grid_of(std::int64_t n) { return {ceil_div(n, ByEight::kElements)}; }

template <typename Bits>
void fill_bits(const CudaContext& context, TypedAddress x, std::int64_t n, Bits bits) {
  launch<FillKernel<Bits>>(context.queue, grid_of(n), {as<Bits>(x), n, bits, can_pack(8, x)});
}

// Calls use(TypeTag<an unsigned type of that size>()).
template <typename Use>
void with_bits(DType type, const Use& use) {
  switch (size_of(type)) {
    case 1:
      return use(TypeTag<std::uint8_t>());
    case 2:
      return use(TypeTag<std::uint16_t>());
    case 4:
      return use(TypeTag<std::uint32_t>());
    default:
      return use(TypeTag<std::uint64_t>());
  }
}

// Calls use(TypeTag<D>(), TypeTag<S>()) for two different storage types.
template <typename Use>
void with_pair(std::string_view op, DType destination, DType source, const Use& use) {
  with_storage(op, destination, [&]<typename D>(TypeTag<D> d) {
    with_storage(op, source, [&]<typename S>(TypeTag<S> s) {
      if constexpr (!std::is_same_v<D, S>) use(d, s);
    });
  });
}

}  // namespace

void fill(const CudaContext& context, TypedAddress x, std::int64_t n, double value) {
  switch (x.type) {
    case DType::kF64:
      return fill_bits(context, x, n, std::bit_cast<std::uint64_t>(value));
    case DType::kF32:
      return fill_bits(context, x, n, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    case DType::kBF16:
      return fill_bits(context, x, n, bf16_of(static_cast<float>(value)).bits);
    case DType::kF16:
      return fill_bits(context, x, n, fp16_of(static_cast<float>(value)).bits);
    case DType::kI64:
      return fill_bits(context, x, n, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
    case DType::kI32:
      return fill_bits(context, x, n, static_cast<std::uint32_t>(static_cast<std::int32_t>(value)));
    case DType::kU8:
      return set_bytes(context.queue, x.at, static_cast<std::uint8_t>(value), n);
  }
}

void convert(const CudaContext& context, TypedAddress destination, TypedAddress source,
             std::int64_t n) {
  if (destination.type == source.type) {
    return copy(context.queue, destination.at, source.at, n * size_of(source.type));
  }
  const bool packed = can_pack(8, destination, source);
  with_pair("copy", destination.type, source.type, [&](auto d, auto s) {
    using D = typename decltype(d)::Type;
    using S = typename decltype(s)::Type;
    launch<ConvertKernel<D, S>>(context.queue, grid_of(n),
                                {as<D>(destination), as<const S>(source), n, packed});
  });
}

void copy_strided(const CudaContext& context, TypedAddress destination, TypedAddress source,
                  const StridedShape& shape) {
  PHALANX_CHECK(shape.dims >= 0 && shape.dims <= 6, "copy: {} dimensions", shape.dims);
  std::int64_t n = 1;
  for (int d = 0; d < shape.dims; ++d) n *= shape.extents[static_cast<std::size_t>(d)];
  const auto run = [&](auto d, auto s) {
    using D = typename decltype(d)::Type;
    using S = typename decltype(s)::Type;
    typename StridedCopyKernel<D, S>::Params params{};
    params.destination = as<D>(destination);
    params.source = as<const S>(source);
    params.n = n;
    params.dims = shape.dims;
    for (int i = 0; i < shape.dims; ++i) {
      params.extents[i] = shape.extents[static_cast<std::size_t>(i)];
      params.to[i] = shape.destination[static_cast<std::size_t>(i)];
      params.from[i] = shape.source[static_cast<std::size_t>(i)];
    }
    launch<StridedCopyKernel<D, S>>(context.queue, {ceil_div(n, StridedCopyKernel<D, S>::kThreads)},
                                    params);
  };
  if (destination.type == source.type) {
    with_bits(source.type, [&](auto bits) { run(bits, bits); });
  } else {
    with_pair("copy", destination.type, source.type, run);
  }
}

void accumulate(const CudaContext& context, TypedAddress destination, TypedAddress source,
                std::int64_t n) {
  const auto exact = [&](auto tag) {
    using T = typename decltype(tag)::Type;
    PHALANX_CHECK(source.type == destination.type, "accumulate: {} to {}", name_of(source.type),
                  name_of(destination.type));
    launch<AccumulateExactKernel<T>>(context.queue, grid_of(n),
                                     {as<T>(destination), as<const T>(source), n, false});
  };
  switch (destination.type) {
    case DType::kF64:
      return exact(TypeTag<double>());
    case DType::kI64:
      return exact(TypeTag<std::int64_t>());
    case DType::kI32:
      return exact(TypeTag<std::int32_t>());
    default:
      break;
  }
  const bool packed = can_pack(8, destination, source);
  with_storage("accumulate", destination.type, [&](auto d) {
    with_storage("accumulate", source.type, [&](auto s) {
      using D = typename decltype(d)::Type;
      using S = typename decltype(s)::Type;
      launch<AccumulateKernel<D, S>>(context.queue, grid_of(n),
                                     {as<D>(destination), as<const S>(source), n, packed});
    });
  });
}

void scale(const CudaContext& context, TypedAddress y, TypedAddress x, std::int64_t n,
           double factor) {
  PHALANX_CHECK(y.type == x.type, "scale: {} to {}", name_of(x.type), name_of(y.type));
  with_storage("scale", x.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    launch<ScaleKernel<T>>(
        context.queue, grid_of(n),
        {as<T>(y), as<const T>(x), n, static_cast<float>(factor), can_pack(8, y, x)});
  });
}

}  // namespace phalanx::cuda
