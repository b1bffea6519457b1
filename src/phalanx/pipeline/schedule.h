#pragma once
// A schedule: for every rank of a pipeline the list of its passes, with the places where gradients
// are reduced and weights updated. The generators are in schedules/, a file for each family, and
// the table of kinds in schedules/schedule_table.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/pipeline/action.h"
#include "phalanx/pipeline/costs.h"
#include "phalanx/pipeline/placement.h"

namespace phalanx {

// When weights change.
enum class UpdateRule : std::uint8_t {
  kFlush,           // once, after the gradients of all microbatches: no weight is stale
  kPerMicrobatch,   // after every backward pass of a rank (PipeDream)
  kDoubleBuffered,  // after every batch of microbatches, and read one batch later (PipeDream-2BW)
};

// By rank.
using ActionLists = std::vector<std::vector<Action>>;

struct Schedule {
  std::string kind;  // "zb-v"
  Placement placement;
  int microbatches = 1;  // of all directions together
  bool forward_only = false;
  UpdateRule update = UpdateRule::kFlush;
  int microbatches_per_update = 1;  // of the stream; kFlush: all
  int split = 0;                    // the first rank of a decoder; 0: one stack
  // Stages in front of this one train nothing: their backward passes do nothing, and no gradient is
  // sent to them.
  int first_trained_stage = 0;
  ActionLists ranks;  // no messages

  int microbatches_of(int direction) const {
    return (microbatches + placement.directions() - 1 - direction) / placement.directions();
  }
};

// "F3.0"; of a bidirectional placement "F3.0d" or "F3.0u".
std::string pass_name(const Action& action, const Placement& placement);

// The input of a generator.
struct ScheduleRequest {
  int ranks = 1;
  int microbatches = 1;
  int chunks = 0;      // of a rank; 0: as many as the kind has, or 2 if it can have any number
  int split = 0;       // the first rank of a decoder, of one stage on every rank; 0: one stack
  int group_size = 0;  // microbatches that go through a chunk together, where the kind takes it;
                       // 0: the kind's own choice
  int microbatches_per_update = 0;  // kDoubleBuffered; 0: one for each rank
  Costs costs = {};                 // auto: for which it searches
  // auto: in activations of one chunk and microbatch
  std::optional<double> memory_limit = std::nullopt;
};

struct ScheduleKind {
  std::string_view name;
  std::string_view summary;  // a line for people
  UpdateRule update = UpdateRule::kFlush;
  // ConfigError if the request makes no sense for the kind.
  Placement (*placement)(const ScheduleRequest& request);
  // Passes only, with the weight versions that they read if weights are stale.
  ActionLists (*passes)(const ScheduleRequest& request, const Placement& placement);
  // Why it cannot run an encoder and a decoder, which have a stage on every rank and share some
  // parameters between ranks; empty: it can.
  std::string_view split_obstacle = {};
  bool takes_group_size = false;  // ScheduleRequest::group_size

  // Copies of the model. A schedule of two cannot be trained with.
  int directions() const { return placement({.ranks = 2}).directions(); }
};

// In the order of messages and help texts.
std::span<const ScheduleKind> schedule_kinds();
// Their names in this order: the choices of flags. The compiler compares them with the table.
inline constexpr std::string_view kScheduleNames =
    "naive gpipe 1f1b eager-1f1b interleaved looped-bfs zb-h1 zb-h2 zb-v zb-interleaved hanayo "
    "dualpipe dualpipe-v chimera backward-first pipedream pipedream-2bw auto";
// ConfigError that lists the names.
const ScheduleKind& schedule_kind(std::string_view name);

// ConfigError if the kind cannot run an encoder and a decoder; it says why, and names the kinds
// that can.
void check_split(const ScheduleKind& kind);

// The kind's passes with reductions and updates: a chunk is reduced after its last weight gradient
// before an update. The result is not verified.
Schedule make_schedule(std::string_view kind, const ScheduleRequest& request);
// For evaluation: forward passes only, each as soon as possible, the deepest stage first.
Schedule forward_only_schedule(const Placement& placement, int microbatches);

}  // namespace phalanx
