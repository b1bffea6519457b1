#include "phalanx/pipeline/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/no_pipelining.h"
#include "phalanx/pipeline/test_support.h"

namespace phalanx {
namespace {

// What verify() complains about; empty for a good program.
std::string fault_of(const Program& program) {
  try {
    verify(program);
  } catch (const InternalError& error) {
    return error.what();
  }
  return {};
}

TEST(NoPipelining, Golden) {
  EXPECT_EQ(text_of(no_pipelining(1)), "F0.0 B0.0 reduce.0 step");
  EXPECT_EQ(text_of(no_pipelining(3)), "F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 reduce.0 step");
  EXPECT_EQ(text_of(forward_only(3)), "F0.0 F1.0 F2.0");
  EXPECT_TRUE(forward_only(3).forward_only);
  for (const int m : {1, 2, 7}) {
    EXPECT_EQ(fault_of(no_pipelining(m)), "");
    EXPECT_EQ(fault_of(forward_only(m)), "");
  }
}

TEST(Verifier, AcceptsAnyPossibleOrder) {
  for (const char* text : {
           "F0.0 b0.0 w0.0 F1.0 B1.0 reduce.0 step",
           "F0.0 F1.0 b1.0 b0.0 w0.0 w1.0 reduce.0 step",
           "F1.0 F0.0 B0.0 b1.0 w1.0 reduce.0 step",
       }) {
    EXPECT_EQ(fault_of(program_of(text, 1, 2)), "") << text;
  }
  EXPECT_EQ(fault_of(program_of(
                "F0.0 F0.1 B0.1 F1.0 B0.0 F1.1 B1.1 reduce.1 b1.0 w1.0 reduce.0 step", 2, 2)),
            "");
}

struct Fault {
  const char* program;
  const char* message;  // with the first action that breaks a rule
};

TEST(Verifier, RejectsWithTheFirstBrokenRule) {
  const Fault faults[] = {
      // Twice.
      {"F0.0 F0.0 B0.0 F1.0 B1.0 reduce.0 step", "F0.0 runs twice"},
      {"F0.0 B0.0 B0.0 F1.0 B1.0 reduce.0 step", "B0.0 runs twice"},
      {"F0.0 b0.0 b0.0 w0.0 F1.0 B1.0 reduce.0 step", "b0.0 runs twice"},
      {"F0.0 b0.0 w0.0 w0.0 F1.0 B1.0 reduce.0 step", "w0.0 runs twice"},
      {"F0.0 b0.0 B0.0 F1.0 B1.0 reduce.0 step", "B0.0 runs twice"},
      {"F0.0 B0.0 F1.0 B1.0 reduce.0 reduce.0 step", "reduce.0 runs twice"},
      {"F0.0 B0.0 F1.0 B1.0 reduce.0 step step", "step after the optimizer step"},
      // Out of order.
      {"B0.0 F0.0 F1.0 B1.0 reduce.0 step", "B0.0 before its forward pass"},
      {"b0.0 F0.0 w0.0 F1.0 B1.0 reduce.0 step", "b0.0 before its forward pass"},
      {"F0.0 w0.0 b0.0 F1.0 B1.0 reduce.0 step", "w0.0 before its input gradient"},
      {"F0.0 F1.0 B1.0 B0.0 reduce.0 step", "B1.0 adds weight gradients out of microbatch order"},
      {"F0.0 F1.0 b1.0 b0.0 w1.0 w0.0 reduce.0 step",
       "w1.0 adds weight gradients out of microbatch order"},
      {"F0.0 B0.0 F1.0 reduce.0 B1.0 step", "reduce.0 before the last weight gradient"},
      {"F0.0 B0.0 F1.0 b1.0 reduce.0 w1.0 step", "reduce.0 before the last weight gradient"},
      {"F0.0 B0.0 F1.0 B1.0 step reduce.0", "step before all gradients are reduced"},
      {"F0.0 B0.0 F1.0 B1.0 reduce.0 step F0.0", "F0.0 after the optimizer step"},
      // Missing.
      {"F0.0 B0.0 F1.0 reduce.0 step", "reduce.0 before the last weight gradient"},
      {"F0.0 B0.0", "microbatch 1 of chunk 0 is not finished"},
      {"F0.0 F1.0 b0.0 w0.0 b1.0", "microbatch 1 of chunk 0 is not finished"},
      {"F0.0 B0.0 F1.0 B1.0 step", "step before all gradients are reduced"},
      {"F0.0 B0.0 F1.0 B1.0 reduce.0", "the program has no optimizer step"},
      {"", "microbatch 0 of chunk 0 is not finished"},
      // Outside.
      {"F2.0", "F2.0 is outside the program"},
      {"F0.1", "F0.1 is outside the program"},
  };
  for (const Fault& fault : faults) {
    EXPECT_THAT(fault_of(program_of(fault.program, 1, 2)), testing::HasSubstr(fault.message))
        << fault.program;
  }
}

TEST(Verifier, EveryChunkIsReduced) {
  EXPECT_THAT(fault_of(program_of("F0.0 F0.1 B0.1 B0.0 reduce.0 step", 2, 1)),
              testing::HasSubstr("step before all gradients are reduced"));
}

TEST(Verifier, EvaluationHasForwardPassesAlone) {
  Program program = program_of("F0.0 B0.0", 1, 1);
  program.forward_only = true;
  EXPECT_THAT(fault_of(program), testing::HasSubstr("B0.0 in a forward-only program"));
  program = program_of("F0.0", 1, 2);
  program.forward_only = true;
  EXPECT_THAT(fault_of(program), testing::HasSubstr("microbatch 1 of chunk 0 is not finished"));
}

}  // namespace
}  // namespace phalanx
