#include <gtest/gtest.h>

#include "phalanx/timelines/timeline_drawing.h"

namespace phalanx {
namespace {

TimelinePicture v_shaped() {
  return {.title = "a \"V\"\n",
          .placement = Placement::wave(2, 2),
          .timeline = {{{.action = pass(ActionKind::kForward, 0, 3), .begin = 5, .end = 6.5},
                        {.action = pass(ActionKind::kBackwardInput, 0, 3), .begin = 7, .end = 8}},
                       {{.action = pass(ActionKind::kForward, 1, 2, 4), .begin = 6.5, .end = 7},
                        {.action = {.kind = ActionKind::kOptimizerStep}, .begin = 7, .end = 7.25}}},
          .unit = "",
          .footer = ""};
}

TEST(TimelineTraceTest, EventsOfPassesRanksAndActivations) {
  const TimelinePicture picture = v_shaped();
  EXPECT_EQ(
      to_chrome_trace({&picture, 1}, 1e-3),
      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
      R"({"name":"process_name","ph":"M","pid":0,"tid":0,"args":{"name":"a \"V\"\n"}},)"
      "\n"
      R"({"name":"thread_name","ph":"M","pid":0,"tid":0,"args":{"name":"rank 0"}},)"
      "\n"
      R"({"name":"F3.0","cat":"forward","ph":"X","pid":0,"tid":0,"ts":0,"dur":1500,"args":)"
      R"({"microbatch":3,"chunk":0,"stage":0,"version":0}},)"
      "\n"
      R"({"name":"b3.0","cat":"backward","ph":"X","pid":0,"tid":0,"ts":2000,"dur":1000,"args":)"
      R"({"microbatch":3,"chunk":0,"stage":0,"version":0}},)"
      "\n"
      R"({"name":"activations of rank 0","ph":"C","pid":0,"tid":0,"ts":0,"args":)"
      R"({"until b":1,"until w":0}},)"
      "\n"
      R"({"name":"activations of rank 0","ph":"C","pid":0,"tid":0,"ts":3000,"args":)"
      R"({"until b":0,"until w":1}},)"
      "\n"
      R"({"name":"thread_name","ph":"M","pid":0,"tid":1,"args":{"name":"rank 1"}},)"
      "\n"
      R"({"name":"F2.1","cat":"forward","ph":"X","pid":0,"tid":1,"ts":1500,"dur":500,"args":)"
      R"({"microbatch":2,"chunk":1,"stage":2,"version":4}},)"
      "\n"
      R"({"name":"step","cat":"update","ph":"X","pid":0,"tid":1,"ts":2000,"dur":250,"args":{}},)"
      "\n"
      R"({"name":"activations of rank 1","ph":"C","pid":0,"tid":1,"ts":1500,"args":)"
      R"({"until b":1,"until w":0}})"
      "\n]}\n");
}

TEST(TimelineTraceTest, EveryPictureIsAProcess) {
  const TimelinePicture pictures[] = {v_shaped(), v_shaped()};
  const std::string trace = to_chrome_trace(pictures, 1.0);
  EXPECT_NE(trace.find(R"("ph":"M","pid":1,)"), std::string::npos);
  EXPECT_NE(trace.find(R"("ph":"X","pid":1,"tid":1,"ts":1500000,"dur":500000,)"),
            std::string::npos);
  EXPECT_EQ(to_chrome_trace({}, 1.0), "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n]}\n");
}

}  // namespace
}  // namespace phalanx
