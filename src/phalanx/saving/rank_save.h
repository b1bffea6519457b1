#pragma once
// One save of one rank, from its beginning to its verdict: a thread writes the rank's part while
// the rank trains, tells the leader of it, and hears from it whether the checkpoint is in its
// place.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "phalanx/checkpoint/part_writer.h"
#include "phalanx/saving/save_mail.h"
#include "phalanx/saving/save_thread.h"
#include "phalanx/saving/tile_snapshot.h"

namespace phalanx {

// How a save in the background works; tests change it.
struct BackgroundSaving {
  Mailbox* mailbox = nullptr;  // of all ranks; null: there is no such saving
  EngineMaker make = make_engine;
  // A writer without a byte for so long has failed; for ten times as long where it syncs.
  std::chrono::milliseconds stalled_after = std::chrono::minutes(1);
  // How long an index may be invisible to the leader: NFS.
  std::chrono::milliseconds visible_within = std::chrono::seconds(5);
  std::function<void()> on_thread = nullptr;  // called first on each of its threads
};

class LeadingSave;

struct SaveVerdict {
  bool is_saved = false;
  std::string reason;  // where it is not
};

class RankSave {
 public:
  struct Task {
    int rank = 0;
    std::filesystem::path directory;  // the save directory
    std::string epoch;
    std::vector<PartWriter::Piece> pieces;
    std::shared_ptr<TileSnapshot> snapshot;
  };
  RankSave(Task task, const BackgroundSaving& saving);
  // Ends the save at once, wherever it is. Nothing reads the rank's states any more.
  ~RankSave();

  // Nothing: it is under way. All ranks get the same one. Throws what the writer's thread must not
  // pass over (InternalError, the failure of the run).
  std::optional<SaveVerdict> verdict() const;
  // On the rank's thread: waits for the verdict. `leading`: null on all ranks but the leader. If
  // nothing moves for too long the part has failed; or it is the leader that does not end: IoError.
  SaveVerdict wait(const LeadingSave* leading);
  // On the rank's thread, once an update's wait has found that the writer stalls: answers in its
  // place.
  void answer_for_stalled();

 private:
  // What the threads hold.
  struct Work {
    Work(Task given, const BackgroundSaving& how)
        : task(std::move(given)), saving(how), mail(*how.mailbox, task.directory, task.epoch) {}

    Task task;
    BackgroundSaving saving;
    SaveMail mail;
    std::atomic<bool> has_answered{false};

    mutable std::mutex mutex{};
    std::condition_variable changed{};
    std::optional<SaveVerdict> verdict{};
    std::exception_ptr failure{};
  };

  static void run(Work& work, const std::stop_token& stop);
  static std::string write_part(Work& work, const std::filesystem::path& directory,
                                const std::stop_token& stop);
  static void answer(Work& work, std::string text, const std::stop_token& stop);
  static void hear_verdict(Work& work, const std::stop_token& stop);
  static void fail(Work& work, std::exception_ptr failure);

  std::shared_ptr<Work> work_;
  std::unique_ptr<SaveThread> substitute_;  // of a writer that stalls
  std::unique_ptr<SaveThread> writer_;
};

// Whether the reason of a failed save lies outside this program, so that a later one may succeed.
bool may_pass(const Error& error);

}  // namespace phalanx
