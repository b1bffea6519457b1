#include "phalanx/pipeline/stage_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "phalanx/comm/local/local_ranks.h"
#include "phalanx/ops/ref/ref_backend.h"

namespace phalanx {
namespace {

using Values = std::vector<double>;

constexpr Action kSend{
    .kind = ActionKind::kSend, .chunk = 1, .microbatch = 3, .peer = 1, .source_stage = 2};
constexpr Action kReceive{
    .kind = ActionKind::kReceive, .chunk = 0, .microbatch = 3, .peer = 0, .source_stage = 2};

Values counted(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

// The bytes of a group and op over all messages.
std::int64_t payload_of(const std::vector<Message>& messages, const std::string& group,
                        const std::string& op) {
  std::int64_t bytes = 0;
  for (const Message& message : messages) {
    if (message.group == group && message.op == op) bytes += message.bytes;
  }
  return bytes;
}

// One of four ranks: two stages of two tensor-parallel ranks each.
struct StageRank {
  StageRank(Communicator& world, bool sequence)
      : tensor(world.split(std::vector<std::vector<int>>{{0, 1}, {2, 3}}, "tp")),
        pipeline(world.split(std::vector<std::vector<int>>{{0, 2}, {1, 3}}, "pp")),
        region({.rank = tensor->rank(), .size = 2, .sequence = sequence}, tensor.get()),
        messages(pipeline.get()) {}

  Tensor stream(const Shape& shape, const Values& values) {
    const Tensor made = memory.allocate(DType::kF64, shape);
    std::ranges::copy(values, made.span<double>().begin());
    return made;
  }
  bool sends() const { return pipeline->rank() == 0; }
  std::vector<Message> seen() const { return recorder.messages(); }

  std::unique_ptr<Communicator> tensor, pipeline;
  std::unique_ptr<Backend> backend = make_ref_backend();
  Arena memory{"memory", 1 << 16};
  Arena workspace{"workspace", 1 << 16};
  Recorder recorder;
  Context context{.backend = *backend, .workspace = workspace, .queue = {}, .recorder = &recorder};
  TensorRegion region;
  StageMessages messages;
};

Values values_of(const Tensor& tensor) {
  return {tensor.span<double>().begin(), tensor.span<double>().end()};
}

void on_four_ranks(bool sequence, const std::function<void(StageRank&)>& body) {
  run_local_ranks(4, {.timeout = std::chrono::seconds(60)}, [&](Communicator& world) {
    StageRank rank(world, sequence);
    body(rank);
  });
}

// Two streams: one that has shares, one that has none.
TEST(StageMessages, AStreamThatAllRanksHoldGoesInShares) {
  on_four_ranks(false, [](StageRank& rank) {
    const Shape even{3, 2, 4}, odd{3, 1, 5};
    const auto value = [&](const Shape& shape) {
      return rank.sends() ? counted(shape.count())
                          : Values(static_cast<std::size_t>(shape.count()), -1.0);
    };
    const std::vector<Tensor> streams = {rank.stream(even, value(even)),
                                         rank.stream(odd, value(odd))};
    const std::int64_t sent = 8 * (even.count() / 2 + odd.count());
    if (rank.sends()) {
      rank.messages.send(rank.context, rank.region, kSend, streams);
      rank.messages.await_send(rank.context, kSend);
      EXPECT_EQ(payload_of(rank.seen(), "pp", "send"), sent);
      EXPECT_EQ(payload_of(rank.seen(), "tp", "all_gather"), 0);
    } else {
      rank.messages.receive(rank.context, rank.region, kReceive, streams);
      EXPECT_EQ(payload_of(rank.seen(), "tp", "all_gather"), 0) << "before it is waited for";
      rank.messages.await_input(rank.context, rank.region, pass(ActionKind::kForward, 0, 3));
      EXPECT_EQ(payload_of(rank.seen(), "tp", "all_gather"), 8 * even.count() / 2);
    }
    EXPECT_EQ(values_of(streams[0]), counted(even.count()));
    EXPECT_EQ(values_of(streams[1]), counted(odd.count()));
  });
}

// A stream that is cut along the sequence is another part on every rank: it is sent whole.
TEST(StageMessages, WithSequenceParallelismARankSendsWhatItHas) {
  on_four_ranks(true, [](StageRank& rank) {
    const Shape shape{2, 2, 4};
    Values mine = counted(shape.count());
    for (double& value : mine) value += 100.0 * rank.tensor->rank();
    const Tensor stream = rank.stream(shape, rank.sends() ? mine : Values(mine.size(), -1.0));
    if (rank.sends()) {
      rank.messages.send(rank.context, rank.region, kSend, {&stream, 1});
      rank.messages.await_send(rank.context, kSend);
      EXPECT_EQ(payload_of(rank.seen(), "pp", "send"), 8 * shape.count());
    } else {
      rank.messages.receive(rank.context, rank.region, kReceive, {&stream, 1});
      rank.messages.await_receive(rank.context, rank.region, kReceive);
      EXPECT_EQ(payload_of(rank.seen(), "tp", "all_gather"), 0);
    }
    EXPECT_EQ(values_of(stream), mine);
  });
}

// A pass waits only for its own input: not for another microbatch's, nor for the other payload. The
// input of a weight gradient pass has been waited for before.
TEST(StageMessages, APassWaitsForItsInput) {
  on_four_ranks(false, [](StageRank& rank) {
    const Shape shape{2, 2, 4};
    const Tensor stream = rank.stream(shape, rank.sends() ? counted(shape.count()) : Values{});
    const auto gathered = [&] { return payload_of(rank.seen(), "tp", "all_gather"); };
    if (rank.sends()) {
      rank.messages.send(rank.context, rank.region, kSend, {&stream, 1});
      rank.messages.await_send(rank.context, kSend);
      return;
    }
    rank.messages.receive(rank.context, rank.region, kReceive, {&stream, 1});
    for (const Action& other :
         {pass(ActionKind::kForward, 0, 2), pass(ActionKind::kForward, 1, 3),
          pass(ActionKind::kBackward, 0, 3), pass(ActionKind::kBackwardWeight, 0, 3)}) {
      rank.messages.await_input(rank.context, rank.region, other);
      EXPECT_EQ(gathered(), 0) << to_string(other);
    }
    rank.messages.await_input(rank.context, rank.region, pass(ActionKind::kForward, 0, 3));
    EXPECT_EQ(gathered(), 8 * shape.count() / 2);
    // It is complete: nothing is left to gather.
    rank.messages.await_input(rank.context, rank.region, pass(ActionKind::kForward, 0, 3));
    EXPECT_EQ(gathered(), 8 * shape.count() / 2);
    EXPECT_EQ(values_of(stream), counted(shape.count()));
  });
}

}  // namespace
}  // namespace phalanx
