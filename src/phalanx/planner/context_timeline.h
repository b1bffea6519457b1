#pragma once
// How the ranks of a context work on the attention of one layer, forward and backward: parts of
// attention, and the messages of the exchange, in each rank's own order. Nothing is simulated: the
// program of every rank runs on the planning backend, and a recorder notes its messages.
//
// The axis is the order, and no length is a time: attention to a block of keys has length 1; a
// message that is begun and waited for at once has length 1/2.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/comm/communicator.h"
#include "phalanx/planner/plan.h"

namespace phalanx {

struct ContextTimeline {
  struct Attention {
    // Whose keys and values: a rank of the ring, which is a group of ranks where these exchange
    // heads; -1: all of the sample's.
    int source = -1;
    double begin = 0.0;
    double end = 0.0;
  };
  struct Move {
    std::string_view op;  // "exchange", "all_gather", ...
    bool has_gradients = false;
    int to = -1;             // of an exchange: a rank of the ring
    std::int64_t bytes = 0;  // that the rank contributes
    double begin = 0.0;
    double done = 0.0;
  };
  struct Part {
    std::vector<Attention> attention;
    std::vector<Move> moves;
    double length = 0.0;
  };
  struct Row {
    int rank = 0;  // of the context
    int ring_rank = -1;
    Part forward, backward;
  };
  std::string layer;
  std::vector<Row> rows;
};

// Of the first layer and the context-parallel group of rank 0. ConfigError where there is no
// context, for a pipeline, and for more ranks than a picture shows.
ContextTimeline context_timeline(const RunPlan& plan);

// One SVG document.
std::string to_svg(const ContextTimeline& timeline, const std::string& title);

}  // namespace phalanx
