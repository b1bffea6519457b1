#include "phalanx/offload/transfer_queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "phalanx/base/hash.h"
#include "phalanx/base/numeric.h"
#include "phalanx/base/threads.h"

namespace phalanx {
namespace {

bool is_multiple(const std::byte* memory, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(memory) % static_cast<std::uintptr_t>(alignment) == 0;
}

std::uint64_t checksum_of(const std::byte* memory, std::int64_t bytes) {
  return xxh3(std::span(memory, static_cast<std::size_t>(bytes)));
}

}  // namespace

void TransferQueue::Failure::raise() const {
  switch (code) {
    case ErrorCode::kTemporary:
      throw ChangedFileError("{}", message);
    case ErrorCode::kInternal:
      throw InternalError("{}", message);
    default:
      throw IoError("{}", message);
  }
}

class TransferQueue::Transfer final : public Work::State {
 public:
  Transfer(QueuedFile& file_of_it, const TransferRequest& request_of_it)
      : file(file_of_it), request(request_of_it), path_(file_of_it.path) {}

  // On the CPU a queue is in order with its host.
  void wait(Queue /*queue*/) override {
    const FileAccess access(verb(), path_);
    std::unique_lock lock(mutex_);
    is_done_.wait(lock, [this] { return done_; });
    if (failure) failure->raise();
  }
  void wait_host(Work::Clock::time_point deadline) override {
    const FileAccess access(verb(), path_);
    std::unique_lock lock(mutex_);
    if (!is_done_.wait_until(lock, deadline, [this] { return done_; })) {
      throw IoError("{}: {} bytes from {} on were not {} in time", path_, request.bytes,
                    request.offset, request.is_write ? "written" : "read");
    }
    if (failure) failure->raise();
  }
  bool done() override {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    is_done_.notify_all();
  }

  // The bytes that have not begun.
  std::int64_t rest() const { return request.bytes - started; }
  std::int64_t next_block() const { return request.first_block + started / file.block_bytes; }

  QueuedFile& file;  // until it is finished
  const TransferRequest request;
  // Used by the queue's thread.
  std::int64_t started = 0;                // bytes
  int under_way = 0;                       // blocks
  std::shared_ptr<const Failure> failure;  // others may read it once it is finished

 private:
  const char* verb() const { return request.is_write ? "writing" : "reading"; }

  std::string path_;
  std::mutex mutex_;
  std::condition_variable is_done_;
  bool done_ = false;
};

TransferQueue::TransferQueue(std::unique_ptr<BlockEngine> engine, const StorageOptions& options,
                             std::byte* buffers)
    : engine_(std::move(engine)),
      block_bytes_(options.block_bytes),
      buffers_(buffers),
      slots_(static_cast<std::size_t>(options.queue_depth)) {
  completions_.reserve(slots_.size());
  try {
    thread_ = start_thread([this] { run(); });
  } catch (const std::system_error& error) {
    throw_threads_refused(0, 1, error);
  }
}

TransferQueue::~TransferQueue() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  engine_->wake();
}

Work TransferQueue::enqueue(QueuedFile& file, const TransferRequest& request) {
  auto transfer = std::make_shared<Transfer>(file, request);
  {
    const std::lock_guard lock(mutex_);
    if (failure_) failure_->raise();
    ++file.transfers;
    new_.push_back(transfer);
  }
  engine_->wake();
  return Work(std::move(transfer));
}

void TransferQueue::close(QueuedFile& file) noexcept {
  std::unique_lock lock(mutex_);
  file.closes = true;
  engine_->wake();
  is_idle_.wait(lock, [&] { return file.transfers == 0; });
  lock.unlock();
  engine_->remove_file(file.descriptor);
}

void TransferQueue::run() noexcept {
  try {
    while (take_new()) {
      start_blocks();
      engine_->wait(completions_);
      for (const BlockCompletion& completion : completions_) complete(completion);
      completions_.clear();
    }
  } catch (const std::exception& error) {
    give_up(error.what());
  }
}

// False at the end.
bool TransferQueue::take_new() {
  const std::lock_guard lock(mutex_);
  pending_.insert(pending_.end(), new_.begin(), new_.end());
  new_.clear();
  return !stops_ || under_way_ > 0 || !pending_.empty();
}

void TransferQueue::start_blocks() {
  while (!pending_.empty()) {
    const std::shared_ptr<Transfer> transfer = pending_.front();
    if (leave_out(*transfer)) {
      pending_.pop_front();
      transfer->started = transfer->request.bytes;
      if (transfer->under_way == 0) finish(*transfer);
      continue;
    }
    const auto free = std::ranges::find(slots_, nullptr, &Slot::transfer);
    if (free == slots_.end() || conflicts(*transfer)) return;
    start_block(transfer, static_cast<std::size_t>(free - slots_.begin()));
    if (transfer->rest() == 0) pending_.pop_front();
  }
}

