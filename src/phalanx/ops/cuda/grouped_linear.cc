#include "phalanx/ops/cuda/grouped_linear.h"

#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/grouped_linear-inl.h"
#include "phalanx/ops/cuda/grouped_linear_mma-inl.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

RowGroups groups_of(const GroupedRows& groups) {
  return {groups.offsets, groups.groups, groups.rows};
}

bool can_pack(const GroupedMatrices& matrices) {
  return can_pack(matrices.stride, matrices.data) && can_pack(matrices.k, matrices.data);
}

void check_types(std::string_view op, DType type, DType other) {
  PHALANX_CHECK(type == other, "{}: {} beside {}", op, name_of(other), name_of(type));
}

// Whether tensor cores take matrices [n, k]: 16-bit types in whole chunks of 16 bytes.
template <typename... Operands>
bool can_use_tensor_cores(DType type, const GroupedMatrices& matrices, const Operands&... rows) {
  constexpr std::int64_t kChunk = 8;
  return size_of(type) == 2 && matrices.n > 0 && matrices.n % kChunk == 0 && matrices.k > 0 &&
         matrices.k % kChunk == 0 && can_pack(matrices) && (can_pack(rows) && ...);
}

// Calls use(TypeTag<T>()) with a 16-bit type.
template <typename Use>
void with_16_bits(DType type, const Use& use) {
  if (type == DType::kBF16) {
    use(TypeTag<bf16>());
  } else {
    use(TypeTag<fp16>());
  }
}

struct ProductCall {
  const GroupedRows& groups;
  const TypedRows& out;
  const TypedRows& in;
  const GroupedMatrices& weight;
  const TypedRows& bias;
  const float* factors;
};

// Tiles of 64 rows leave less of them empty where groups are small; the bits are the same.
template <typename T, bool kTransposed, int kRows>
void multiply_on_tensor_cores(const CudaContext& context, const ProductCall& call) {
  using Instance = GroupedMmaProductKernel<T, kRows, kTransposed>;
  const std::int64_t columns = kTransposed ? call.weight.k : call.weight.n;
  launch<Instance>(context.queue,
                   {ceil_div(columns, Instance::kColumns),
                    most_row_tiles(call.groups.rows, call.groups.groups, kRows)},
                   {as<T>(call.out.data), as<const T>(call.in.data), as<const T>(call.weight.data),
                    call.out.stride, call.in.stride, call.weight.stride, columns,
                    kTransposed ? call.weight.n : call.weight.k, as<const T>(call.bias.data),
                    call.bias.stride, call.factors, groups_of(call.groups)});
}

template <bool kTransposed>
void multiply_in_fp32(const CudaContext& context, std::string_view op, const ProductCall& call) {
  const auto& [groups, out, in, weight, bias, factors] = call;
  const std::int64_t most = most_row_tiles(groups.rows, groups.groups, RowTilesKernel::kRows);
  auto* tiles = reinterpret_cast<RowTile*>(
      take_scratch(context, op, row_tiles_scratch_bytes(groups.rows, groups.groups)));
  if (most == 0) return;
  launch<RowTilesKernel>(context.queue, {}, {tiles, most, groups_of(groups)});
  const std::int64_t columns = kTransposed ? weight.k : weight.n;
  const std::int64_t depth = kTransposed ? weight.n : weight.k;
  const bool packed = can_pack(in) && can_pack(weight);
  with_storage(op, out.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = GroupedProductKernel<T, kTransposed>;
    launch<Instance>(
        context.queue, {most, ceil_div(columns, Instance::kSide)},
        {as<T>(call.out.data), as<const T>(call.in.data), as<const T>(call.weight.data),
         call.out.stride, call.in.stride, call.weight.stride, columns, depth,
         as<const T>(call.bias.data), call.bias.stride, call.factors, tiles, packed});
  });
}

