#include "phalanx/ops/cases/compare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "phalanx/ops/meta/meta_backend.h"
#include "phalanx/ops/ref/access.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

constexpr std::int64_t kOperandBytes = 256 << 20;
constexpr std::int64_t kWorkspaceBytes = 256 << 20;
constexpr std::int64_t kGuardBytes = 4096;
// As much scratch is garbage before a run, so that a kernel that counts on zeros is seen.
constexpr std::int64_t kPoisonedBytes = 256 << 10;
constexpr int kPoison = 0xff;

std::vector<std::byte> used_bytes(const Arena& arena) {
  return {arena.base(), arena.base() + arena.high_water() + kGuardBytes};
}

// All bytes of an arena up to a place, or those that it shall have.
Tensor bytes_of(Arena& arena, std::int64_t bytes) {
  return dense_tensor(arena, 0, DType::kU8, {bytes});
}

struct NoScratch {};
template <typename Op>
std::int64_t workspace_bytes_of(const NoScratch& /*device*/, const Op& /*op*/) {
  return 0;
}

// One backend's copy of a case, run once: where the host has it, or on a device with its memory.
class Run {
 public:
  Run(const Case& row, DType storage, const Machine& machine, int disguise = -1)
      : operands_("operands", kOperandBytes), workspace_("workspace", kWorkspaceBytes) {
    const auto reference = make_ref_backend();
    Context preparation{.backend = *reference, .workspace = workspace_};
    Operands operands(operands_, storage, preparation);
    operands.disguise(disguise);
    job_ = row.build(operands);
    disguised_ = operands.disguised();
    before_ = used_bytes(operands_);
    std::memset(workspace_.base(), kPoison, kPoisonedBytes);
    if (is_host(machine.backend.space())) {
      workspace_.forget_high_water();
      Context context{.backend = machine.backend, .workspace = workspace_};
      job_.run(context);
      scratch_ = workspace_.high_water();
    } else {
      run_on_device(row, storage, machine, disguise);
    }
  }

  const std::vector<Output>& outputs() const { return job_.outputs; }
  bool disguised() const { return disguised_; }

  // The first byte outside the outputs that is not what it was, or what happened to the scratch
  // memory.
  std::string trespass() const {
    std::vector<bool> writable(before_.size(), false);
    for (const Output& output : job_.outputs) {
      ref::for_each_element(output.tensor, [&](const std::byte* at, std::size_t /*i*/) {
        const std::int64_t first = at - operands_.base();
        std::fill_n(writable.begin() + first, size_of(output.tensor.dtype), true);
      });
    }
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (!writable[i] && operands_.base()[i] != before_[i]) {
        return fmt::format("byte {} of the operands is not an output's but changed", i);
      }
    }
    for (std::int64_t i = scratch_; i < std::min(scratch_ + kGuardBytes, kPoisonedBytes); ++i) {
      if (workspace_.base()[i] != std::byte{kPoison}) {
        return fmt::format("wrote byte {} of {} bytes of workspace", i, scratch_);
      }
    }
    return {};
  }

 private:
  // The same case in an arena of the device, with the host's bytes; these are what comes back.
  void run_on_device(const Case& row, DType storage, const Machine& machine, int disguise) {
    Backend& backend = machine.backend;
    const auto bytes = static_cast<std::int64_t>(before_.size());
    Arena memory("operands of a case", bytes, machine.memory);
    Arena scratch("workspace of a case", machine.device_workspace_bytes, machine.memory);
    const auto nothing =
        make_meta_backend(std::make_unique<WorkspaceSizesOf<NoScratch>>(NoScratch()));
    Context preparation{.backend = *nothing, .workspace = scratch};
    Operands operands(memory, storage, preparation);
    operands.disguise(disguise);
    const Job job = row.build(operands);
    PHALANX_CHECK(memory.high_water() == operands_.high_water(),
                  "{} {}: {} bytes of operands on the host, {} on the device", row.op,
                  row.description, operands_.high_water(), memory.high_water());
    const Queue queue = backend.queue(StreamKind::kCompute);
    const Tensor poisoned = bytes_of(scratch, kPoisonedBytes);
    backend.upload(queue, bytes_of(memory, bytes), before_);
    backend.upload(queue, poisoned, {workspace_.base(), kPoisonedBytes});
    scratch.forget_high_water();
    Context context{.backend = backend, .workspace = scratch, .queue = queue};
    job.run(context);
    scratch_ = scratch.high_water();
    backend.read_back(queue, bytes_of(memory, bytes),
                      {operands_.base(), static_cast<std::size_t>(bytes)});
    backend.read_back(queue, poisoned, {workspace_.base(), kPoisonedBytes});
  }

  Arena operands_;
  Arena workspace_;
  Job job_;
  std::vector<std::byte> before_;
  std::int64_t scratch_ = 0;  // bytes that the run had
  bool disguised_ = false;
};