// Drops the rest of a transfer after a failure, or if its file is being closed; false otherwise.
bool TransferQueue::leave_out(Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  if (failure_) {
    transfer.failure = failure_;
  } else if (transfer.file.closes) {
    transfer.failure = std::make_shared<const Failure>(
        Failure{ErrorCode::kInternal,
                fmt::format("{}: closed before all transfers had begun", transfer.file.path)});
  }
  return transfer.failure != nullptr;
}

bool TransferQueue::conflicts(const Transfer& transfer) const {
  return std::ranges::any_of(slots_, [&](const Slot& slot) {
    return slot.transfer && &slot.transfer->file == &transfer.file &&
           slot.block == transfer.next_block() &&
           (slot.transfer->request.is_write || transfer.request.is_write);
  });
}

void TransferQueue::start_block(const std::shared_ptr<Transfer>& transfer, std::size_t number) {
  const QueuedFile& file = transfer->file;
  const TransferRequest& request = transfer->request;
  Slot& slot = slots_[number];
  slot.transfer = transfer;
  slot.block = transfer->next_block();
  slot.memory = request.memory + transfer->started;
  slot.bytes = std::min(file.block_bytes, transfer->rest());
  const std::int64_t padded = round_up(slot.bytes, kStorageAlignment);
  slot.is_bounced =
      file.direct && (padded != slot.bytes || !is_multiple(slot.memory, file.memory_alignment));
  slot.rest = {.slot = number,
               .is_write = request.is_write,
               .descriptor = file.descriptor,
               .memory = slot.is_bounced ? buffer(number) : slot.memory,
               .offset = request.offset + transfer->started,
               .bytes = file.direct ? padded : slot.bytes};
  transfer->started += slot.bytes;
  ++transfer->under_way;
  ++under_way_;
  if (request.is_write) {
    file.checksums[static_cast<std::size_t>(slot.block)] = checksum_of(slot.memory, slot.bytes);
    if (slot.is_bounced) {
      std::memcpy(slot.rest.memory, slot.memory, static_cast<std::size_t>(slot.bytes));
      std::memset(slot.rest.memory + slot.bytes, 0, static_cast<std::size_t>(padded - slot.bytes));
    }
  }
  engine_->submit(slot.rest);
}

void TransferQueue::complete(const BlockCompletion& completion) {
  Slot& slot = slots_[completion.slot];
  const bool direct = slot.transfer->file.direct;
  const Moved moved = advance(slot.rest, completion.result, direct);
  if (moved != Moved::kFailed && progress_ != nullptr) progress_->tick();
  if (moved == Moved::kPart) {
    engine_->submit(slot.rest);
    return;
  }
  if (moved == Moved::kFailed) {
    const std::string& path = slot.transfer->file.path;
    fail(*slot.transfer, {ErrorCode::kIo, fault_text(path, slot.rest, completion.result)});
  } else if (!slot.rest.is_write) {
    deliver(slot);
  }
  release(slot);
}

// Checks a block that was read, and copies it to its place.
void TransferQueue::deliver(const Slot& slot) {
  Transfer& transfer = *slot.transfer;
  if (slot.is_bounced) {
    std::memcpy(slot.memory, buffer(slot.rest.slot), static_cast<std::size_t>(slot.bytes));
  }
  const std::uint64_t checksum = checksum_of(slot.memory, slot.bytes);
  if (checksum == transfer.file.checksums[static_cast<std::size_t>(slot.block)]) return;
  fail(transfer,
       {ErrorCode::kTemporary,
        fmt::format("{}: the {} bytes at offset {} are not what was written there: the disk, or "
                    "somebody else, has changed them; start again, from the last checkpoint",
                    transfer.file.path, slot.bytes,
                    transfer.request.offset + (slot.memory - transfer.request.memory))});
}

void TransferQueue::release(Slot& slot) {
  const std::shared_ptr<Transfer> transfer = std::exchange(slot.transfer, nullptr);
  --under_way_;
  if (--transfer->under_way == 0 && transfer->rest() == 0) finish(*transfer);
}

void TransferQueue::fail(Transfer& transfer, Failure failure) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::make_shared<const Failure>(std::move(failure));
  transfer.failure = failure_;
}

void TransferQueue::finish(Transfer& transfer) {
  transfer.finish();
  const std::lock_guard lock(mutex_);
  --transfer.file.transfers;
  is_idle_.notify_all();
}

// The engine itself has failed: the state of its requests is not known.
void TransferQueue::give_up(const std::string& reason) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::make_shared<const Failure>(Failure{ErrorCode::kIo, reason});
    pending_.insert(pending_.end(), new_.begin(), new_.end());
    new_.clear();
  }
  for (const Slot& slot : slots_) {
    if (slot.transfer) pending_.push_back(slot.transfer);
  }
  for (const auto& transfer : pending_) {
    if (transfer->done()) continue;
    transfer->failure = failure_;
    finish(*transfer);
  }
}

std::byte* TransferQueue::buffer(std::size_t slot) const {
  return buffers_ + static_cast<std::int64_t>(slot) * block_bytes_;
}

}  // namespace phalanx
