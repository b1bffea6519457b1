#pragma once
// Saves a run, and decides what it means when that fails: the disk may be full for an hour, and the
// run is worth more than one of its checkpoints.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "phalanx/base/step_timers.h"
#include "phalanx/checkpoint/background_verifier.h"
#include "phalanx/checkpoint/checkpoint_writer.h"
#include "phalanx/metrics/run_sink.h"
#include "phalanx/optim/parameter_schedule.h"
#include "phalanx/rank/rank.h"
#include "phalanx/rank/saved_tiles.h"
#include "phalanx/saving/data_digests.h"
#include "phalanx/saving/leading_save.h"
#include "phalanx/saving/rank_save.h"
#include "phalanx/saving/run_checkpoint.h"
#include "phalanx/saving/run_directory.h"
#include "phalanx/saving/run_inputs.h"
#include "phalanx/saving/save_target.h"

namespace phalanx {

// What all checkpoints of a run have in common. The references must outlive it.
struct SavedRun {
  const TrainConfig& config;
  const RunIdentity& identity;
  const RunInputs& inputs;
  const ParameterSchedule& schedule;
  std::string_view products;             // the family of matrix products
  const DataDigests* digests = nullptr;  // null: none are taken
  // Of the weights that are not trained; empty: they are saved, too.
  const std::optional<Manifest::Base>& base;

  SavedContent content() const {
    return {.with_optimizer = !config.run.no_save_optim, .with_frozen = !base};
  }
};

class RunSaver {
 public:
  enum class Occasion {
    kPeriodic,  // a failure warns, the third in a row ends the run
    kLeaving,   // a failure ends the run
  };
  // After this many failures there is no hope that the next attempt succeeds.
  static constexpr int kFailuresInARow = 3;

  // How the rest of the run hears of it.
  struct Listeners {
    std::function<void(const RunNote&)> note;
    StepTimers& timers;
    // The timer of all ranks, asked by all of them when a checkpoint was saved, or has begun to be.
    std::function<std::vector<TimerRow>()> times;
  };
  // Saves to one target. The rank must outlive the saver. `background`: for saves in parts.
  RunSaver(SavedRun run, SaveTarget target, Rank& rank, Listeners listeners,
           BackgroundSaving background = {});
  // A save that is under way is given up.
  ~RunSaver();

  // DIRECTORY/iter_NNNNNNN, durably, and removes what the target does not keep; nothing without a
  // directory or where the iteration is saved. All ranks at the same time; the first one writes the
  // manifest, and all of them learn whether it succeeded. Where a failure ends the run: IoError,
  // naming the reason and the last good checkpoint; DirectoryLostError at once where the directory
  // is not this run's any more.
  //
  // With --async-save a periodic save only begins here: it goes on while training goes on. The next
  // one waits for it, and one on leaving for itself.
  void save(const RunState& state, Occasion occasion);
  // After an iteration: tells of a save that has ended meanwhile.
  void poll(std::int64_t iteration);
  // Waits for a save that is under way. All ranks at the same time, after this iteration.
  void settle(std::int64_t iteration);
  bool is_under_way() const { return under_way_.has_value(); }
  // The bytes of a save that has begun since the last call; nothing: none has.
  std::optional<std::int64_t> take_begun_bytes() { return std::exchange(begun_bytes_, {}); }

  // Of this state, without what is written: tensors, parts, copies.
  Manifest manifest_of(const RunState& state) const;

 private:
  // What a save took, for people.
  struct Span {
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    std::int64_t bytes = 0;  // of all ranks; on the first one
    std::int64_t until = 0;  // done iterations at its end
    std::string times = {};  // of all ranks
  };
  struct UnderWay {
    std::int64_t iteration = 0;
    Span span = {};
    bool in_background = false;
    std::shared_ptr<TileSnapshot> snapshot = nullptr;
    std::unique_ptr<RankSave> save = nullptr;
  };
  bool is_leader() const { return rank_.ranks().world->rank() == 0; }
  bool is_left_out(std::int64_t iteration);

  // In parts, by all ranks.
  void begin_parts(const RunState& state, bool in_background);
  void begin_to_lead(const RunState& state, const std::string& epoch);
  SaveVerdict wait_for_verdict();
  void end_parts(const SaveVerdict& verdict, Occasion occasion, std::int64_t iteration);
  // Whole tensors, by the first rank: the reason where it failed on any; only the first one knows
  // the text.
  std::optional<std::string> save_whole(const RunState& state);
  std::string write_whole(const RunState& state);

  void tell_begin(std::int64_t iteration, std::int64_t bytes);
  // Counts and tells what came of a save; the run may have to end then.
  void conclude(std::int64_t iteration, const std::optional<std::string>& reason, Occasion occasion,
                const Span& span);
  void end_if_hopeless();
  const DirectoryLock* lock() const;  // null: there is none
  DirectoryHolder holder() const;
  SaveOptions options() const;
  void verify(Occasion occasion);

  const SavedRun run_;
  const SaveTarget target_;
  Rank& rank_;
  const Listeners listeners_;
  const BackgroundSaving background_;
  std::int64_t saved_iteration_;  // -1: none
  std::int64_t begun_ = -1;       // the iteration of the last save in the background; -1: none
  std::int64_t saves_ = 0;        // begun, in parts
  int failures_ = 0;              // in a row
  std::string hopeless_;          // why the run must end, on the first rank
  bool is_hopeless_ = false;
  std::optional<std::int64_t> begun_bytes_;
  std::vector<SavedTile> tiles_;          // of this rank, since the first save in parts
  std::vector<std::string> old_texts_;    // in the mailbox, on the first rank
  std::unique_ptr<LeadingSave> leading_;  // on the first rank, also after its end
  std::optional<UnderWay> under_way_;
  // Of the first rank; empty where nothing is read back.
  std::optional<BackgroundVerifier> verifier_;
};

}  // namespace phalanx
