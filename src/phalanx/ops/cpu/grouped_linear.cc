// Products of groups: each is the product of ops/linear.h. All threads together compute those that
// are large, one after the other, at the rate of a dense product. Each of the others is one
// thread's, or is cut into rows of C for several, in tasks of about equal work. So no thread waits
// long, whatever the groups' sizes. A row of C has the same bits in a part and in the whole.

#include "phalanx/ops/grouped_linear.h"

#include <algorithm>
#include <type_traits>

#include "phalanx/base/numeric.h"
#include "phalanx/ops/cpu/execute.h"
#include "phalanx/ops/cpu/groups.h"
#include "phalanx/ops/cpu/linear_products.h"
#include "phalanx/ops/cpu/parallel.h"
#include "phalanx/tensor/arena.h"

namespace phalanx::cpu {
namespace {

// Multiplications and additions.
constexpr std::int64_t kTeamWork = std::int64_t{1} << 27;  // for each thread of a team
constexpr std::int64_t kTaskWork = std::int64_t{1} << 20;  // at least, for a thread alone
constexpr std::int64_t kTasksOfThread = 8;
// Rows of a part of C: a multiple of the first number, which is whole strips, and at most the
// second, so that a thread needs little memory.
constexpr std::int64_t kPartRows = 64, kMostPartRows = 512;

Tensor slice_rows(const Tensor& tensor, const Range& rows) {
  return tensor.slice(0, rows.begin, rows.count());
}

MatrixProduct group_product(const ops::GroupedLinearForward& op, std::int64_t group,
                            const Range& rows) {
  MatrixProduct product =
      product_of(ops::LinearForward{.y = slice_rows(op.y, rows),
                                    .x = slice_rows(op.x, rows),
                                    .weight = op.weight.select(0, group),
                                    .bias = op.bias ? op.bias.select(0, group) : Tensor()});
  if (op.bias_factors) {
    product.epilogue.bias_factors =
        reinterpret_cast<const float*>(slice_rows(op.bias_factors, rows).data());
  }
  return product;
}
MatrixProduct group_product(const ops::GroupedLinearInputGradient& op, std::int64_t group,
                            const Range& rows) {
  return product_of(ops::LinearInputGradient{.dx = slice_rows(op.dx, rows),
                                             .dy = slice_rows(op.dy, rows),
                                             .weight = op.weight.select(0, group)});
}
MatrixProduct group_product(const ops::GroupedLinearWeightGradient& op, std::int64_t group,
                            const Range& rows) {
  return product_of(ops::LinearWeightGradient{.dweight = op.dweight.select(0, group),
                                              .dy = slice_rows(op.dy, rows),
                                              .x = slice_rows(op.x, rows),
                                              .accumulate = op.accumulate});
}

std::int64_t groups_of(const ops::GroupedLinearForward& op) { return op.weight.shape[0]; }
std::int64_t groups_of(const ops::GroupedLinearInputGradient& op) { return op.weight.shape[0]; }
std::int64_t groups_of(const ops::GroupedLinearWeightGradient& op) { return op.dweight.shape[0]; }

CpuDevice one_thread_of(const CpuDevice& device) {
  CpuDevice one = device;
  one.threads = 1;
  return one;
}

std::int64_t bytes_of_one_thread(const CpuDevice& device, MatrixProduct most) {
  most.m = std::min(most.m, kMostPartRows);
  return round_up(most_workspace_bytes_of(one_thread_of(device), most), kArenaAlignment);
}

// As if one group had all rows.
template <typename Op>
MatrixProduct largest_product(const Op& op, std::int64_t rows) {
  if (groups_of(op) == 0) return {};
  return group_product(op, 0, {0, rows});
}

template <typename Op>
std::int64_t grouped_workspace_bytes(const CpuDevice& device, const Op& op, std::int64_t rows) {
  const MatrixProduct most = largest_product(op, rows);
  return std::max(most_workspace_bytes_of(device, most),
                  device.threads * bytes_of_one_thread(device, most));
}

// Rows [begin, end) of C.
MatrixProduct part_of(const MatrixProduct& whole, const Range& rows) {
  MatrixProduct part = whole;
  part.whole_elements = whole.m * whole.n;
  part.m = rows.count();
  part.a.data += rows.begin * (whole.a.transposed ? 1 : whole.a.stride) * size_of(whole.a.dtype);
  part.epilogue.c.data += rows.begin * whole.epilogue.c.stride * size_of(whole.epilogue.c.dtype);
  if (whole.epilogue.bias_factors != nullptr) part.epilogue.bias_factors += rows.begin;
  return part;
}

template <typename Op>
class GroupedProducts {
 public:
  GroupedProducts(const CpuDevice& device, const Op& op, const RowGroups& groups, std::int64_t rows,
                  std::byte* workspace)
      : device_(device),
        one_(one_thread_of(device)),
        op_(op),
        groups_(groups),
        most_(largest_product(op, rows)),
        workspace_(workspace),
        thread_bytes_(bytes_of_one_thread(device, most_)) {}