double largest_finite(const ref::Array& array) {
  double largest = 0.0;
  for (const double value : array.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::string compare_output(const Output& output, const Tensor& reference) {
  if (std::isinf(output.tolerance)) return {};
  const ref::Array got = ref::read(output.tensor);
  const ref::Array expected = ref::read(reference);
  const double bound = output.tolerance * std::max(output.floor, largest_finite(expected));
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double a = got.values[i];
    const double b = expected.values[i];
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= bound) continue;
    return fmt::format("element {} of {} {} is {}, expected {}: |difference| {} > {}", i,
                       name_of(output.tensor.dtype), output.tensor.shape.to_string(), a, b,
                       std::abs(a - b), bound);
  }
  return {};
}

// The largest error as a share of the output's scale.
double largest_error(const Output& output, const Tensor& reference) {
  const ref::Array got = ref::read(output.tensor);
  const ref::Array expected = ref::read(reference);
  const double scale = std::max(output.floor, largest_finite(expected));
  double largest = 0.0;
  for (std::size_t i = 0; i < got.values.size(); ++i) {
    const double difference = std::abs(got.values[i] - expected.values[i]);
    if (std::isfinite(difference)) largest = std::max(largest, difference);
  }
  return scale > 0.0 ? largest / scale : largest;
}

std::vector<std::byte> output_bytes(const Tensor& tensor) {
  std::vector<std::byte> bytes;
  ref::for_each_element(tensor, [&](const std::byte* at, std::size_t /*i*/) {
    bytes.insert(bytes.end(), at, at + size_of(tensor.dtype));
  });
  return bytes;
}

std::string at_output(const Case& row, DType storage, std::size_t output,
                      const std::string& message) {
  return fmt::format("{} {} ({}), output {}: {}", row.op, row.description, name_of(storage), output,
                     message);
}

// What is wrong with a run, or an empty string.
std::string compare_runs(const Case& row, DType storage, const Run& got, const Run& expected) {
  for (std::size_t i = 0; i < got.outputs().size(); ++i) {
    const auto message = compare_output(got.outputs()[i], expected.outputs()[i].tensor);
    if (!message.empty()) return at_output(row, storage, i, message);
  }
  const auto message = got.trespass();
  if (message.empty()) return {};
  return fmt::format("{} {} ({}): {}", row.op, row.description, name_of(storage), message);
}

}  // namespace

std::string compare_with_reference(const Case& row, DType storage, const Machine& machine) {
  const auto reference = make_ref_backend();
  const Run expected(row, storage, {*reference});
  return compare_runs(row, storage, Run(row, storage, machine), expected);
}

Judgement judge_twice(const Case& row, DType storage, const Machine& machine) {
  const auto reference = make_ref_backend();
  const Run expected(row, storage, {*reference});
  const Run first(row, storage, machine);
  Judgement judgement{.wrong = compare_runs(row, storage, first, expected)};
  const Run second(row, storage, machine);
  double largest = -1.0;
  for (std::size_t i = 0; i < first.outputs().size(); ++i) {
    const Output& output = first.outputs()[i];
    const bool is_equal = output_bytes(output.tensor) == output_bytes(second.outputs()[i].tensor);
    if (!is_equal && judgement.wrong.empty()) {
      judgement.wrong = at_output(row, storage, i, "two runs differ");
    }
    if (!std::isfinite(output.tolerance)) continue;
    const double error = largest_error(output, expected.outputs()[i].tensor);
    const double share = output.tolerance > 0.0 ? error / output.tolerance : error;
    if (share <= largest) continue;
    largest = share;
    judgement.error = error;
    judgement.tolerance = output.tolerance;
  }
  return judgement;
}

std::optional<bool> refuses_disguised(const Case& row, DType storage, int operand,
                                      const Machine& machine) {
  try {
    const Run run(row, storage, machine, operand);
    if (!run.disguised()) return std::nullopt;
    const Run expected(row, storage, machine);
    for (std::size_t i = 0; i < run.outputs().size(); ++i) {
      if (output_bytes(run.outputs()[i].tensor) != output_bytes(expected.outputs()[i].tensor)) {
        return false;
      }
    }
  } catch (const InternalError&) {
    return true;
  }
  return true;
}

std::vector<std::byte> output_bits(const Case& row, DType storage, const Machine& machine) {
  const Run run(row, storage, machine);
  std::vector<std::byte> all;
  for (const Output& output : run.outputs()) {
    const std::vector<std::byte> bytes = output_bytes(output.tensor);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  return all;
}

std::string compare_bits(const Case& row, DType storage, const Machine& a, const Machine& b) {
  const Run first(row, storage, a);
  const Run second(row, storage, b);
  for (std::size_t i = 0; i < first.outputs().size(); ++i) {
    if (output_bytes(first.outputs()[i].tensor) != output_bytes(second.outputs()[i].tensor)) {
      return at_output(row, storage, i, "bits differ");
    }
  }
  return {};
}

}  // namespace phalanx::ops
