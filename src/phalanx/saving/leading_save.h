#pragma once
// The leader's part of a save that all ranks write: a thread makes the directory, takes what each
// rank says of its part, proves that the parts are the run, puts the checkpoint in its place, tells
// all, and removes older ones. A rank that writes nothing for too long has failed.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/saving/rank_save.h"

namespace phalanx {

class LeadingSave {
 public:
  struct Task {
    SaveOptions options;
    Manifest manifest;                     // counters and flags
    std::vector<Manifest::Entry> tensors;  // tensors_in_parts()
    std::string epoch;
    int ranks = 1;
    std::vector<std::string> old_texts = {};  // of saves before, which all ranks have read
  };
  LeadingSave(Task task, const BackgroundSaving& saving);
  // Ends the save at once; nothing of it stays, if the file system lets it.
  ~LeadingSave();

  // Waits until older checkpoints are removed, too, as long as that moves.
  void finish();
  // Changes as long as it moves.
  std::int64_t progress() const { return work_->progress; }
  // Throws what must end the run: another directory is at the save directory's place.
  void rethrow() const;
  // The texts that it leaves, until the next save's parts are all there.
  std::vector<std::string> texts() const;

 private:
  struct Work;
  class Parts;
  static void run(Work& work, const std::stop_token& stop);

  struct Work {
    Work(Task given, const BackgroundSaving& how)
        : task(std::move(given)),
          saving(how),
          mail(*how.mailbox, task.options.directory, task.epoch) {}

    Task task;
    BackgroundSaving saving;
    SaveMail mail;
    std::atomic<std::int64_t> progress{0};
    std::atomic<bool> is_told{false};  // the verdict is in the mailbox
    mutable std::mutex mutex{};
    std::condition_variable changed{};
    std::exception_ptr failure{};
    bool is_done = false;
  };

  std::shared_ptr<Work> work_;
  std::unique_ptr<SaveThread> thread_;
};

}  // namespace phalanx
