#include "phalanx/ops/cases/differentiate.h"

#include <algorithm>
#include <cmath>

#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

constexpr double kStep = 5e-4;
constexpr double kTolerance = 1e-8;
// Operands with more elements are sampled, at a stride that is odd in every dimension of the cases.
constexpr std::int64_t kMostElements = 96;

double loss(const GradientJob& job, Context& context) {
  job.forward(context);
  double sum = 0.0;
  for (const auto& output : job.outputs) {
    const ref::Array value = ref::read(output.value);
    const ref::Array cotangent = ref::read(output.gradient);
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      sum += value.values[i] * cotangent.values[i];
    }
  }
  return sum;
}

// d loss / d element; the element is as before afterwards.
double difference(const GradientJob& job, Context& context, std::byte* element) {
  const double value = ref::load(element, DType::kF64);
  const auto loss_at = [&](double steps) {
    ref::store(element, DType::kF64, value + steps * kStep);
    return loss(job, context);
  };
  const double near_difference = loss_at(1) - loss_at(-1);
  const double far_difference = loss_at(2) - loss_at(-2);
  ref::store(element, DType::kF64, value);
  return (8.0 * near_difference - far_difference) / (12.0 * kStep);
}

std::string check_operand(const GradientJob& job, Context& context, std::size_t number,
                          const ref::Array& derivative) {
  const Tensor& operand = job.operands[number].value;
  std::vector<std::byte*> elements;
  ref::for_each_element(
      operand, [&](std::byte* element, std::size_t /*i*/) { elements.push_back(element); });
  double scale = 1e-3;
  for (const double value : derivative.values) scale = std::max(scale, std::abs(value));
  const std::int64_t stride = std::max<std::int64_t>(1, operand.count() / kMostElements) | 1;
  for (std::int64_t i = 0; i < operand.count(); i += stride) {
    const double expected = difference(job, context, elements[i]);
    if (std::abs(derivative.values[i] - expected) <= kTolerance * scale) continue;
    return fmt::format("operand {}, element {} of {}: derivative {}, finite difference {}", number,
                       i, operand.shape.to_string(), derivative.values[i], expected);
  }
  return {};
}

}  // namespace

std::string compare_with_differences(const GradientCase& row) {
  const auto backend = make_ref_backend();
  Arena memory("operands", 64 << 20);
  Arena workspace("workspace", 1 << 20);
  Context context{.backend = *backend, .workspace = workspace};
  Operands operands(memory, DType::kF64, context);
  const GradientJob job = row.build(operands);
  job.forward(context);
  job.backward(context);
  // Read before the differences: a later forward overwrites what this backward saw.
  std::vector<ref::Array> derivatives;
  for (const auto& operand : job.operands) derivatives.push_back(ref::read(operand.gradient));
  for (std::size_t i = 0; i < job.operands.size(); ++i) {
    const auto message = check_operand(job, context, i, derivatives[i]);
    if (!message.empty()) return fmt::format("{} {}: {}", row.op, row.description, message);
  }
  return {};
}

}  // namespace phalanx::ops
