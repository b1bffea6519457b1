#include "phalanx/saving/second_places.h"

#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/checkpoint/checkpoint_directory.h"
#include "phalanx/saving/non_persistent.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCopyFlag = "--save-copy";
constexpr std::string_view kNonPersistentFlag = "--non-persistent-global-ckpt-dir";

// A place holds one run, as --save does.
void expect_own(const fs::path& directory, std::string_view flag, const RunIdentity& identity) {
  if (const auto checkpoint = checkpoint_around(directory)) {
    throw ConfigError(
        "{} {} lies in the checkpoint {}, and whoever saves there removes it one day with all that "
        "it holds: name a directory outside of it",
        flag, directory.string(), checkpoint->string());
  }
  for (const SavedCheckpoint& saved : saved_checkpoints(directory)) {
    if (saved.run_id == identity.run_id && saved.start < identity.start) continue;
    throw ConfigError(
        "{} {} holds another run, at iteration {}: name another directory, or move {} away", flag,
        directory.string(), saved.iteration, saved.directory.filename().string());
  }
}

}  // namespace

SecondPlaces::SecondPlaces(const SavedRun& run, Rank& rank, const RunSaver::Listeners& listeners,
                           const BackgroundSaving& background)
    : config_(run.config.run),
      run_(run),
      rank_(rank),
      listeners_(listeners),
      background_(background) {
  if (!config_.save_copy.empty()) {
    add(config_.save_copy, kCopyFlag, config_.save_copy_interval, retention_of(config_));
    places_.back()->is_copy = true;
  }
  if (config_.non_persistent_save_interval > 0) {
    add(non_persistent_directory(config_, config_.save), kNonPersistentFlag,
        config_.non_persistent_save_interval, {.keep_last = 1});
  }
}

void SecondPlaces::add(const fs::path& directory, std::string_view flag, std::int64_t interval,
                       const Retention& retention) {
  places_.push_back(std::make_unique<Place>());
  Place& place = *places_.back();
  place.interval = interval;
  if (rank_.ranks().world->rank() == 0) {
    expect_own(directory, flag, run_.identity);
    place.lock.emplace(directory, flag);
  }
  place.saver.emplace(run_,
                      SaveTarget{.directory = directory,
                                 .retention = retention,
                                 .lock = &place.lock,
                                 .may_fail = true,
                                 .trains_meanwhile = false},
                      rank_, listeners_, background_);
}

void SecondPlaces::save(const RunState& state) {
  for (const auto& place : places_) {
    if (state.iteration % place->interval != 0) continue;
    // What lasts is there already.
    if (!place->is_copy && state.iteration % config_.save_interval == 0) continue;
    place->saver->save(state, RunSaver::Occasion::kPeriodic);
  }
}

void SecondPlaces::save_end(const RunState& state) {
  for (const auto& place : places_) {
    if (place->is_copy) place->saver->save(state, RunSaver::Occasion::kLeaving);
  }
}

}  // namespace phalanx
