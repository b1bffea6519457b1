#pragma once
// How ranks talk. A communicator is one rank's end of a group of ranks: collectives, keyed
// point-to-point messages, and splits into smaller groups. Its transports (local/: threads of one
// process; ucx/: processes; meta/: nobody, it counts) keep the same promises:
//
// - Every rank of a group calls the same collectives in the same order, with the same counts,
//   dtypes and roots; a transport that can see a difference throws CommError (comm_error.h)
//   naming it.
// - A call is enqueued and returns a Work; its tensors belong to the transport until that has been
//   waited for. Nothing assumes that a peer's memory is visible, nor that progress is made between
//   calls.
// - Sums are added in the order of a SumTree (sum_tree.h), which depends on the group's size and on
//   a setting of the world: from left to right in blocks of ranks, then the sums of blocks
//   likewise. 16-bit floating-point data accumulates in fp32 all the way, and is rounded once.
// - The k-th send from one rank to another meets its k-th receive; the key says what is in it. A
//   send is done when its tensor may change, which may be before its receive.
// - A rank that fails calls abort(): every wait of every peer throws CommError within a second.
// - Time limits of waits do not count time in which a rank is busy with something long that is no
//   message, and has said so with busy(): neither in waits for it, nor for ranks that wait for it.
//
// Tensors are contiguous. Counts are in elements.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/comm/work.h"
#include "phalanx/ops/backend.h"
#include "phalanx/tensor/recorder.h"

namespace phalanx {

enum class Reduction : std::uint8_t { kSum, kMax, kMin };
std::string_view name_of(Reduction reduction);

// What is in a point-to-point message.
enum class MessageKind : std::uint8_t { kOther, kActivation, kGradient };
constexpr std::uint64_t message_key(MessageKind kind, std::uint32_t source_stage,
                                    std::uint32_t microbatch) {
  return (std::uint64_t{static_cast<std::uint8_t>(kind)} << 56) |
         (std::uint64_t{source_stage & 0xffffffU} << 32) | microbatch;
}
constexpr MessageKind message_kind(std::uint64_t key) {
  return MessageKind{static_cast<std::uint8_t>(key >> 56)};
}

// One of a group of messages that start together, in whatever order they are written.
struct PointToPoint {
  enum class Direction : std::uint8_t { kSend, kReceive };
  Direction direction = Direction::kSend;
  int peer = 0;
  std::uint64_t key = 0;
  Tensor tensor;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(group_->ranks.size()); }
  // What the group is for: "world", "tp", "dp".
  const std::string& name() const { return group_->name; }
  const std::shared_ptr<const MessageGroup>& group() const { return group_; }

  // tensor = the reduction of all ranks' tensors, the same bits everywhere.
  Work all_reduce(Context& context, const Tensor& tensor, Reduction reduction);
  // output = this rank's part of the reduction; input is `size` parts, in rank order. output may be
  // this rank's part of input; the rest of input is then undefined.
  Work reduce_scatter(Context& context, const Tensor& output, const Tensor& input,
                      Reduction reduction);
  // output = the inputs of all ranks, in rank order. input may be this rank's part of output.
  Work all_gather(Context& context, const Tensor& output, const Tensor& input);
  Work broadcast(Context& context, const Tensor& tensor, int root);
  // Part r of input goes to rank r; part r of output comes from it. Equal parts.
  Work all_to_all(Context& context, const Tensor& output, const Tensor& input);
  // Parts of these counts, one after the other.
  Work all_to_all(Context& context, const Tensor& output, std::span<const std::int64_t> from,
                  const Tensor& input, std::span<const std::int64_t> to);
  // Returns when all ranks have called it.
  void barrier(Context& context);

  Work send(Context& context, const Tensor& tensor, int peer, std::uint64_t key);
  Work receive(Context& context, const Tensor& tensor, int peer, std::uint64_t key);
  // All messages start together: a rank may send to and receive from the same peer without a
  // deadlock. The Work is done when all are.
  Work exchange(Context& context, std::span<const PointToPoint> messages);

  // A communicator of this rank's group among disjoint `groups` of ranks (in this communicator's
  // numbering); the members are numbered in the order given. Null if the rank is in none. Every
  // rank passes the same groups, and all splits happen in the same order on all ranks.
  virtual std::unique_ptr<Communicator> split(std::span<const std::vector<int>> groups,
                                              std::string name) = 0;

  // This rank fails: all waits of all ranks of the world, in any group, end with a CommError that
  // names this rank and the reason. Only the first abort counts.
  virtual void abort(std::string_view reason) noexcept = 0;

  // Its rank is busy while it lives. The communicator must outlive it; the thread that uses the
  // communicator must end it.
  class Busy {
   public:
    Busy(Busy&& other) noexcept : communicator_(std::exchange(other.communicator_, nullptr)) {}
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    Busy& operator=(Busy&&) = delete;
    ~Busy() {
      if (communicator_ != nullptr) communicator_->end_busy();
    }

   private:
    friend class Communicator;
    explicit Busy(Communicator& communicator) : communicator_(&communicator) {}
    Communicator* communicator_;
  };
  // This rank does something long that is no message: waits for it, in any group, do not time out
  // meanwhile, and their time limit begins anew when it ends. `what` completes "waiting for rank 0,
  // which has been ...": "saving the checkpoint of iteration 100". May be nested.
  [[nodiscard]] Busy busy(std::string what);

 protected:
  Communicator(int rank, std::shared_ptr<const MessageGroup> group)
      : rank_(rank), group_(std::move(group)) {}

  // What a transport implements; operands have been checked and recorded.
  virtual Work start_all_reduce(Context& context, const Tensor& tensor, Reduction reduction) = 0;
  virtual Work start_reduce_scatter(Context& context, const Tensor& output, const Tensor& input,
                                    Reduction reduction) = 0;
  virtual Work start_all_gather(Context& context, const Tensor& output, const Tensor& input) = 0;
  virtual Work start_broadcast(Context& context, const Tensor& tensor, int root) = 0;
  virtual Work start_all_to_all(Context& context, const Tensor& output,
                                std::span<const std::int64_t> from, const Tensor& input,
                                std::span<const std::int64_t> to) = 0;
  virtual void start_barrier(Context& context) = 0;
  virtual Work start_exchange(Context& context, std::span<const PointToPoint> messages) = 0;
  virtual void begin_busy(std::string what) = 0;
  virtual void end_busy() noexcept = 0;

 private:
  int rank_;
  std::shared_ptr<const MessageGroup> group_;
};

}  // namespace phalanx
