#pragma once
// The header before the data of a message: the sender's call, which the receiver compares with its
// own.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "phalanx/comm/call.h"
#include "phalanx/rendezvous/comm_place.h"

namespace phalanx::ucx {

// The ranks of one communicator. No two groups that share two ranks have the same id.
struct UcxGroup : MessageGroup {
  std::uint16_t id = 0;
  int rank = 0;  // this rank's number in the group

  int size() const { return static_cast<int>(ranks.size()); }
  int world_rank(int member) const { return ranks[static_cast<std::size_t>(member)]; }
};

struct Header {
  std::uint8_t kind = 0;
  std::uint8_t dtype = 0;
  std::uint8_t reduction = 0;
  std::uint8_t unused = 0;
  std::int32_t root = 0;
  std::int64_t count = 0;
  std::uint64_t key = 0;         // all_to_all: elements for the receiver
  std::uint64_t split = 0;       // digest of the split's groups
  std::uint32_t next_group = 0;  // split: the smallest id that the sender may use
  std::uint32_t text_bytes = 0;  // of the split's text, which follow
};
static_assert(sizeof(Header) == 40);

Header header_of(const Call& call);

// One call of a group, or one message of one of its pairs.
struct CallPlace {
  std::shared_ptr<const UcxGroup> group{};
  Call call{};
  std::uint64_t number = 0;
  int sender = -1;    // of a message: members
  int receiver = -1;  //
};
// The text of describe_place() or describe_message().
std::string label_of(const CallPlace& place);
CommPlace comm_place(const CallPlace& place);

// CommError (70) that names both sides if the call of the group's `member` differs from this
// rank's. `text`: the bytes after its header.
void expect_same_call(const CallPlace& mine, int member, const Header& theirs,
                      std::string_view text);
// The same for all_to_all, if the member does not send `taken` elements.
void expect_given(const CallPlace& mine, int member, const Header& theirs, std::int64_t taken);

}  // namespace phalanx::ucx
