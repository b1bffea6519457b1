#pragma once
// A call of a rank, for transports to compare with the other ranks' calls and to name in errors.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/comm/communicator.h"

namespace phalanx {

enum class OperationKind : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kBarrier,
  kSplit,
  kMessage,  // two members: the sender, the receiver
};

// What must be equal on all ranks.
struct Call {
  OperationKind kind = OperationKind::kBarrier;
  DType dtype = DType::kU8;
  // Elements: of the tensor; of one part (reduce-scatter, all-gather); groups of a split.
  std::int64_t count = 0;
  Reduction reduction = Reduction::kSum;
  int root = 0;
  std::uint64_t key = 0;
  std::uint64_t split_digest = 0;  // of all new groups and their name
  std::string split{};             // them, or where they begin, for messages

  friend bool operator==(const Call&, const Call&) = default;
};

// "all_reduce(sum, f32 x 100)"; a message as its member 0 or 1 calls it.
std::string describe(const Call& call, std::size_t member);
// "tp: call 17: rank 2 calls all_reduce(...) where rank 3 calls barrier"; ranks of the world.
std::string describe_mismatch(std::string_view group, OperationKind kind, std::uint64_t number,
                              int rank, std::string_view calls, int other,
                              std::string_view other_calls);
// "tp: all_reduce(sum, f32 x 100), call 17".
std::string describe_place(std::string_view group, const Call& call, std::uint64_t number);
// "pp: message 3 (f32 x 8, key 0x5) from rank 0 to rank 1".
std::string describe_message(std::string_view group, const Call& call, std::uint64_t number,
                             int source, int destination);
// "all_to_all(gives 2 elements to rank 0)", "all_to_all(takes 2 elements from rank 0)".
std::string describe_given(std::int64_t count, int rank);
std::string describe_taken(std::int64_t count, int rank);

// The call of a split. Its text is as long for thousands of ranks as for fifty: "tp: [0 1] [2 3]",
// or the begin of that and the digest.
Call split_call(std::string_view name, std::span<const std::vector<int>> groups);

// "rank 4", "ranks 4, 7"; empty where there are none.
std::string spell_ranks(std::span<const int> ranks);

}  // namespace phalanx
