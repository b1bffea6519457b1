#include "phalanx/comm/ucx/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "phalanx/comm/ucx/engine.h"

namespace phalanx::ucx {
Batch::Batch(Operation& operation) : operation_(operation) { operation.batches_.push_back(this); }

Batch::~Batch() {
  std::erase(operation_.batches_, this);
  if (pending_ > 0) {
    // The operation ended in an error, and the wire may still use the messages.
    for (MessageTransfer& message : messages_) message.batch = nullptr;
    operation_.engine_.keep_until_end(messages_, buffers_);
  } else {
    clear();
  }
}

void Batch::clear() { operation_.engine_.give_back(messages_, buffers_); }

MessageTransfer& Batch::begin(int member, bool sends) {
  operation_.engine_.lend_message(messages_);
  MessageTransfer& message = messages_.back();
  message = MessageTransfer{};
  message.ended = Operation::on_ended;
  message.batch = this;
  message.member = member;
  message.sends = sends;
  ++pending_;
  return message;
}

StagingBuffer& Batch::stage() {
  operation_.engine_.lend_buffer(buffers_);
  return buffers_.back();
}

void Batch::send(int member, Lane lane, const void* data, std::size_t bytes) {
  MessageTransfer& message = begin(member, true);
  operation_.engine_.send(operation_.place_, member, lane, data, bytes, message);
}

void Batch::receive(int member, Lane lane, void* data, std::size_t bytes) {
  MessageTransfer& message = begin(member, false);
  operation_.engine_.receive(operation_.place_, member, lane, data, bytes, message);
}

void Batch::send_staged(int member, Lane lane, const Header& header, const void* data,
                        std::size_t bytes) {
  StagingBuffer& staged = stage();
  std::memcpy(staged.bytes.data(), &header, sizeof header);
  if (bytes > 0) std::memcpy(staged.data(), data, bytes);
  send(member, lane, staged.bytes.data(), sizeof header + bytes);
}

MessageTransfer& Batch::receive_staged(int member) {
  StagingBuffer& staged = stage();
  MessageTransfer& message = begin(member, false);
  message.headed = &staged;
  return message;
}

void Batch::send_headed(int member, Lane lane, const void* data, std::size_t bytes,
                        std::int64_t given) {
  Header header = header_of(operation_.call());
  if (operation_.call().kind == OperationKind::kAllToAll) {
    header.key = static_cast<std::uint64_t>(given);
  }
  const bool small = bytes <= kSmallBytes;
  send_staged(member, lane, header, data, small ? bytes : 0);
  if (!small) send(member, lane, data, bytes);
}

const StagingBuffer& Batch::receive_headed(int member, Lane lane, void* data, std::size_t bytes,
                                           std::int64_t taken) {
  const bool small = bytes <= kSmallBytes;
  MessageTransfer& message = receive_staged(member);
  message.small_bytes = small ? bytes : 0;
  message.taken = taken;
  StagingBuffer& staged = *message.headed;
  operation_.engine_.receive(operation_.place_, member, lane, staged.bytes.data(),
                             staged.bytes.size(), message);
  if (!small) receive(member, lane, data, bytes);
  return staged;
}

void Batch::send_split(int member, std::uint32_t next_group) {
  const std::string& text = operation_.call().split;
  Header header = header_of(operation_.call());
  header.next_group = next_group;
  header.text_bytes = static_cast<std::uint32_t>(std::min(text.size(), kSmallBytes));
  send_staged(member, Lane::kHeader, header, text.data(), header.text_bytes);
}

const StagingBuffer& Batch::receive_split(int member) {
  return receive_headed(member, Lane::kHeader, nullptr, 0);
}

void Batch::await_suspend(std::coroutine_handle<> task) {
  operation_.awaited_ = this;
  operation_.next_ = task;
}

void Batch::add_missing(std::vector<int>& receiving, std::vector<int>& sending) const {
  for (const MessageTransfer& message : messages_) {
    if (!message.over) (message.sends ? sending : receiving).push_back(message.member);
  }
}

std::vector<int> Operation::missing_ranks() const {
  std::vector<int> receiving, sending;
  for (const Batch* batch : batches_) batch->add_missing(receiving, sending);
  std::vector<int>& missing = receiving.empty() ? sending : receiving;
  for (int& member : missing) member = group().world_rank(member);
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

void Operation::on_ended(Transfer& transfer) {
  auto& message = static_cast<MessageTransfer&>(transfer);
  if (message.batch != nullptr) message.batch->operation_.ended(message);
}

void Operation::ended(MessageTransfer& message) {
  engine_.moved();
  if (message.error != nullptr) {
    // It stays pending: the watch or the waiting rank decides what follows.
    if (!broken_) broken_ = Broken{message.member, message.error};
    return;
  }
  try {
    check(message);
  } catch (const CommError& error) {
    if (!mismatch_) mismatch_ = error;
    engine_.resume(*this);
    return;
  }
  message.over = true;
  Batch& batch = *message.batch;
  if (--batch.pending_ == 0 && awaited_ == &batch) {
    awaited_ = nullptr;
    engine_.resume(*this);
  }
}

void Operation::check(const MessageTransfer& message) const {
  if (message.headed == nullptr) return;
  const StagingBuffer& stage = *message.headed;
  const std::size_t follows = message.bytes - std::min(message.bytes, sizeof(Header));
  Header header{};
  if (message.bytes >= sizeof(Header)) header = stage.header();
  std::size_t expected = message.small_bytes;
  std::string_view text;
  if (header.kind == static_cast<std::uint8_t>(OperationKind::kSplit)) {
    text = {reinterpret_cast<const char*>(stage.data()),
            std::min<std::size_t>(header.text_bytes, follows)};
    expected = header.text_bytes;
  }
  expect_same_call(place_, message.member, header, text);
  if (message.taken >= 0) expect_given(place_, message.member, header, message.taken);
  if (message.bytes != sizeof(Header) + expected) {
    throw CommError(
        ErrorCode::kInternal, comm_place(place_),
        fmt::format("{}: rank {} sends {} bytes where {} are expected", label_of(place_),
                    group().world_rank(message.member), message.bytes, sizeof(Header) + expected));
  }
}

}  // namespace phalanx::ucx
