#include "phalanx/ops/cuda/pinned_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "phalanx/base/numeric.h"

namespace phalanx::cuda {
namespace {

// Pieces begin at multiples of so many bytes.
constexpr std::int64_t kPieceAlignment = 64;
// The smallest block of a read-back.
constexpr std::int64_t kLeastBlock = 256;

}  // namespace

PinnedBlock::PinnedBlock(int device, std::int64_t bytes)
    : memory_(allocate_pinned(bytes)), bytes_(bytes), mark_(device) {}
PinnedBlock::~PinnedBlock() { give_back_pinned(memory_); }

UploadRing::UploadRing(int device, std::int64_t bytes) : device_(device), ring_(device, bytes) {}

void UploadRing::upload(Queue queue, std::byte* to, std::span<const std::byte> bytes) {
  // A large upload is not waited for as a whole.
  const std::int64_t most = ring_.bytes() / 4;
  const auto all = static_cast<std::int64_t>(bytes.size());
  for (std::int64_t done = 0; done < all;) {
    const std::int64_t n = std::min(most, all - done);
    const std::int64_t begin = take(n);
    std::memcpy(ring_.memory() + begin, bytes.data() + done, static_cast<std::size_t>(n));
    copy(queue, to + done, ring_.memory() + begin, n);
    record(queue, **pieces_.back().mark);
    done += n;
  }
}

std::int64_t UploadRing::take(std::int64_t bytes) {
  const std::int64_t size = round_up(bytes, kPieceAlignment);
  if (next_ + size > ring_.bytes()) {
    // What is left at the end stays empty; its pieces are older than those at the beginning.
    while (!pieces_.empty() && pieces_.front().begin >= next_) free_first();
    next_ = 0;
  }
  const auto overlaps = [&] {
    return !pieces_.empty() && pieces_.front().begin < next_ + size && next_ < pieces_.front().end;
  };
  while (overlaps()) free_first();
  std::unique_ptr<OwnMark> mark;
  if (marks_.empty()) {
    mark = std::make_unique<OwnMark>(device_);
  } else {
    mark = std::move(marks_.back());
    marks_.pop_back();
  }
  pieces_.push_back({next_, next_ + size, std::move(mark)});
  next_ += size;
  return pieces_.back().begin;
}

void UploadRing::free_first() {
  wait_host(**pieces_.front().mark);
  marks_.push_back(std::move(pieces_.front().mark));
  pieces_.pop_front();
}

// One block until its reader lets it go.
class ReadBlocks::Pending final : public ReadBack::Body {
 public:
  Pending(std::shared_ptr<ReadBlocks> owner, std::unique_ptr<PinnedBlock> block, std::int64_t bytes)
      : owner_(std::move(owner)), block_(std::move(block)), bytes_(bytes) {}
  ~Pending() override { owner_->free_.push_back(std::move(block_)); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  std::span<const std::byte> wait() override {
    wait_host(block_->mark());
    return {block_->memory(), static_cast<std::size_t>(bytes_)};
  }
  bool here() const override { return passed(block_->mark()); }

 private:
  std::shared_ptr<ReadBlocks> owner_;
  std::unique_ptr<PinnedBlock> block_;
  std::int64_t bytes_;
};

ReadBack ReadBlocks::read_later(Queue queue, const std::byte* from, std::int64_t bytes) {
  std::unique_ptr<PinnedBlock> block = take(bytes);
  copy(queue, block->memory(), from, bytes);
  record(queue, block->mark());
  return ReadBack(std::make_unique<Pending>(shared_from_this(), std::move(block), bytes));
}

std::unique_ptr<PinnedBlock> ReadBlocks::take(std::int64_t bytes) {
  const auto size = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, kLeastBlock))));
  const auto fits = std::find_if(free_.begin(), free_.end(),
                                 [&](const auto& block) { return block->bytes() == size; });
  if (fits == free_.end()) return std::make_unique<PinnedBlock>(device_, size);
  std::unique_ptr<PinnedBlock> block = std::move(*fits);
  free_.erase(fits);
  // Its last reader may not have waited.
  wait_host(block->mark());
  return block;
}

}  // namespace phalanx::cuda
