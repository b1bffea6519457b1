#include "phalanx/ops/cases/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx::ops {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

template <typename... Ops>
std::size_t count_of(OpListOf<Ops...> /*list*/) {
  return sizeof...(Ops);
}

// The reference agrees with itself, so every row lists all of its outputs and passes the shape
// checks.
TEST(CaseTable, IsWellFormed) {
  const auto reference = make_ref_backend();
  std::set<std::string> names;
  for (const Case& row : make_case_table().tests) {
    EXPECT_TRUE(names.insert(row.op + " " + row.description).second) << row.op << row.description;
    EXPECT_THAT(compare_with_reference(row, row.storage.back(), {*reference}), IsEmpty());
  }
}

TEST(CaseTable, TestsEveryOp) {
  std::set<std::string> tested;
  for (const Case& row : make_case_table().tests) tested.insert(row.op);
  // The three ops of norms have cases of layer norms and of RMS norms.
  EXPECT_EQ(tested.size(), count_of(OpList{}) + 3);
  for (const Case& row : make_case_table().performance) EXPECT_TRUE(tested.contains(row.op));
}

// Others would count as arithmetic at the speed of products.
TEST(CaseTable, ProductsAndAttentionAloneHaveOperations) {
  Arena memory("operands", 256 << 20);
  const auto reference = make_ref_backend();
  for (const Case& row : make_case_table().tests) {
    SCOPED_TRACE(row.op + " " + row.description);
    memory.release(0);
    Arena workspace("workspace", 16 << 20);
    Context context{.backend = *reference, .workspace = workspace};
    Operands operands(memory, row.storage.front(), context);
    const OpCost cost = row.build(operands).cost;
    const bool is_attention = row.op.find("attention") != std::string::npos &&
                              row.op != "attention_delta" && row.op != "attention_merge";
    EXPECT_EQ(cost.product != ProductShape{}, row.product);
    EXPECT_EQ(cost.attention != AttentionShape{}, is_attention);
    if (row.product) {
      const ProductShape& p = cost.product;
      EXPECT_EQ(cost.flops, 2 * p.m * p.n * p.k * p.batch);
      EXPECT_EQ(p.batch, 1);
      EXPECT_EQ(cost.dtype, row.storage.front());
    } else if (is_attention) {
      const AttentionShape& a = cost.attention;
      const std::int64_t all = 2 * a.batch * a.heads * a.queries * a.keys * a.head_size;
      const int products = row.op.find("forward") != std::string::npos   ? 2
                           : row.op.find("unfused") != std::string::npos ? 4
                                                                         : 5;
      EXPECT_DOUBLE_EQ(static_cast<double>(cost.flops),
                       products * static_cast<double>(all) * a.seen);
      EXPECT_EQ(cost.dtype, row.storage.front());
    } else {
      EXPECT_EQ(cost.flops, 0);
    }
  }
}

// Three numbers, the middle one an output; on the second of two runs `fault` happens too.
std::string compare_with_fault(double tolerance,
                               const std::function<void(Context&, Tensor)>& fault) {
  int runs = 0;
  const Case row{"middle", "of three", kFullPrecision, [&](Operands& operands) {
                   const Tensor all = operands.uniform(DType::kF32, {3});
                   const Tensor middle = all.slice(0, 1, 1);
                   Job job;
                   job.run = [&runs, &fault, all, middle](Context& context) {
                     middle.as<float>()[0] = 2.0F;
                     if (++runs == 2) fault(context, all);
                   };
                   job.outputs = {{middle, tolerance}};
                   return job;
                 }};
  const auto reference = make_ref_backend();
  return compare_with_reference(row, DType::kF32, {*reference});
}

TEST(Compare, SeesWhatIsWrong) {
  EXPECT_THAT(compare_with_fault(0.0, [](Context&, Tensor) {}), IsEmpty());
  const auto deviate = [](Context&, Tensor all) { all.as<float>()[1] = 2.002F; };
  EXPECT_THAT(compare_with_fault(1.1e-3, deviate), IsEmpty());
  EXPECT_THAT(compare_with_fault(0.9e-3, deviate), HasSubstr("element 0 of f32 [1] is 2.00"));
  const auto not_a_number = [](Context&, Tensor all) { all.as<float>()[1] = std::stof("nan"); };
  EXPECT_THAT(compare_with_fault(0.5, not_a_number), HasSubstr("nan"));
  const auto trespass = [](Context&, Tensor all) { all.as<float>()[2] = 0.0F; };
  EXPECT_THAT(compare_with_fault(0.5, trespass), HasSubstr("is not an output's but changed"));
  const auto overrun = [](Context& context, Tensor) {
    context.workspace.allocate(DType::kU8, {256}).data()[256] = std::byte{0};
  };
  EXPECT_THAT(compare_with_fault(0.5, overrun), HasSubstr("wrote byte 256 of 256"));
}

}  // namespace
}  // namespace phalanx::ops
