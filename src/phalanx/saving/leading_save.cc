#include "phalanx/saving/leading_save.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/log.h"
#include "phalanx/base/progress.h"
#include "phalanx/checkpoint/directory_lock.h"
#include "phalanx/checkpoint/part_index.h"
#include "phalanx/checkpoint/stored_tensors.h"
#include "phalanx/saving/part_contents.h"

namespace phalanx {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kLonger = 10;  // a sync may take so much longer than a write
constexpr std::chrono::milliseconds kShortestLook{1};
constexpr std::chrono::milliseconds kVisibilityLook{200};
constexpr std::chrono::milliseconds kFinishLook{50};

// Between two looks for all missing parts; each look asks for every one of them.
std::chrono::milliseconds longest_look(int ranks) {
  return std::clamp(std::chrono::milliseconds(ranks / 4), std::chrono::milliseconds(8),
                    std::chrono::milliseconds(250));
}

void sleep_unless(const std::stop_token& stop, std::chrono::milliseconds time) {
  if (stop.stop_requested()) throw SaveGivenUp();
  std::this_thread::sleep_for(time);
}

bool is_visible(const fs::path& directory, const Manifest::Part& part) {
  std::error_code error;
  const auto has = [&](const std::string& name, std::int64_t bytes) {
    const auto size = fs::file_size(directory / name, error);
    return !error && size == static_cast<std::uintmax_t>(bytes);
  };
  return has(part_index_name(part.rank), part.index_bytes) &&
         has(part_data_name(part.rank), part.bytes);
}

}  // namespace

// The parts of all ranks, as save_checkpoint() sees them.
class LeadingSave::Parts final : public CheckpointContent {
 public:
  Parts(Work& work, const std::stop_token& stop) : work_(work), stop_(stop) {}

  std::int64_t bytes() const override { return stored_bytes(work_.task.tensors); }

  void write(const fs::path& directory, Manifest& manifest,
             const std::function<void(std::string_view step)>& step) override {
    step("parts");
    tell_where(Json{{"directory", directory.filename().string()}}.dump());
    manifest.epoch = work_.task.epoch;
    take_parts(manifest);
    for (const std::string& name : work_.task.old_texts) work_.mail.box().take(name);
    work_.task.old_texts.clear();
    manifest.tensors = work_.task.tensors;
    step("proof");
    wait_until_visible(directory, manifest);
    try {
      open_part_tensors(directory, manifest, Verify::kNo);
    } catch (const DataError& error) {
      throw OutputError("the parts are not the run: {}", error.what());
    }
  }

  // To be called when the save has failed: ranks that wait for the directory go on.
  void give_up() {
    if (!is_told_) tell_where("{}");
  }

 private:
  struct Writer {
    int rank = 0;
    std::string sign = {};
    std::string host = {};
    std::string path = {};
    bool syncs = false;
    Clock::time_point moved = Clock::now();
  };

  void tell_where(std::string text) {
    is_told_ = true;
    work_.mail.box().post(work_.mail.where(), std::move(text));
  }

  // All ranks that can answer have: they do not write any more.
  void take_parts(Manifest& manifest) {
    std::vector<Writer> missing;
    for (int rank = 0; rank < work_.task.ranks; ++rank) missing.push_back({.rank = rank});
    std::optional<std::string> failure;
    std::chrono::milliseconds look = kShortestLook;
    while (!missing.empty()) {
      const std::size_t before = missing.size();
      std::erase_if(missing, [&](Writer& writer) { return is_done(writer, manifest, failure); });
      if (missing.size() < before) ++work_.progress;
      look = missing.size() < before ? kShortestLook
                                     : std::min(2 * look, longest_look(work_.task.ranks));
      if (!missing.empty()) sleep_unless(stop_, look);
    }
    if (failure) throw OutputError("{}", *failure);
    std::ranges::sort(manifest.parts, {}, &Manifest::Part::rank);
  }

  // Whether nothing more is to come from the rank.
  bool is_done(Writer& writer, Manifest& manifest, std::optional<std::string>& failure) {
    Mailbox& box = work_.mail.box();
    const auto fail = [&](const std::string& reason) {
      if (!failure) failure = fmt::format("rank {}: {}", writer.rank, reason);
    };
    if (const auto text = box.take(work_.mail.part(writer.rank))) {
      const Json answer = Json::parse(*text);
      if (answer.contains("error")) {
        fail(answer.at("error"));
      } else {
        manifest.parts.push_back({.rank = writer.rank,
                                  .bytes = answer.at("bytes"),
                                  .index_bytes = answer.at("index_bytes"),
                                  .index_xxh3 = answer.at("index_xxh3")});
      }
      return true;
    }
    const auto limit = work_.saving.stalled_after * (writer.syncs ? kLonger : 1);
    if (Clock::now() - writer.moved < limit / 4) return false;
    if (auto text = box.take(work_.mail.sign(writer.rank)); text && *text != writer.sign) {
      const Json sign = Json::parse(*text);
      writer.host = sign.at("host");
      writer.path = sign.at("path");
      writer.syncs = sign.at("doing") == "syncing";
      writer.moved = Clock::now();
      writer.sign = std::move(*text);
      ++work_.progress;
      return false;
    }
    if (Clock::now() - writer.moved < limit) return false;
    fail(fmt::format(
        "{}no byte was written for {:.3g} s",
        writer.path.empty() ? "" : fmt::format("host {}: {}: ", writer.host, writer.path),
        std::chrono::duration<double>(limit).count()));
    return true;
  }

