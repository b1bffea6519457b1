#pragma once
// Between the host and a device: memory that copies may use while the program goes on.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "phalanx/cuda/driver.h"
#include "phalanx/ops/queue.h"

namespace phalanx::cuda {

// A mark that is given back with its owner.
class OwnMark {
 public:
  explicit OwnMark(int device, bool timed = false) : mark_(make_mark(device, timed)) {}
  ~OwnMark() { give_back(mark_); }
  OwnMark(const OwnMark&) = delete;
  OwnMark& operator=(const OwnMark&) = delete;

  Mark operator*() const { return mark_; }

 private:
  Mark mark_;
};

// Pinned memory of the host, with the mark behind its last copy.
class PinnedBlock {
 public:
  PinnedBlock(int device, std::int64_t bytes);
  ~PinnedBlock();
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  std::byte* memory() const { return memory_; }
  std::int64_t bytes() const { return bytes_; }
  Mark mark() const { return *mark_; }

 private:
  std::byte* memory_;
  std::int64_t bytes_;
  OwnMark mark_;
};

// Uploads: bytes are copied to the ring at once, and from there in the order of a queue. Memory of
// the ring is used again when the copy from it has run, which the host then waits for.
class UploadRing {
 public:
  UploadRing(int device, std::int64_t bytes);

  void upload(Queue queue, std::byte* to, std::span<const std::byte> bytes);

 private:
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::unique_ptr<OwnMark> mark;
  };
  std::int64_t take(std::int64_t bytes);
  void free_first();

  int device_;
  PinnedBlock ring_;
  std::int64_t next_ = 0;
  std::deque<Piece> pieces_;  // the oldest first
  std::vector<std::unique_ptr<OwnMark>> marks_;
};

// Read-backs, each in a block of its own, which the next ones use again.
class ReadBlocks : public std::enable_shared_from_this<ReadBlocks> {
 public:
  explicit ReadBlocks(int device) : device_(device) {}

  ReadBack read_later(Queue queue, const std::byte* from, std::int64_t bytes);

 private:
  class Pending;
  std::unique_ptr<PinnedBlock> take(std::int64_t bytes);

  int device_;
  std::vector<std::unique_ptr<PinnedBlock>> free_;
};

}  // namespace phalanx::cuda