  void run() {
    std::int64_t of_tasks = 0;
    for (std::int64_t group = 0; group < groups_.count(); ++group) {
      const std::int64_t work = work_of(group);
      if (is_of_team(work)) {
        multiply(device_, group_product(op_, group, groups_.rows(group)), workspace_);
      } else {
        of_tasks += work;
      }
    }
    task_work_ = std::max(kTaskWork, of_tasks / (kTasksOfThread * device_.threads));
    std::int64_t tasks = 0;
    for (std::int64_t group = 0; group < groups_.count(); ++group) tasks += tasks_of(group);
    for_each_task(device_.threads, tasks, [&](std::int64_t task, std::int64_t slot) {
      do_task(task, workspace_ + slot * thread_bytes_);
    });
  }

 private:
  static constexpr bool kRowsAreDepth = std::is_same_v<Op, ops::GroupedLinearWeightGradient>;

  // Rows of C.
  std::int64_t rows_of(std::int64_t group) const {
    return kRowsAreDepth ? most_.m : groups_.rows(group).count();
  }
  // Without depth C is written, too.
  std::int64_t work_of(std::int64_t group) const {
    const std::int64_t depth = kRowsAreDepth ? groups_.rows(group).count() : most_.k;
    return rows_of(group) * most_.n * std::max<std::int64_t>(1, depth);
  }
  bool is_of_team(std::int64_t work) const { return work >= kTeamWork * device_.threads; }

  std::int64_t tasks_of(std::int64_t group) const {
    const std::int64_t work = work_of(group);
    if (is_of_team(work)) return 0;
    const std::int64_t rows = rows_of(group);
    const std::int64_t by_work = std::min(ceil_div(work, task_work_), ceil_div(rows, kPartRows));
    return work == 0 ? 0 : std::max(by_work, ceil_div(rows, kMostPartRows));
  }

  void do_task(std::int64_t task, std::byte* workspace) const {
    std::int64_t group = 0;
    for (std::int64_t tasks = tasks_of(group); task >= tasks; tasks = tasks_of(group)) {
      task -= tasks;
      ++group;
    }
    const MatrixProduct whole = group_product(op_, group, groups_.rows(group));
    const std::int64_t tasks = tasks_of(group);
    const std::int64_t rows = round_up(ceil_div(whole.m, tasks), kPartRows);
    const Range part = piece(task, rows, {0, whole.m});
    if (part.count() > 0) multiply(one_, part_of(whole, part), workspace);
  }

  const CpuDevice& device_;
  CpuDevice one_;
  const Op& op_;
  const RowGroups& groups_;
  MatrixProduct most_;
  std::byte* workspace_;
  std::int64_t thread_bytes_;
  std::int64_t task_work_ = kTaskWork;
};

template <typename Op>
void compute_groups(const CpuDevice& device, const Op& op, std::int64_t rows,
                    const Tensor& scratch) {
  const RowGroups groups(op.offsets, rows);
  if (groups.count() == 0) return;
  expect_kernel_types(largest_product(op, rows));
  GroupedProducts<Op>(device, op, groups, rows, scratch.data()).run();
}

}  // namespace

std::int64_t workspace_bytes_of(const CpuDevice& device, const ops::GroupedLinearForward& op) {
  return grouped_workspace_bytes(device, op, op.x.shape[0]);
}
std::int64_t workspace_bytes_of(const CpuDevice& device,
                                const ops::GroupedLinearInputGradient& op) {
  return grouped_workspace_bytes(device, op, op.dy.shape[0]);
}
std::int64_t workspace_bytes_of(const CpuDevice& device,
                                const ops::GroupedLinearWeightGradient& op) {
  return grouped_workspace_bytes(device, op, op.dy.shape[0]);
}

void execute(CpuDevice& device, const ops::GroupedLinearForward& op, const Tensor& scratch) {
  PHALANX_CHECK(!op.bias_factors || op.bias_factors.dtype == DType::kF32,
                "the factors of a bias are f32");
  compute_groups(device, op, op.x.shape[0], scratch);
}
void execute(CpuDevice& device, const ops::GroupedLinearInputGradient& op, const Tensor& scratch) {
  compute_groups(device, op, op.dy.shape[0], scratch);
}
void execute(CpuDevice& device, const ops::GroupedLinearWeightGradient& op, const Tensor& scratch) {
  compute_groups(device, op, op.dy.shape[0], scratch);
}

}  // namespace phalanx::cpu