  void wait_until_visible(const fs::path& directory, const Manifest& manifest) const {
    const auto end = Clock::now() + work_.saving.visible_within;
    for (const Manifest::Part& part : manifest.parts) {
      while (!is_visible(directory, part) && Clock::now() < end) {
        sleep_unless(stop_, kVisibilityLook);
        ++work_.progress;
      }
    }
  }

  Work& work_;
  const std::stop_token& stop_;
  bool is_told_ = false;
};

LeadingSave::LeadingSave(Task task, const BackgroundSaving& saving)
    : work_(std::make_shared<Work>(std::move(task), saving)) {
  thread_ = std::make_unique<SaveThread>([work = work_](const std::stop_token& stop) {
    if (work->saving.on_thread) work->saving.on_thread();
    try {
      run(*work, stop);
    } catch (...) {
      // The mailbox tells of the run's failure.
      const std::lock_guard lock(work->mutex);
      if (!work->failure) work->failure = std::current_exception();
    }
    const std::lock_guard lock(work->mutex);
    work->is_done = true;
    work->changed.notify_all();
  });
}

LeadingSave::~LeadingSave() = default;

void LeadingSave::run(Work& work, const std::stop_token& stop) {
  Parts parts(work, stop);
  const auto tell = [&](bool is_saved, const std::string& reason) {
    if (work.is_told.exchange(true)) return;
    ++work.progress;
    parts.give_up();
    Mailbox& box = work.mail.box();
    box.post(work.mail.verdict(), Json{{"saved", is_saved}, {"reason", reason}}.dump(
                                      -1, ' ', false, Json::error_handler_t::replace));
    for (int rank = 0; rank < work.task.ranks && !stop.stop_requested(); ++rank) {
      box.take(work.mail.part(rank));
      box.take(work.mail.sign(rank));
    }
  };
  SaveOptions options = work.task.options;
  options.before_step = [&](std::string_view step) {
    if (stop.stop_requested()) throw SaveGivenUp();
    ++work.progress;
    if (work.task.options.before_step) work.task.options.before_step(step);
    // Removing older checkpoints may take minutes, and nothing of it makes this one worse.
    if (step == kPruneStep) tell(true, {});
  };
  options.holds_directory = [&] {
    ++work.progress;
    return !stop.stop_requested() &&
           (work.task.options.holds_directory == nullptr || work.task.options.holds_directory());
  };
  std::string reason;
  const auto must_end = [&] {
    const std::lock_guard lock(work.mutex);
    work.failure = std::current_exception();
  };
  try {
    options.before_step("begin");
    save_checkpoint(options, work.task.manifest, parts);
    return;
  } catch (const SaveGivenUp& error) {
    reason = error.what();
  } catch (const DirectoryLostError& error) {
    must_end();
    reason = error.what();
  } catch (const Error& error) {
    if (!may_pass(error)) must_end();
    reason = error.what();
  } catch (const std::exception& error) {
    must_end();
    reason = error.what();
  }
  if (!stop.stop_requested()) tell(false, reason);
}

void LeadingSave::finish() {
  std::int64_t before = progress();
  Clock::time_point moved = Clock::now();
  std::unique_lock lock(work_->mutex);
  while (!work_->changed.wait_for(lock, kFinishLook, [this] { return work_->is_done; })) {
    note_progress();
    if (const std::int64_t now = progress(); now != before) {
      before = now;
      moved = Clock::now();
    } else if (Clock::now() - moved >= work_->saving.stalled_after) {
      log_warning(
          "{}: the checkpoint is saved, but removing older ones hangs: nothing was removed for "
          "{:.3g} s; the run goes on",
          work_->task.options.directory.string(),
          std::chrono::duration<double>(work_->saving.stalled_after).count());
      return thread_->leave_behind();
    }
  }
}

void LeadingSave::rethrow() const {
  const std::lock_guard lock(work_->mutex);
  if (work_->failure) std::rethrow_exception(work_->failure);
}

std::vector<std::string> LeadingSave::texts() const {
  return {work_->mail.where(), work_->mail.verdict()};
}

}  // namespace phalanx
