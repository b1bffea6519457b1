#include "phalanx/base/background_writer.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "phalanx/base/line_buffer.h"
#include "phalanx/base/ready_output.h"

namespace phalanx {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;
constexpr int kPollMilliseconds = 100;

}  // namespace

struct BackgroundWriter::OutputState {
  OutputState(int descriptor, const Limits& limits, bool writes_at_once)
      : output(descriptor),
        buffer(limits.most_bytes, limits.reason),
        at_once(writes_at_once && output.never_waits()) {}

  std::size_t size() const { return buffer.size() + chunk.size(); }
  bool has_more() const { return !chunk.empty() || !buffer.empty(); }

  ReadyOutput output;
  LineBuffer buffer;
  std::string chunk;  // the text being written; only the thread uses it while is_queued
  bool at_once;
  bool is_queued = false;  // the thread has it in its queue
  std::string fault;
};

struct BackgroundWriter::State : std::enable_shared_from_this<State> {
  void write(const std::shared_ptr<OutputState>& output, std::string_view bytes, bool may_drop);
  void write_now(OutputState& output);
  void queue(const std::shared_ptr<OutputState>& output);
  void run();
  void start_thread();
  void fill_chunk(OutputState& output);
  void took(OutputState& output, ssize_t written, int error);

  std::mutex mutex;
  std::condition_variable work;
  std::condition_variable changed;
  std::deque<std::shared_ptr<OutputState>> queued;
  std::size_t waiting = 0;  // bytes of all outputs
  Clock::time_point moved;  // time of the last write, or when waiting began
  bool has_thread = false;
  bool stops = false;
};

void BackgroundWriter::State::write(const std::shared_ptr<OutputState>& output,
                                    std::string_view bytes, bool may_drop) {
  const std::lock_guard lock(mutex);
  if (!output->fault.empty()) return;
  if (waiting == 0) moved = Clock::now();
  const std::size_t before = output->buffer.size();
  if (may_drop) {
    output->buffer.push(bytes);
  } else {
    output->buffer.push_all(bytes);
  }
  waiting += output->buffer.size() - before;
  if (output->at_once && !output->is_queued) write_now(*output);
  if (output->has_more() && !output->is_queued) queue(output);
}

void BackgroundWriter::State::fill_chunk(OutputState& output) {
  if (!output.chunk.empty()) return;
  const std::size_t before = output.buffer.size();
  output.chunk = output.buffer.take(kChunk);
  // Space is free again, so the buffer may add the line about dropped lines.
  waiting += output.buffer.size() + output.chunk.size() - before;
}

// Runs on the caller's thread, because the descriptor never blocks.
void BackgroundWriter::State::write_now(OutputState& output) {
  while (output.has_more()) {
    fill_chunk(output);
    const ssize_t written = output.output.write(output.chunk);
    took(output, written, errno);
    if (written == 0) return;
  }
}

// Bytes that a failed output loses count as taken.
void BackgroundWriter::State::took(OutputState& output, ssize_t written, int error) {
  if (written == 0) return;
  if (written < 0) {
    output.fault = std::strerror(error);
    waiting -= output.size();
    output.chunk.clear();
    while (!output.buffer.empty()) output.buffer.take(kChunk);
  } else {
    output.chunk.erase(0, static_cast<std::size_t>(written));
    waiting -= static_cast<std::size_t>(written);
  }
  moved = Clock::now();
  changed.notify_all();
}

void BackgroundWriter::State::queue(const std::shared_ptr<OutputState>& output) {
  try {
    start_thread();
  } catch (const std::system_error&) {
    return;  // the system refuses a thread now; the next line tries again
  }
  output->is_queued = true;
  queued.push_back(output);
  work.notify_one();
}

// The thread takes no signals; a broken pipe is an error of write().
void BackgroundWriter::State::start_thread() {
  if (has_thread) return;
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    // Detached, because a thread that is blocked in a write cannot be joined.
    std::thread([state = shared_from_this()] { state->run(); }).detach();
    has_thread = true;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void BackgroundWriter::State::run() {
  std::unique_lock lock(mutex);
  while (true) {
    work.wait(lock, [&] { return stops || !queued.empty(); });
    if (stops) return;
    const std::shared_ptr<OutputState> output = std::move(queued.front());
    queued.pop_front();
    fill_chunk(*output);
    lock.unlock();
    ssize_t written = output->output.write(output->chunk);
    int error = errno;
    if (written == 0) {
      output->output.wait_for_room(kPollMilliseconds);
      written = output->output.write(output->chunk);
      error = errno;
    }
    lock.lock();
    took(*output, written, error);
    output->is_queued = output->has_more();
    if (output->is_queued) queued.push_back(output);
  }
}

BackgroundWriter::BackgroundWriter() : state_(std::make_shared<State>()) {}

BackgroundWriter::~BackgroundWriter() {
  const std::lock_guard lock(state_->mutex);
  state_->stops = true;
  state_->work.notify_all();
}

BackgroundWriter::Output BackgroundWriter::add(int descriptor, const Limits& limits, bool at_once) {
  Output output;
  output.state_ = state_;
  output.output_ = std::make_shared<OutputState>(descriptor, limits, at_once);
  return output;
}

bool BackgroundWriter::flush(Clock::duration patience, Clock::duration most) const {
  const Clock::time_point end = Clock::now() + most;
  std::unique_lock lock(state_->mutex);
  while (state_->waiting > 0) {
    const Clock::time_point until = std::min(end, state_->moved + patience);
    if (Clock::now() >= until) return false;
    state_->changed.wait_until(lock, until);
  }
  return true;
}

std::size_t BackgroundWriter::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return state_->waiting;
}

void BackgroundWriter::Output::write(std::string_view bytes) const {
  state_->write(output_, bytes, /*may_drop=*/true);
}

void BackgroundWriter::Output::write_all(std::string_view bytes) const {
  state_->write(output_, bytes, /*may_drop=*/false);
}

bool BackgroundWriter::Output::is_full() const {
  const std::lock_guard lock(state_->mutex);
  return output_->buffer.size() >= output_->buffer.most() / 2;
}

bool BackgroundWriter::Output::is_behind() const {
  const std::lock_guard lock(state_->mutex);
  return output_->has_more();
}

BackgroundWriter::Clock::duration BackgroundWriter::Output::stuck_for() const {
  const std::lock_guard lock(state_->mutex);
  return output_->has_more() ? Clock::now() - state_->moved : Clock::duration::zero();
}

std::string BackgroundWriter::Output::fault() const {
  const std::lock_guard lock(state_->mutex);
  return output_->fault;
}

}  // namespace phalanx
