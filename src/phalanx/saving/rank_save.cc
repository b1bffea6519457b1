#include "phalanx/saving/rank_save.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/machine.h"
#include "phalanx/base/progress.h"
#include "phalanx/saving/leading_save.h"

namespace phalanx {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr std::chrono::milliseconds kLook{50};
constexpr int kSigns = 8;  // in the time after which a writer has stalled

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Leaves a text unless there is one of that name.
void leave(Mailbox& box, const std::string& name, const std::string& text) {
  try {
    box.post(name, text);
  } catch (const UnavailableError&) {
    // Nobody has looked yet.
  }
}

}  // namespace

RankSave::RankSave(Task task, const BackgroundSaving& saving)
    : work_(std::make_shared<Work>(std::move(task), saving)) {
  writer_ = std::make_unique<SaveThread>([work = work_](const std::stop_token& stop) {
    if (work->saving.on_thread) work->saving.on_thread();
    try {
      run(*work, stop);
    } catch (...) {
      fail(*work, std::current_exception());
    }
  });
}

RankSave::~RankSave() {
  writer_->request_stop();
  if (substitute_) writer_->leave_behind();
  work_->task.snapshot->give_up();
}

void RankSave::fail(Work& work, std::exception_ptr failure) {
  const std::lock_guard lock(work.mutex);
  if (!work.failure) work.failure = std::move(failure);
  work.changed.notify_all();
}

void RankSave::run(Work& work, const std::stop_token& stop) {
  const auto where = work.mail.box().read_unless(stop, work.mail.where());
  if (!where || stop.stop_requested()) return;
  const Json directory = Json::parse(*where);
  if (directory.contains("directory")) {
    const std::string text =
        write_part(work, work.task.directory / directory.at("directory").get<std::string>(), stop);
    work.task.snapshot->give_up();  // nothing is read any more
    if (stop.stop_requested()) return;
    answer(work, text, stop);
  } else {
    work.task.snapshot->give_up();
    work.has_answered = true;
  }
  hear_verdict(work, stop);
}

// What to tell the leader.
std::string RankSave::write_part(Work& work, const std::filesystem::path& directory,
                                 const std::stop_token& stop) {
  const auto& task = work.task;
  const std::string path = (directory / part_data_name(task.rank)).string();
  Clock::time_point signed_at{};
  int signs = 0;
  const auto sign = [&](std::string_view doing) {
    if (stop.stop_requested()) throw SaveGivenUp();
    const auto now = Clock::now();
    if (doing == "writing" && now - signed_at < work.saving.stalled_after / kSigns) return;
    signed_at = now;
    leave(work.mail.box(), work.mail.sign(task.rank),
          text_of({{"number", ++signs},
                   {"bytes", task.snapshot->written()},
                   {"doing", doing},
                   {"host", host_name()},
                   {"path", path}}));
  };
  std::string error;
  try {
    task.snapshot->begin_writing();
    sign("beginning");
    PartWriter writer(directory, task.epoch, task.rank, task.pieces, kept_file_options(),
                      work.saving.make);
    task.snapshot->stream(writer, [&] { sign("writing"); });
    sign("syncing");
    const Manifest::Part part = writer.finish();
    return text_of({{"bytes", part.bytes},
                    {"index_bytes", part.index_bytes},
                    {"index_xxh3", part.index_xxh3}});
  } catch (const SaveGivenUp& given_up) {
    error = given_up.what();
  } catch (const Error& failure) {
    if (!may_pass(failure)) fail(work, std::current_exception());
    error = failure.what();
  } catch (const std::exception& failure) {
    fail(work, std::current_exception());
    error = failure.what();
  }
  return text_of({{"error", error}});
}

void RankSave::answer(Work& work, std::string text, const std::stop_token& stop) {
  if (stop.stop_requested() || work.has_answered.exchange(true)) return;
  work.mail.box().post(work.mail.part(work.task.rank), std::move(text));
}

void RankSave::hear_verdict(Work& work, const std::stop_token& stop) {
  if (stop.stop_requested()) return;
  const auto text = work.mail.box().read_unless(stop, work.mail.verdict());
  if (!text) return;
  const Json json = Json::parse(*text);
  const std::lock_guard lock(work.mutex);
  work.verdict = SaveVerdict{.is_saved = json.at("saved"), .reason = json.at("reason")};
  work.changed.notify_all();
}

std::optional<SaveVerdict> RankSave::verdict() const {
  const std::lock_guard lock(work_->mutex);
  if (work_->failure) std::rethrow_exception(work_->failure);
  return work_->verdict;
}

void RankSave::answer_for_stalled() {
  if (substitute_ || work_->has_answered) return;
  work_->task.snapshot->give_up();
  substitute_ = std::make_unique<SaveThread>([work = work_](const std::stop_token& stop) {
    try {
      const std::string error =
          fmt::format("host {}: {}: no byte was written for {:.3g} s", host_name(),
                      (work->task.directory / part_data_name(work->task.rank)).string(),
                      std::chrono::duration<double>(work->saving.stalled_after).count());
      answer(*work, text_of({{"error", error}}), stop);
      hear_verdict(*work, stop);
    } catch (...) {
      fail(*work, std::current_exception());
    }
  });
}

SaveVerdict RankSave::wait(const LeadingSave* leading) {
  const auto moved = [&] {
    return work_->task.snapshot->written() + (leading != nullptr ? leading->progress() : 0);
  };
  std::int64_t before = moved();
  Clock::time_point since = work_->task.snapshot->still_since();
  while (true) {
    {
      std::unique_lock lock(work_->mutex);
      work_->changed.wait_for(lock, kLook, [this] { return work_->verdict || work_->failure; });
    }
    if (auto verdict = this->verdict()) return *verdict;
    note_progress();
    if (moved() != before) {
      before = moved();
      since = Clock::now();
    } else if (Clock::now() - since >= work_->task.snapshot->patience()) {
      if (work_->has_answered && leading != nullptr) {
        throw IoError("{}: the checkpoint's manifest was not written within {:.3g} s",
                      work_->task.directory.string(),
                      std::chrono::duration<double>(Clock::now() - since).count());
      }
      answer_for_stalled();
      since = Clock::now();
    }
  }
}

bool may_pass(const Error& error) {
  switch (error.code()) {
    case ErrorCode::kCannotCreate:
    case ErrorCode::kIo:
    case ErrorCode::kInputMissing:
    case ErrorCode::kNotPermitted:
    case ErrorCode::kSystem:
      return true;
    default:
      return false;
  }
}

}  // namespace phalanx
