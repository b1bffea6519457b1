#pragma once
// Writes lines to descriptors that may block for long (a stopped terminal, a pipe without a reader,
// a slow disk) without blocking the caller. A thread writes what cannot be written at once. Lines
// beyond a bound are dropped; once writing continues, a line says how many.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace phalanx {

class BackgroundWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // One thread serves all outputs: if one blocks it, the others wait too.
  BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  // Does not wait: call flush() first. The thread ends after its current write.
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
    // Drops nothing. Call it only while not is_full().
    void write_all(std::string_view bytes) const;
    // Whether half of the bound is used.
    bool is_full() const;
    // Whether bytes wait to be written.
    bool is_behind() const;
    // For how long no byte was written although some wait; zero if none wait.
    Clock::duration stuck_for() const;
    // Why the output failed; empty while it works.
    std::string fault() const;
    explicit operator bool() const { return output_ != nullptr; }

   private:
    friend class BackgroundWriter;
    std::shared_ptr<State> state_;
    std::shared_ptr<OutputState> output_;
  };

  // Duplicates the descriptor. `at_once`: the caller writes as much as possible without waiting.
  Output add(int descriptor, const Limits& limits, bool at_once);

  // Waits until all is written, at most for `most`, and at most for `patience` without any
  // progress. False if bytes are left.
  bool flush(Clock::duration patience, Clock::duration most) const;
  // Bytes that wait to be written.
  std::size_t waiting() const;

 private:
  std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace phalanx
