// The table of schedules. A new one is a rule in a file of its own, and a line here.

#include "phalanx/base/error.h"
#include "phalanx/pipeline/schedules/generators.h"

namespace phalanx {
namespace {

constexpr int kDefaultChunks = 2;

void check_chunks(const ScheduleRequest& request, int chunks) {
  if (request.chunks == 0 || request.chunks == chunks) return;
  throw ConfigError("the schedule has {} on every rank: give that number or none, not {}",
                    chunks == 1 ? "1 chunk" : "2 chunks", request.chunks);
}

Placement contiguous(const ScheduleRequest& request) {
  check_chunks(request, 1);
  return Placement::contiguous(request.ranks);
}

Placement looped(const ScheduleRequest& request) {
  const int by_default = request.split > 0 ? 1 : kDefaultChunks;
  const int chunks = request.chunks == 0 ? by_default : request.chunks;
  if (chunks < 1 || (chunks > 1 && request.ranks == 1)) {
    throw ConfigError(
        "chunks in a loop over the ranks: give at least 1 for each rank, and at least 2 ranks for "
        "more than 1, not {} for each of {}",
        chunks, request.ranks);
  }
  return Placement::looped(request.ranks, chunks);
}

Placement v_shaped(const ScheduleRequest& request) {
  check_chunks(request, 2);
  return Placement::wave(request.ranks, 2);
}

Placement waves(const ScheduleRequest& request) {
  const int chunks = request.chunks == 0 ? kDefaultChunks : request.chunks;
  if (chunks < 2 || chunks % 2 != 0) {
    throw ConfigError(
        "waves go down the ranks and up again: give an even number of chunks, at least 2, not {}",
        chunks);
  }
  return Placement::wave(request.ranks, chunks);
}

// Users see one chunk: the other one belongs to the second copy of the model.
Placement two_copies(const ScheduleRequest& request) {
  check_chunks(request, 1);
  return Placement::bidirectional(request.ranks);
}

// Its shape follows from the number of chunks.
Placement by_chunks(const ScheduleRequest& request) {
  if (request.chunks == 0 || request.chunks == 1) return contiguous(request);
  return request.chunks == 2 ? v_shaped(request) : looped(request);
}

constexpr std::string_view kManyChunks = "ranks have several chunks, and each stack has its own";
constexpr std::string_view kTwoCopies = "the model is there twice, in either direction";
constexpr std::string_view kStale =
    "weights are stale, and copies of the tables that both share would be of different versions";
constexpr std::string_view kSearched = "it is searched for stages that are all alike";
constexpr bool kTakesGroupSize = true;

constexpr ScheduleKind kKinds[] = {
    {"naive", "one microbatch at a time", UpdateRule::kFlush, contiguous, naive_passes},
    {"gpipe", "all microbatches forward, then all backward", UpdateRule::kFlush, contiguous,
     gpipe_passes},
    {"1f1b", "one forward, one backward in turn: the memory of p microbatches", UpdateRule::kFlush,
     contiguous, one_forward_one_backward_passes},
    {"eager-1f1b", "1f1b with forward passes further ahead, which hides messages",
     UpdateRule::kFlush, contiguous, eager_passes},
    {"interleaved", "1f1b with several chunks on every rank: a smaller bubble, more messages",
     UpdateRule::kFlush, looped, interleaved_passes, kManyChunks, kTakesGroupSize},
    {"looped-bfs", "several chunks, all microbatches through each: few uses of the weights",
     UpdateRule::kFlush, looped, looped_bfs_passes, kManyChunks},
    {"zb-h1", "1f1b whose weight gradients fill the bubble, each rank with p microbatches",
     UpdateRule::kFlush, contiguous, zero_bubble_h1_passes},
    {"zb-h2", "no bubble but the skew of the ranks, in twice the memory", UpdateRule::kFlush,
     contiguous, zero_bubble_h2_passes},
    {"zb-v", "the same with p microbatches on each rank, two chunks in a V", UpdateRule::kFlush,
     v_shaped, zero_bubble_v_passes, kManyChunks},
    {"zb-interleaved", "interleaved whose weight gradients fill the bubble", UpdateRule::kFlush,
     looped, interleaved_zero_bubble_passes, kManyChunks, kTakesGroupSize},
    {"hanayo", "waves down and up the ranks, which turn without a message", UpdateRule::kFlush,
     waves, hanayo_passes, kManyChunks},
    {"dualpipe", "two directions, each hiding the other's messages; two copies of the model",
     UpdateRule::kFlush, two_copies, dualpipe_passes, kTwoCopies},
    {"dualpipe-v", "half of dualpipe: two chunks in a V, one copy of the model", UpdateRule::kFlush,
     v_shaped, dualpipe_v_passes, kManyChunks},
    {"chimera", "two directions that fill each other's bubbles; two copies of the model",
     UpdateRule::kFlush, two_copies, chimera_passes, kTwoCopies},
    {"backward-first", "no plan: a backward pass as soon as one is ready", UpdateRule::kFlush,
     looped, backward_first_passes},
    {"pipedream", "asynchronous: an update after every microbatch, stale weights",
     UpdateRule::kPerMicrobatch, contiguous, pipedream_passes, kStale},
    {"pipedream-2bw", "asynchronous: weights one update old, two versions of them",
     UpdateRule::kDoubleBuffered, contiguous, double_buffered_passes, kStale},
    {"auto", "the fastest that can be found for the costs and the memory", UpdateRule::kFlush,
     by_chunks, auto_passes, kSearched},
};

// Whether the table has these names, and no others.
constexpr bool has_names(std::string_view names) {
  for (const ScheduleKind& kind : kKinds) {
    if (!names.starts_with(kind.name)) return false;
    names.remove_prefix(kind.name.size());
    if (!names.empty() && !names.starts_with(' ')) return false;
    names.remove_prefix(names.empty() ? 0 : 1);
  }
  return names.empty();
}
static_assert(has_names(kScheduleNames));

}  // namespace

std::span<const ScheduleKind> schedule_kinds() { return kKinds; }

}  // namespace phalanx
