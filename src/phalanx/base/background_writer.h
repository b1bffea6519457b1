#pragma once
// Writes lines to descriptors that may block for long - a stopped terminal, a pipe that nobody
// reads, a slow disk - without ever blocking its caller. What cannot be written at once is kept, up
// to a bound, and written by a thread. Lines that do not fit are dropped; when writing goes on, a
// line says how many.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace phalanx {

class BackgroundWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // One thread serves all outputs: while one of them blocks it in a write, the others wait too.
  BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  // Does not wait: call flush() first. The thread ends after the write that it is in.
  ~BackgroundWriter();

  struct Limits {
    std::size_t most_bytes = std::size_t{1} << 20;
    std::string reason = "nobody read the console";  // as LineBuffer's
  };

 private:
  struct State;
  struct OutputState;

 public:
  // One descriptor; all calls are safe from any thread.
  class Output {
   public:
    Output() = default;

    void write(std::string_view bytes) const;
    // Drops nothing; may be called only while not is_full().
    void write_all(std::string_view bytes) const;
    // Whether half of the bound is used.
    bool is_full() const;
    // Whether something waits to be written.
    bool is_behind() const;
    // How long the writer has written nothing although something waits; zero where nothing waits.
    Clock::duration stuck_for() const;
    // Why nothing more can be written; empty while it can.
    std::string fault() const;
    explicit operator bool() const { return output_ != nullptr; }

   private:
    friend class BackgroundWriter;
    std::shared_ptr<State> state_;
    std::shared_ptr<OutputState> output_;
  };

  // The writer duplicates the descriptor. `at_once`: the caller writes what can be written without
  // waiting.
  Output add(int descriptor, const Limits& limits, bool at_once);

  // Waits until all is written, but not longer than `most`, nor when nothing was written for
  // `patience`. False where something is left.
  bool flush(Clock::duration patience, Clock::duration most) const;
  // Bytes that wait.
  std::size_t waiting() const;

 private:
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace phalanx
