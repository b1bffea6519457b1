#pragma once
// Lines for descriptors that may take nothing for long - a terminal that is held, a pipe that
// nobody reads, a slow disk: who writes never waits for them. What cannot be written at once is
// kept, up to a bound, and written by a thread; what does not fit is dropped, and how many lines
// that were is said when writing goes on.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace phalanx {

class BackgroundWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // For outputs that are slow together: while one of them keeps the thread in a write, the others
  // wait as well.
  BackgroundWriter();
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;
  // Waits for nothing: flush() first. The thread ends when it is out of the write that it is in.
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
    // Drops nothing: to be called only while not is_full().
    void write_all(std::string_view bytes) const;
    // Half of what may wait does.
    bool is_full() const;
    // Something waits.
    bool is_behind() const;
    // For how long nothing was taken of what waits in the writer; zero where nothing does.
    Clock::duration stuck_for() const;
    // Why it takes nothing any more; empty while it does.
    std::string fault() const;
    explicit operator bool() const { return output_ != nullptr; }

   private:
    friend class BackgroundWriter;
    std::shared_ptr<State> state_;
    std::shared_ptr<OutputState> output_;
  };

  // The writer keeps a descriptor of its own. `at_once`: what can be written without waiting is
  // written by the caller.
  Output add(int descriptor, const Limits& limits, bool at_once);

  // Until all is written, or nothing was taken for `patience`, or `most` is over. False where
  // something is left.
  bool flush(Clock::duration patience, Clock::duration most) const;
  // Bytes that wait.
  std::size_t waiting() const;

 private:
  std::shared_ptr<State> state_;  // the thread's, too
};

}  // namespace phalanx
