#include "phalanx/ops/cuda/norm.h"

#include "phalanx/ops/cuda/column_sums-inl.h"
#include "phalanx/ops/cuda/column_sums.h"
#include "phalanx/ops/cuda/dispatch.h"
#include "phalanx/ops/cuda/scratch.h"

namespace phalanx::cuda {
namespace {

// Columns up to here stay in the registers of a warp, and of a block of 256.
constexpr std::int64_t kWarpColumns = std::int64_t{32} * 8 * kKeptPacks;
constexpr std::int64_t kBlockColumns = std::int64_t{256} * 8 * kKeptPacks;

NormRows rows_of(const NormOperand& operand) { return {operand.row_stride, operand.place_stride}; }

bool packs(std::int64_t columns, const NormOperand& operand) {
  return can_pack(columns, operand.data) && can_pack(operand.row_stride, operand.data) &&
         can_pack(operand.place_stride, operand.data);
}

void check_rows(const NormShape& shape) {
  PHALANX_CHECK(shape.rows * shape.places < std::int64_t{1} << 31, "norm: {} rows of {} places",
                shape.rows, shape.places);
}

void check_call(const NormForwardCall& call) {
  check_rows(call.shape);
  PHALANX_CHECK(
      call.weight.type == call.y.data.type && (!call.bias || call.bias.type == call.y.data.type),
      "norm: a weight of {} beside {}", name_of(call.weight.type), name_of(call.y.data.type));
  PHALANX_CHECK((call.mean != nullptr) == static_cast<bool>(call.bias),
                "norm: a layer norm has a mean and a bias");
}

NormForwardShape forward_shape(const NormForwardCall& call) {
  const std::int64_t columns = call.shape.columns;
  return {call.shape.rows * call.shape.places,
          call.shape.places,
          columns,
          rows_of(call.y),
          rows_of(call.x),
          call.zero_centred,
          packs(columns, call.y) && packs(columns, call.x) &&
              can_pack(columns, call.weight, call.bias)};
}

template <typename Instance, typename Params>
void launch_team(Queue queue, std::int64_t rows, const Params& params) {
  launch<Instance>(queue, {ceil_div(rows, Instance::kRows)}, params);
}

// Calls with_kernel of the team that the columns ask for: use(team, whether rows are kept).
template <typename Use>
void with_team(std::int64_t columns, const Use& use) {
  if (columns <= kWarpColumns) {
    use(std::integral_constant<int, 32>(), std::true_type());
  } else if (columns <= kBlockColumns) {
    use(std::integral_constant<int, 256>(), std::true_type());
  } else {
    use(std::integral_constant<int, 256>(), std::false_type());
  }
}

}  // namespace

void norm_forward(const CudaContext& context, const NormForwardCall& call) {
  check_call(call);
  with_stream("norm_forward", call.y.data.type, call.x.data.type, [&](auto type, auto stream) {
    using T = typename decltype(type)::Type;
    using Stream = typename decltype(stream)::Type;
    with_team(call.shape.columns, [&](auto team, auto kept) {
      using Instance = NormForwardKernel<T, Stream, decltype(team)::value, decltype(kept)::value>;
      const NormForwardShape shape = forward_shape(call);
      launch_team<Instance>(
          context.queue, shape.rows,
          typename Instance::Params{shape, as<T>(call.y.data), as<const Stream>(call.x.data),
                                    as<const T>(call.weight), as<const T>(call.bias), call.mean,
                                    call.rstd, static_cast<float>(call.epsilon)});
    });
  });
}

void norm_apply(const CudaContext& context, const NormForwardCall& call) {
  check_call(call);
  with_stream("norm_apply", call.y.data.type, call.x.data.type, [&](auto type, auto stream) {
    using T = typename decltype(type)::Type;
    using Stream = typename decltype(stream)::Type;
    using Instance = NormApplyKernel<T, Stream>;
    const NormForwardShape shape = forward_shape(call);
    launch_team<Instance>(
        context.queue, shape.rows,
        typename Instance::Params{shape, as<T>(call.y.data), as<const Stream>(call.x.data),
                                  as<const T>(call.weight), as<const T>(call.bias), call.mean,
                                  call.rstd});
  });
}

void norm_backward(const CudaContext& context, const NormBackwardCall& call) {
  check_rows(call.shape);
  const std::int64_t rows = call.shape.rows * call.shape.places;
  const std::int64_t columns = call.shape.columns;
  PHALANX_CHECK(call.dx.data.type == call.x.data.type &&
                    (!call.residual.data || call.residual.data.type == call.x.data.type),
                "norm_backward: dx of {} beside {}", name_of(call.dx.data.type),
                name_of(call.x.data.type));
  auto* parts = reinterpret_cast<float*>(
      take_scratch(context, "norm_backward", norm_backward_scratch(rows, columns)));
  with_stream("norm_backward", call.dy.data.type, call.x.data.type, [&](auto type, auto stream) {
    using T = typename decltype(type)::Type;
    using Stream = typename decltype(stream)::Type;
    // The sums first: dx may lie over a residual, never over x or dy.
    using Parts = ColumnPartsKernel<T, Stream, true>;
    const std::int64_t part_rows = rows_of_part(rows);
    launch<Parts>(context.queue, {ceil_div(columns, Parts::kColumns), parts_of(rows)},
                  {rows, call.shape.places, columns, part_rows, rows_of(call.dy), rows_of(call.x),
                   as<const T>(call.dy.data), as<const Stream>(call.x.data), call.mean, call.rstd,
                   parts, packs(8, call.dy) && packs(8, call.x)});
    const auto join = [&](float* sum, std::int64_t which) {
      launch<JoinPartsKernel>(
          context.queue, {ceil_div(columns, JoinPartsKernel::kThreads)},
          {sum, parts + which * columns, columns, parts_of(rows), 2 * columns, false});
    };
    if (call.dbias != nullptr) join(call.dbias, 0);
    join(call.dweight, 1);
    const bool packed = packs(columns, call.dx) && packs(columns, call.dy) &&
                        packs(columns, call.x) && packs(columns, call.residual) &&
                        can_pack(columns, call.weight);
    with_team(columns, [&](auto team, auto /*kept*/) {
      using Instance = NormBackwardKernel<T, Stream, decltype(team)::value>;
      launch_team<Instance>(
          context.queue, rows,
          typename Instance::Params{
              rows, call.shape.places, columns, rows_of(call.dx), rows_of(call.dy), rows_of(call.x),
              rows_of(call.residual), as<Stream>(call.dx.data), as<const T>(call.dy.data),
              as<const Stream>(call.x.data), call.mean, call.rstd, as<const T>(call.weight),
              as<const Stream>(call.residual.data), call.zero_centred, packed});
    });
  });
}

}  // namespace phalanx::cuda
