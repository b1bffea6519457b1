#pragma once
// The expected numbers of every kind, and its lists for 4 ranks and 8 microbatches, from
// docs/schedules.md and the papers. (The asynchronous kinds have the lists of 1f1b, and
// "auto" searches for its own.) The tests of all kinds walk this table: a new kind gets an entry.

#include <string_view>

namespace phalanx {

// All passes take 1; a fused backward pass takes 2.
struct ExpectedMeasures {
  int ranks = 0;  // 0: the kind has nothing for these sizes
  int microbatches = 0;
  double makespan = 0;
  double span = 0;
  // By rank, the most activations that are held: until the input gradient, or the weight gradient.
  std::string_view peak_freed_at_b = {};
  std::string_view peak_freed_at_w = {};
};

// What happens if receives stand just before the pass that reads them: the least capacity of a
// buffered transport, and whether the programs complete with a queue for each rank, each peer, each
// direction, and with groups of messages.
struct ReceivesAtConsumer {
  int capacity = kMismatch;
  bool rank_queue = false, peer_queue = false, direction_queue = false, grouped = false;

  // The k-th message that is sent is not the k-th that is expected.
  static constexpr int kMismatch = -1;
};

struct ExpectedSchedule {
  std::string_view kind;
  int chunks;  // asked for
  ExpectedMeasures measures[3];
  ReceivesAtConsumer on_4_ranks;  // 8 microbatches
  ReceivesAtConsumer on_2_ranks;  // 4 microbatches
  std::string_view passes;        // those of a rank end with a semicolon
};

inline constexpr ExpectedSchedule kExpectedSchedules[] = {
    {"naive",
     1,
     {{2, 4, 24, 24, "1 1", "1 1"},
      {4, 8, 96, 96, "1 1 1 1", "1 1 1 1"},
      {4, 4, 48, 48, "1 1 1 1", "1 1 1 1"}},
     {0, true, true, true, true},
     {0, true, true, true, true},
     R"(
F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0 F5.0 B5.0 F6.0 B6.0 F7.0 B7.0;
F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0 F5.0 B5.0 F6.0 B6.0 F7.0 B7.0;
F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0 F5.0 B5.0 F6.0 B6.0 F7.0 B7.0;
F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0 F5.0 B5.0 F6.0 B6.0 F7.0 B7.0;
)"},
    {"gpipe",
     1,
     {{2, 4, 15, 15, "4 4", "4 4"},
      {4, 8, 33, 33, "8 8 8 8", "8 8 8 8"},
      {4, 4, 21, 21, "4 4 4 4", "4 4 4 4"}},
     {0, true, true, true, true},
     {0, true, true, true, true},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
)"},
    {"1f1b",
     1,
     {{2, 4, 15, 15, "2 1", "2 1"},
      {4, 8, 33, 33, "4 3 2 1", "4 3 2 1"},
      {4, 4, 21, 21, "4 3 2 1", "4 3 2 1"}},
     {1, false, false, true, true},
     {1, false, false, true, true},
     R"(
F0.0 F1.0 F2.0 F3.0 B0.0 F4.0 B1.0 F5.0 B2.0 F6.0 B3.0 F7.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 F4.0 B2.0 F5.0 B3.0 F6.0 B4.0 F7.0 B5.0 B6.0 B7.0;
F0.0 F1.0 B0.0 F2.0 B1.0 F3.0 B2.0 F4.0 B3.0 F5.0 B4.0 F6.0 B5.0 F7.0 B6.0 B7.0;
F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0 F5.0 B5.0 F6.0 B6.0 F7.0 B7.0;
)"},
    {"eager-1f1b",
     1,
     {{2, 4, 15, 15, "3 1", "3 1"},
      {4, 8, 33, 33, "7 5 3 1", "7 5 3 1"},
      {4, 4, 21, 21, "4 4 3 1", "4 4 3 1"}},
     {1, false, false, true, true},
     {1, false, false, true, true},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 B0.0 F7.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 B0.0 F3.0 B1.0 F4.0 B2.0 F5.0 B3.0 F6.0 B4.0 F7.0 B5.0 B6.0 B7.0;
F0.0 B0.0 F1.0 B1.0 F2.0 B2.0 F3.0 B3.0 F4.0 B4.0 F5.0 B5.0 F6.0 B6.0 F7.0 B7.0;
)"},
    {"zb-h1",
     1,
     {{2, 4, 13, 13, "2 1", "2 2"},
      {4, 8, 27, 27, "4 3 2 1", "4 4 4 4"},
      {4, 4, 15, 15, "4 3 2 1", "4 4 4 4"}},
     {1, false, false, true, true},
     {1, false, false, true, true},
     R"(
F0.0 F1.0 F2.0 F3.0 b0.0 w0.0 F4.0 b1.0 w1.0 F5.0 b2.0 w2.0 F6.0 b3.0 w3.0 F7.0 b4.0 w4.0 b5.0
w5.0 b6.0 w6.0 b7.0 w7.0;
F0.0 F1.0 F2.0 b0.0 F3.0 b1.0 w0.0 F4.0 b2.0 w1.0 F5.0 b3.0 w2.0 F6.0 b4.0 w3.0 F7.0 b5.0 w4.0
b6.0 w5.0 b7.0 w6.0 w7.0;
F0.0 F1.0 b0.0 F2.0 b1.0 F3.0 b2.0 w0.0 F4.0 b3.0 w1.0 F5.0 b4.0 w2.0 F6.0 b5.0 w3.0 F7.0 b6.0
w4.0 b7.0 w5.0 w6.0 w7.0;
F0.0 b0.0 F1.0 b1.0 F2.0 b2.0 F3.0 b3.0 w0.0 F4.0 b4.0 w1.0 F5.0 b5.0 w2.0 F6.0 b6.0 w3.0 F7.0
b7.0 w4.0 w5.0 w6.0 w7.0;
)"},
    {"zb-h2",
     1,
     {{2, 4, 13, 12, "3 1", "3 3"},
      {4, 8, 27, 24, "7 5 3 1", "7 7 7 7"},
      {4, 4, 16, 15, "4 4 3 1", "4 4 4 4"}},
     {1, false, false, true, false},
     {1, false, false, true, false},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 b0.0 w0.0 F7.0 b1.0 w1.0 b2.0 w2.0 b3.0 w3.0 b4.0 w4.0 b5.0
w5.0 b6.0 w6.0 b7.0 w7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 b0.0 F5.0 b1.0 F6.0 b2.0 w0.0 F7.0 b3.0 w1.0 b4.0 w2.0 b5.0 w3.0 b6.0
w4.0 b7.0 w5.0 w6.0 w7.0;
F0.0 F1.0 F2.0 b0.0 F3.0 b1.0 F4.0 b2.0 F5.0 b3.0 F6.0 b4.0 w0.0 F7.0 b5.0 w1.0 b6.0 w2.0 b7.0
w3.0 w4.0 w5.0 w6.0 w7.0;
F0.0 b0.0 F1.0 b1.0 F2.0 b2.0 F3.0 b3.0 F4.0 b4.0 F5.0 b5.0 F6.0 b6.0 w0.0 F7.0 b7.0 w1.0 w2.0
w3.0 w4.0 w5.0 w6.0 w7.0;
)"},
    {"zb-v",
     2,
     {{2, 4, 25, 24, "4 4", "4 4"},
      {4, 8, 51, 48, "8 8 8 8", "8 8 8 8"},
      {4, 4, 30, 30, "5 6 7 8", "5 6 7 8"}},
     {},
     {},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.1 b0.1 w0.1 F1.1 b1.1 w1.1 F2.1 b2.1 w2.1 F3.1 b3.1 w3.1
F7.0 b0.0 w0.0 F4.1 b4.1 w4.1 b1.0 w1.0 F5.1 b5.1 w5.1 b2.0 w2.0 F6.1 b6.1 w6.1 b3.0 w3.0 F7.1
b7.1 w7.1 b4.0 w4.0 b5.0 w5.0 b6.0 w6.0 b7.0 w7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 F5.0 F1.1 b0.1 w0.1 F2.1 b1.1 w1.1 F3.1 b2.1 w2.1 F6.0 b0.0 w0.0
F4.1 b3.1 w3.1 F7.0 b1.0 w1.0 F5.1 b4.1 w4.1 b2.0 w2.0 F6.1 b5.1 w5.1 b3.0 w3.0 F7.1 b6.1 w6.1
b4.0 b7.1 b5.0 w4.0 b6.0 w5.0 b7.0 w6.0 w7.1 w7.0;
F0.0 F1.0 F2.0 F0.1 F3.0 F1.1 F4.0 F2.1 b0.1 w0.1 F3.1 b1.1 w1.1 F5.0 b0.0 w0.0 F4.1 b2.1 w2.1
F6.0 b1.0 w1.0 F5.1 b3.1 w3.1 F7.0 b2.0 w2.0 F6.1 b4.1 w4.1 b3.0 w3.0 F7.1 b5.1 w5.1 b4.0 b6.1
b5.0 b7.1 b6.0 w4.0 b7.0 w5.0 w6.1 w7.1 w6.0 w7.0;
F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 F3.0 F3.1 b0.1 w0.1 F4.0 b0.0 w0.0 F4.1 b1.1 w1.1 F5.0 b1.0 w1.0
F5.1 b2.1 w2.1 F6.0 b2.0 w2.0 F6.1 b3.1 w3.1 F7.0 b3.0 w3.0 F7.1 b4.1 w4.1 b4.0 b5.1 b5.0 b6.1
b6.0 b7.1 b7.0 w4.0 w5.1 w6.1 w7.1 w5.0 w6.0 w7.0;
)"},
    {"interleaved",
     2,
     {{2, 4, 27, 27, "5 3", "5 3"},
      {4, 8, 57, 57, "11 9 7 5", "11 9 7 5"},
      {4, 4, 33, 33, "8 8 7 5", "8 8 7 5"}},
     {1, false, false, true, false},
     {2, false, false, true, false},
     R"(
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1 F5.1 B3.1 F6.1
B0.0 F7.1 B1.0 B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 B0.1 F5.0 B1.1 F6.0 B2.1 F7.0 B3.1 F4.1 B0.0 F5.1
B1.0 F6.1 B2.0 F7.1 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 B0.1 F3.1 B1.1 F4.0 B2.1 F5.0 B3.1 F6.0 B0.0 F7.0 B1.0 F4.1
B2.0 F5.1 B3.0 F6.1 B4.1 F7.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0
B3.0 F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0;
)"},
    {"zb-interleaved",
     2,
     {{2, 4, 25, 25, "4 3", "4 4"},
      {4, 8, 51, 51, "8 7 6 5", "8 8 8 8"},
      {4, 4, 27, 27, "8 7 6 5", "8 8 8 8"}},
     {2, false, false, true, false},
     {},
     R"(
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 b0.1 w0.1 F4.0 b1.1 w1.1 F5.0 b2.1 w2.1 F6.0 b3.1 w3.1
F7.0 b0.0 w0.0 F4.1 b1.0 w1.0 F5.1 b2.0 w2.0 F6.1 b3.0 w3.0 F7.1 b4.1 w4.1 b5.1 w5.1 b6.1 w6.1
b7.1 w7.1 b4.0 w4.0 b5.0 w5.0 b6.0 w6.0 b7.0 w7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 b0.1 F3.1 b1.1 w0.1 F4.0 b2.1 w1.1 F5.0 b3.1 w2.1 F6.0 b0.0
w3.1 F7.0 b1.0 w0.0 F4.1 b2.0 w1.0 F5.1 b3.0 w2.0 F6.1 b4.1 w3.0 F7.1 b5.1 w4.1 b6.1 w5.1 b7.1
w6.1 b4.0 w7.1 b5.0 w4.0 b6.0 w5.0 b7.0 w6.0 w7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 b0.1 F2.1 b1.1 F3.1 b2.1 w0.1 F4.0 b3.1 w1.1 F5.0 b0.0 w2.1 F6.0
b1.0 w3.1 F7.0 b2.0 w0.0 F4.1 b3.0 w1.0 F5.1 b4.1 w2.0 F6.1 b5.1 w3.0 F7.1 b6.1 w4.1 b7.1 w5.1
b4.0 w6.1 b5.0 w7.1 b6.0 w4.0 b7.0 w5.0 w6.0 w7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 b0.1 F1.1 b1.1 F2.1 b2.1 F3.1 b3.1 w0.1 F4.0 b0.0 w1.1 F5.0 b1.0 w2.1
F6.0 b2.0 w3.1 F7.0 b3.0 w0.0 F4.1 b4.1 w1.0 F5.1 b5.1 w2.0 F6.1 b6.1 w3.0 F7.1 b7.1 w4.1 b4.0
w5.1 b5.0 w6.1 b6.0 w7.1 b7.0 w4.0 w5.0 w6.0 w7.0;
)"},
    {"looped-bfs",
     2,
     {{2, 4, 27, 27, "8 8", "8 8"},
      {4, 8, 57, 57, "16 16 16 16", "16 16 16 16"},
      {4, 4, 33, 33, "8 8 8 8", "8 8 8 8"}},
     {2, false, true, true, false},
     {2, false, false, true, false},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 F0.1 F1.1 F2.1 F3.1 F4.1 F5.1 F6.1 F7.1 B0.1 B1.1 B2.1
B3.1 B4.1 B5.1 B6.1 B7.1 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 F0.1 F1.1 F2.1 F3.1 F4.1 F5.1 F6.1 F7.1 B0.1 B1.1 B2.1
B3.1 B4.1 B5.1 B6.1 B7.1 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 F0.1 F1.1 F2.1 F3.1 F4.1 F5.1 F6.1 F7.1 B0.1 B1.1 B2.1
B3.1 B4.1 B5.1 B6.1 B7.1 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F7.0 F0.1 F1.1 F2.1 F3.1 F4.1 F5.1 F6.1 F7.1 B0.1 B1.1 B2.1
B3.1 B4.1 B5.1 B6.1 B7.1 B0.0 B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
)"},
    {"backward-first",
     2,
     {{2, 4, 28, 28, "6 3", "6 3"},
      {4, 8, 63, 63, "12 11 8 5", "12 11 8 5"},
      {4, 4, 35, 35, "8 8 8 5", "8 8 8 5"}},
     {3, false, false, true, false},
     {},
     R"(
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 F7.0 B0.1 B1.1 B2.1 B0.0 B3.1 B1.0 B2.0
F4.1 F5.1 B3.0 F6.1 F7.1 B4.1 B5.1 B6.1 B4.0 B7.1 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 B2.1 B0.0 B3.1 B1.0 B2.0
B3.0 F4.1 F5.1 F6.1 F7.1 B4.1 B5.1 B6.1 B4.0 B7.1 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 B0.1 F4.0 B1.1 F5.0 B2.1 B0.0 F6.0 B3.1 B1.0 B2.0 F7.0
B3.0 F4.1 F5.1 F6.1 B4.1 F7.1 B5.1 B6.1 B4.0 B7.1 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 B0.0 F3.1 B3.1 B1.0 B2.0 F4.0 F5.0 B3.0 F6.0
F7.0 F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 B4.0 F7.1 B7.1 B5.0 B6.0 B7.0;
)"},
    {"hanayo",
     2,
     {{2, 4, 27, 27, "4 5", "4 5"},
      {4, 8, 57, 57, "8 9 10 11", "8 9 10 11"},
      {4, 4, 36, 36, "5 6 8 8", "5 6 8 8"}},
     {},
     {},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.1 B4.1 F5.1 B5.1
F7.0 B0.0 F6.1 B6.1 B1.0 B2.0 F7.1 B7.1 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 F5.0 F1.1 F6.0 B0.1 F2.1 B1.1 F3.1 B2.1 F4.1 B3.1 F5.1 B4.1 B0.0
F6.1 B5.1 F7.0 B1.0 B6.1 B2.0 F7.1 B3.0 B7.1 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F0.1 F3.0 F1.1 F4.0 F2.1 F5.0 F3.1 B0.1 F4.1 B1.1 F5.1 B2.1 F6.0 B0.0 B3.1 F6.1
B1.0 B4.1 F7.0 B2.0 B5.1 F7.1 B3.0 B6.1 B4.0 B5.0 B7.1 B6.0 B7.0;
F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 F3.0 F3.1 F4.0 F4.1 F5.0 B0.1 F5.1 B0.0 B1.1 F6.0 B1.0 F6.1 B2.1
B2.0 B3.1 F7.0 B3.0 F7.1 B4.1 B4.0 B5.1 B5.0 B6.1 B6.0 B7.1 B7.0;
)"},
    {"hanayo",
     4,
     {},
     {},
     {},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.1 F0.2 F1.1 F1.2 F2.1 F2.2 F3.1 F3.2 F0.3 B0.3 F1.3 B1.3
F2.3 B2.3 F3.3 B3.3 F4.1 F4.2 F7.0 F5.1 F5.2 B0.2 F4.3 B4.3 B0.1 B1.2 F5.3 B5.3 F6.1 B2.2 F6.2
B1.1 F7.1 B3.2 F7.2 B4.2 B2.1 F6.3 B6.3 B5.2 B3.1 B4.1 F7.3 B7.3 B5.1 B6.2 B6.1 B0.0 B7.2 B7.1
B1.0 B2.0 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 F5.0 F1.1 F0.2 F2.1 F1.2 F3.1 F2.2 F0.3 F3.2 F1.3 F6.0 B0.3 F2.3
B1.3 F3.3 B2.3 F4.1 B3.3 F4.2 F5.1 F7.0 F5.2 B0.2 F4.3 B1.2 B4.3 F5.3 B2.2 F6.1 B5.3 F7.1 B3.2
F6.2 B4.2 B0.1 F7.2 B5.2 F6.3 B1.1 B2.1 B6.3 F7.3 B3.1 B4.1 B7.3 B5.1 B6.2 B0.0 B6.1 B7.2 B1.0
B2.0 B7.1 B3.0 B4.0 B5.0 B6.0 B7.0;
F0.0 F1.0 F2.0 F0.1 F3.0 F1.1 F4.0 F2.1 F0.2 F3.1 F1.2 F0.3 F2.2 F1.3 F3.2 F2.3 F5.0 F3.3 B0.3
F4.1 B1.3 F5.1 B2.3 F6.0 B3.3 F4.2 B0.2 F5.2 F7.0 F4.3 B1.2 B2.2 F5.3 B4.3 F6.1 B3.2 F7.1 B5.3
B4.2 F6.2 B5.2 F6.3 B0.1 F7.2 B1.1 B2.1 F7.3 B6.3 B0.0 B3.1 B6.2 B7.3 B4.1 B5.1 B7.2 B1.0 B6.1
B2.0 B3.0 B7.1 B4.0 B5.0 B6.0 B7.0;
F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 F3.0 F3.1 F0.2 F0.3 F1.2 F1.3 F2.2 F2.3 F3.2 F3.3 F4.0 F4.1 F5.0
B0.3 F5.1 B1.3 B0.2 F6.0 B2.3 F4.2 B3.3 F4.3 B1.2 F5.2 B2.2 F5.3 B3.2 F6.1 F7.0 B4.3 F7.1 B4.2
B5.3 B5.2 F6.2 F6.3 B0.1 F7.2 B0.0 F7.3 B1.1 B2.1 B6.3 B6.2 B3.1 B1.0 B7.3 B7.2 B4.1 B5.1 B2.0
B6.1 B3.0 B4.0 B5.0 B7.1 B6.0 B7.0;
)"},
    {"chimera",
     1,
     {{2, 4, 12, 12, "2 2", "2 2"},
      {4, 8, 30, 30, "3 4 4 3", "3 4 4 3"},
      {4, 4, 16, 16, "3 4 4 3", "3 4 4 3"}},
     {1, false, false, true, true},
     {1, false, false, true, true},
     R"(
F0.0d F1.0d F0.0u B0.0u F1.0u B1.0u B0.0d F2.0d B1.0d F3.0d F2.0u B2.0u F3.0u B3.0u B2.0d B3.0d;
F0.0d F0.0u F1.0d F1.0u B0.0u B0.0d B1.0u B1.0d F2.0d F2.0u F3.0d F3.0u B2.0u B2.0d B3.0u B3.0d;
F0.0u F0.0d F1.0u F1.0d B0.0d B0.0u B1.0d B1.0u F2.0u F2.0d F3.0u F3.0d B2.0d B2.0u B3.0d B3.0u;
F0.0u F1.0u F0.0d B0.0d F1.0d B1.0d B0.0u F2.0u B1.0u F3.0u F2.0d B2.0d F3.0d B3.0d B2.0u B3.0u;
)"},
    {"dualpipe-v",
     2,
     {{2, 4, 25, 25, "5 5", "5 5"}, {4, 8, 51, 51, "9 9 9 9", "9 9 9 9"}},
     {},
     {2, false, false, true, false},
     R"(
F0.0 F1.0 F2.0 F3.0 F4.0 F5.0 F6.0 F0.1 b0.1 w0.1 F1.1 b1.1 w1.1 F2.1 b2.1 w2.1 F3.1 F7.0 B3.1
F4.1 B0.0 B4.1 F5.1 B1.0 B5.1 F6.1 B2.0 B6.1 F7.1 B3.0 B7.1 b4.0 w4.0 b5.0 w5.0 b6.0 w6.0 b7.0
w7.0;
F0.0 F1.0 F2.0 F3.0 F4.0 F0.1 F5.0 F1.1 b0.1 w0.1 F2.1 b1.1 w1.1 F3.1 F6.0 B2.1 F4.1 B0.0 F7.0
B3.1 F5.1 B1.0 B4.1 F6.1 B2.0 B5.1 F7.1 B3.0 B6.1 B4.0 b7.1 b5.0 w7.1 b6.0 w5.0 b7.0 w6.0 w7.0;
F0.0 F1.0 F2.0 F0.1 F3.0 F1.1 F4.0 F2.1 b0.1 w0.1 F3.1 F5.0 B1.1 F4.1 B0.0 F6.0 B2.1 F5.1 B1.0
F7.0 B3.1 F6.1 B2.0 B4.1 F7.1 B3.0 B5.1 B4.0 B6.1 b5.0 b7.1 b6.0 w5.0 b7.0 w7.1 w6.0 w7.0;
F0.0 F0.1 F1.0 F1.1 F2.0 F2.1 F3.0 F3.1 F4.0 B0.1 F4.1 B0.0 F5.0 B1.1 F5.1 B1.0 F6.0 B2.1 F6.1
B2.0 F7.0 B3.1 F7.1 B3.0 B4.1 B4.0 B5.1 B5.0 b6.1 b6.0 b7.1 b7.0 w6.1 w6.0 w7.1 w7.0;
)"},
    {"dualpipe",
     1,
     {{2, 4, 12, 12, "3 3", "3 3"}, {4, 8, 25, 25, "5 5 5 5", "5 5 5 5"}},
     {2, false, false, true, false},
     {2, false, false, true, false},
     R"(
F0.0d F1.0d F2.0d F0.0u b0.0u w0.0u F1.0u F3.0d B1.0u F2.0u B0.0d B2.0u F3.0u B1.0d B3.0u b2.0d
w2.0d b3.0d w3.0d;
F0.0d F0.0u F1.0d F1.0u F2.0d B0.0u F2.0u B0.0d F3.0d B1.0u F3.0u B1.0d B2.0u B2.0d b3.0u b3.0d
w3.0u w3.0d;
F0.0u F0.0d F1.0u F1.0d F2.0u B0.0d F2.0d B0.0u F3.0u B1.0d F3.0d B1.0u B2.0d B2.0u b3.0d b3.0u
w3.0d w3.0u;
F0.0u F1.0u F2.0u F0.0d b0.0d w0.0d F1.0d F3.0u B1.0d F2.0d B0.0u B2.0d F3.0d B1.0u B3.0d b2.0u
w2.0u b3.0u w3.0u;
)"},
};

}  // namespace phalanx