// out = in W^T, or in W.
template <bool kTransposed>
void multiply(const CudaContext& context, std::string_view op, const ProductCall& call) {
  const DType type = call.out.data.type;
  check_types(op, type, call.in.data.type);
  check_types(op, type, call.weight.data.type);
  if (!can_use_tensor_cores(type, call.weight, call.in, call.out)) {
    return multiply_in_fp32<kTransposed>(context, op, call);
  }
  constexpr int kMany = 128;
  with_16_bits(type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    if (call.groups.rows >= kMany * call.groups.groups) {
      multiply_on_tensor_cores<T, kTransposed, kMany>(context, call);
    } else {
      multiply_on_tensor_cores<T, kTransposed, 64>(context, call);
    }
  });
}

}  // namespace

void grouped_linear_forward(const CudaContext& context, const GroupedRows& groups,
                            const TypedRows& y, const TypedRows& x, const GroupedMatrices& weight,
                            const TypedRows& bias, const float* factors) {
  if (bias) check_types("grouped_linear_forward", y.data.type, bias.data.type);
  multiply<false>(context, "grouped_linear_forward", {groups, y, x, weight, bias, factors});
}

void grouped_linear_input_gradient(const CudaContext& context, const GroupedRows& groups,
                                   const TypedRows& dx, const TypedRows& dy,
                                   const GroupedMatrices& weight) {
  multiply<true>(context, "grouped_linear_input_gradient", {groups, dx, dy, weight, {}, nullptr});
}

void grouped_linear_weight_gradient(const CudaContext& context, const GroupedRows& groups,
                                    const GroupedMatrices& dweight, const TypedRows& dy,
                                    const TypedRows& x, bool accumulate) {
  constexpr std::string_view kOp = "grouped_linear_weight_gradient";
  check_types(kOp, dy.data.type, x.data.type);
  check_types(kOp, dweight.data.type, DType::kF32);
  if (can_use_tensor_cores(x.data.type, dweight, dy, x)) {
    return with_16_bits(x.data.type, [&](auto tag) {
      using T = typename decltype(tag)::Type;
      using Instance = GroupedMmaWeightGradientKernel<T>;
      launch<Instance>(
          context.queue,
          {ceil_div(dweight.k, Instance::kSide), ceil_div(dweight.n, Instance::kSide),
           groups.groups},
          {as<float>(dweight.data), as<const T>(dy.data), as<const T>(x.data), dweight.stride,
           dy.stride, x.stride, dweight.n, dweight.k, groups_of(groups), accumulate});
    });
  }
  with_storage(kOp, x.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = GroupedWeightGradientKernel<T>;
    launch<Instance>(
        context.queue,
        {ceil_div(dweight.k, Instance::kSide), ceil_div(dweight.n, Instance::kSide), groups.groups},
        {as<float>(dweight.data), as<const T>(dy.data), as<const T>(x.data), dweight.stride,
         dy.stride, x.stride, dweight.n, dweight.k, groups_of(groups), accumulate,
         can_pack(dy) && can_pack(x)});
  });
}

void grouped_bias_gradient(const CudaContext& context, const GroupedRows& groups,
                           const TypedRows& dbias, const TypedRows& dy, std::int64_t columns,
                           const float* factors, bool accumulate) {
  check_types("grouped_bias_gradient", dbias.data.type, DType::kF32);
  with_storage("grouped_bias_gradient", dy.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = GroupedBiasGradientKernel<T>;
    launch<Instance>(context.queue, {ceil_div(columns, Instance::kThreads), groups.groups},
                     {as<float>(dbias.data), as<const T>(dy.data), factors, dbias.stride, dy.stride,
                      columns, groups_of(groups), accumulate});
  });
}

void grouped_bias_dots(const CudaContext& context, const GroupedRows& groups, float* dots,
                       const TypedRows& dy, const TypedRows& bias, std::int64_t columns) {
  check_types("grouped_bias_dots", dy.data.type, bias.data.type);
  with_storage("grouped_bias_dots", dy.data.type, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using Instance = GroupedBiasDotsKernel<T>;
    launch<Instance>(context.queue, {ceil_div(groups.rows, Instance::kRows)},
                     {dots, as<const T>(dy.data), as<const T>(bias.data), dy.stride, bias.stride,
                      columns, groups_of(groups), can_pack(dy) && can_pack(bias)});
  });
}

}  // namespace phalanx::cuda
