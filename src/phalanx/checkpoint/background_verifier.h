#pragma once
// Reads the newest checkpoint of a save directory back from the disk while the run trains, and
// marks it (verified_marks.h): until one is marked, nothing that is older goes. If it is damaged,
// the one before is read. One thread, which gives way: low priority, and as long a pause after each
// block as reading it took, but none once the next checkpoint is there.

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/checkpoint/directory_holder.h"
#include "phalanx/checkpoint/verified_marks.h"

namespace phalanx {

class BackgroundVerifier {
 public:
  // Begins with what is there. Reads and marks the holder's checkpoints, as long as it holds the
  // directory.
  BackgroundVerifier(std::filesystem::path save, DirectoryHolder holder);
  BackgroundVerifier(const BackgroundVerifier&) = delete;
  BackgroundVerifier& operator=(const BackgroundVerifier&) = delete;
  // Ends after the present block.
  ~BackgroundVerifier();

  // To be called when there is a new checkpoint.
  void look();
  // Waits until the newest one was read, without pauses from now on, but not longer than that.
  void finish(std::chrono::milliseconds longest);
  // What was found since the last call: a sentence for each damaged checkpoint.
  std::vector<std::string> take_faults();

 private:
  void run(const std::stop_token& stop);
  void verify_newest(const std::stop_token& stop);
  bool wait_after_block(std::chrono::nanoseconds took, const std::stop_token& stop);

  const std::filesystem::path save_;
  const DirectoryHolder holder_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool is_due_ = true;
  bool is_idle_ = false;
  bool hurries_ = false;
  bool is_behind_ = false;  // a newer checkpoint came while one was read
  std::vector<std::string> faults_;
  // On the thread: the damaged ones, as they were.
  std::map<std::filesystem::path, FileStamps> damaged_;
  std::jthread thread_;  // last: ends first
};

}  // namespace phalanx
