// Group by group, by the ops of one group; a probability then multiplies a row.

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/execute.h"
#include "phalanx/ops/ref/groups.h"

namespace phalanx::ref {
namespace {

// One group's f(x + bias), with nothing rounded, as an op on f64.
template <typename Plain, typename Gated, typename Op, typename Use>
void with_activation(const Op& op, const Use& use) {
  if (op.gated) {
    use(Gated());
  } else {
    use(Plain());
  }
}

// f64 copies of operands and results of one group.
class Wide {
 public:
  explicit Wide(std::int64_t numbers) : memory_("a group in f64", 1024 + 16 * numbers) {}

  Tensor result(const Shape& shape) { return memory_.allocate(DType::kF64, shape); }
  Tensor copy(const Tensor& of) {
    if (!of) return {};
    const Tensor wide = result(of.shape);
    write(wide, read(of));
    return wide;
  }

 private:
  Arena memory_;
};

}  // namespace

void execute(RefDevice& device, const ops::GroupedActivationForward& op, const Tensor& scratch) {
  for_each_group(op.offsets, op.x.shape[0], [&](const Group& group) {
    const Tensor x = group.rows_of(op.x);
    const Tensor y = group.rows_of(op.y);
    Wide wide(8 * (x.count() + x.shape[1] + 64));
    with_activation<ops::BiasActivationForward, ops::GatedActivationForward>(op, [&](auto call) {
      call.y = wide.result(y.shape);
      call.x = wide.copy(x);
      call.bias = wide.copy(op.bias ? op.bias.select(0, group.number) : Tensor());
      call.kind = op.kind;
      execute(device, call, scratch);
      Array values = read(call.y);
      const Array p = read(op.probabilities ? group.rows_of(op.probabilities) : Tensor());
      for (std::int64_t r = 0; op.probabilities && r < y.shape[0]; ++r) {
        for (std::int64_t i = 0; i < y.shape[1]; ++i) values(r, i) *= p(r);
      }
      write(y, values);
    });
  });
}

void execute(RefDevice& device, const ops::GroupedActivationBackward& op, const Tensor& scratch) {
  for_each_group(op.offsets, op.x.shape[0], [&](const Group& group) {
    const Tensor x = group.rows_of(op.x);
    const Array dy = read(group.rows_of(op.dy));
    Wide wide(8 * (4 * x.count() + x.shape[1] + 256));
    const Tensor wide_x = wide.copy(x);
    const Tensor bias = wide.copy(op.bias ? op.bias.select(0, group.number) : Tensor());
    const Array p = read(op.probabilities ? group.rows_of(op.probabilities) : Tensor());
    // dy p, and the sums of dy f(x).
    Array scaled = dy;
    if (op.probabilities) {
      Array sums(Shape{group.count});
      with_activation<ops::BiasActivationForward, ops::GatedActivationForward>(op, [&](auto call) {
        call.y = wide.result(dy.shape);
        call.x = wide_x;
        call.bias = bias;
        call.kind = op.kind;
        execute(device, call, scratch);
        const Array values = read(call.y);
        for (std::int64_t r = 0; r < dy.shape[0]; ++r) {
          for (std::int64_t i = 0; i < dy.shape[1]; ++i) {
            sums(r) += dy(r, i) * values(r, i);
            scaled(r, i) = dy(r, i) * p(r);
          }
        }
      });
      write(group.rows_of(op.dprobabilities), sums);
    }
    with_activation<ops::BiasActivationBackward, ops::GatedActivationBackward>(op, [&](auto call) {
      call.dx = wide.result(x.shape);
      call.dy = wide.result(dy.shape);
      write(call.dy, scaled);
      call.x = wide_x;
      call.bias = bias;
      call.kind = op.kind;
      execute(device, call, scratch);
      write(group.rows_of(op.dx), read(call.dx));
    });
  });
}

}  // namespace phalanx::ref
