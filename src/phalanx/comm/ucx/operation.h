#pragma once
// One collective or message of this rank: a task, and the messages that it awaits. Used with the
// engine's lock held, unless a comment says otherwise.

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/comm/comm_error.h"
#include "phalanx/comm/ucx/header.h"
#include "phalanx/comm/ucx/task.h"
#include "phalanx/comm/ucx/wire.h"

namespace phalanx::ucx {

class Batch;
class Engine;
class Operation;

// Up to this size data is sent in one message with its header.
constexpr std::size_t kSmallBytes = 4096;
// A header and small data.
struct StagingBuffer {
  alignas(16) std::array<std::byte, sizeof(Header) + kSmallBytes> bytes;

  const std::byte* data() const { return bytes.data() + sizeof(Header); }
  std::byte* data() { return bytes.data() + sizeof(Header); }
  Header header() const {
    Header header;
    std::memcpy(&header, bytes.data(), sizeof header);
    return header;
  }
};

// Messages of one call between the same two ranks that have no order among each other.
enum class Lane : std::uint8_t { kHeader, kData, kGather, kMessage, kBlockData, kBlockSum };

struct MessageTransfer : Transfer {
  Batch* batch = nullptr;
  int member = 0;  // the other end's rank in the group
  bool sends = false;
  bool over = false;
  StagingBuffer* headed = nullptr;  // for a receive that begins with a header
  std::size_t small_bytes = 0;      // that must follow the header
  std::int64_t taken = -1;          // all_to_all: elements
};

// Messages that are awaited together; lives in the frame of a task.
class Batch {
 public:
  explicit Batch(Operation& operation);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void send(int member, Lane lane, const void* data, std::size_t bytes);
  void receive(int member, Lane lane, void* data, std::size_t bytes);
  // Sends the call's header first, which the receiver compares with its own. `given`: elements of
  // all_to_all.
  void send_headed(int member, Lane lane, const void* data, std::size_t bytes,
                   std::int64_t given = 0);
  // Large data goes to `data`; small data stays in the returned buffer, which lives as long as the
  // batch.
  const StagingBuffer& receive_headed(int member, Lane lane, void* data, std::size_t bytes,
                                      std::int64_t taken = -1);
  // kSplit: the text and the smallest id of a group.
  void send_split(int member, std::uint32_t next_group);
  const StagingBuffer& receive_split(int member);

  // `co_await batch` gives their memory back; `co_await batch.kept()` leaves it until the end.
  bool await_ready() const { return pending_ == 0; }
  void await_suspend(std::coroutine_handle<> task);
  void await_resume() { clear(); }
  auto kept() {
    struct Awaiter {
      Batch& batch;
      bool await_ready() const { return batch.await_ready(); }
      void await_suspend(std::coroutine_handle<> task) const { batch.await_suspend(task); }
      void await_resume() const {}
    };
    return Awaiter{*this};
  }

  void add_missing(std::vector<int>& receiving, std::vector<int>& sending) const;

 private:
  friend Operation;

  MessageTransfer& begin(int member, bool sends);
  StagingBuffer& stage();
  void send_staged(int member, Lane lane, const Header& header, const void* data,
                   std::size_t bytes);
  MessageTransfer& receive_staged(int member);
  void clear();

  Operation& operation_;
  int pending_ = 0;
  std::list<MessageTransfer> messages_;
  std::list<StagingBuffer> buffers_;
};

class Operation {
 public:
  Operation(Engine& engine, CallPlace place) : engine_(engine), place_(std::move(place)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  Engine& engine() { return engine_; }
  const CallPlace& place() const { return place_; }
  const UcxGroup& group() const { return *place_.group; }
  const Call& call() const { return place_.call; }
  int rank() const { return group().rank; }
  int size() const { return group().size(); }

  void set_task(Task task) { task_ = std::move(task), next_ = task_.handle(); }
  // What runs when the engine resumes it.
  void continue_with(std::coroutine_handle<> task) { next_ = task; }
  bool done() const { return done_; }
  // Ranks of the world whose messages have not come; if all have come, those that have not taken
  // ours.
  std::vector<int> missing_ranks() const;

  // The result of a split: the smallest group id that all members may use.
  std::uint32_t next_group = 0;

 private:
  friend Batch;
  friend Engine;

  static void on_ended(Transfer& transfer);
  void ended(MessageTransfer& message);
  void check(const MessageTransfer& message) const;

  Engine& engine_;
  CallPlace place_;
  std::coroutine_handle<> next_{};  // what continues when `awaited_` is complete
  const Batch* awaited_ = nullptr;
  std::vector<Batch*> batches_;
  bool done_ = false;
  std::optional<CommError> mismatch_{};
  // A message that will not come: the member that sends it, and UCX's reason.
  struct Broken {
    int member = 0;
    std::string reason{};
  };
  std::optional<Broken> broken_{};
  std::size_t index_ = 0;  // in the engine's list
  Task task_{};            // destroyed first: its frame's batches use the members above
};

}  // namespace phalanx::ucx
