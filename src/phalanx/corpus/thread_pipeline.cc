#include "phalanx/corpus/thread_pipeline.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "phalanx/base/error.h"
#include "phalanx/base/threads.h"

namespace phalanx {
namespace {

constexpr std::chrono::milliseconds kWait{100};

}  // namespace

CorpusPipeline::CorpusPipeline(int workers, std::size_t bytes_under_way, Read read, Encode encode)
    : bytes_under_way_limit_(bytes_under_way), read_(std::move(read)), encode_(std::move(encode)) {
  try {
    threads_.push_back(start_thread([this] { read_all(); }));
    for (int i = 0; i < workers; ++i) threads_.push_back(start_thread([this] { encode_all(); }));
  } catch (const std::system_error& error) {
    stop();
    throw SystemError(
        "{} of {} threads were started, then the system refused ({}). Limits: {}. "
        "Raise the one that is reached, or give fewer --workers",
        threads_.size(), workers + 1, error.code().message(), thread_limits());
  }
}

CorpusPipeline::~CorpusPipeline() { stop(); }

void CorpusPipeline::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  room_.notify_all();
  work_.notify_all();
  threads_.clear();  // joins
}

std::optional<EncodedBatch> CorpusPipeline::next(const std::function<void()>& wait) {
  std::unique_ptr<Job> job;
  {
    std::unique_lock lock(mutex_);
    const auto is_ready = [this] { return jobs_.empty() ? at_end_ : jobs_.front()->is_done; };
    while (!results_.wait_for(lock, kWait, is_ready)) {
      lock.unlock();
      wait();
      lock.lock();
    }
    if (jobs_.empty()) return std::nullopt;
    job = std::move(jobs_.front());
    jobs_.pop_front();
    --begun_;
    bytes_under_way_ -= job->batch.text.size();
  }
  room_.notify_one();
  if (job->error) std::rethrow_exception(job->error);
  return std::move(job->result);
}

void CorpusPipeline::read_all() {
  for (bool more = true; more;) {
    auto job = std::make_unique<Job>();
    try {
      more = read_(job->batch);
    } catch (...) {
      job->error = std::current_exception();
    }
    const bool failed = job->error != nullptr;
    if ((more || failed) && !add(std::move(job))) return;
    more = more && !failed;
  }
  {
    const std::lock_guard lock(mutex_);
    at_end_ = true;
  }
  work_.notify_all();
  results_.notify_one();
}

bool CorpusPipeline::add(std::unique_ptr<Job> job) {
  {
    // One batch may be larger than the limit: then it is alone.
    std::unique_lock lock(mutex_);
    const std::size_t bytes = job->batch.text.size();
    room_.wait(lock, [&] {
      return is_stopped_ || jobs_.empty() || bytes_under_way_ + bytes <= bytes_under_way_limit_;
    });
    if (is_stopped_) return false;
    bytes_under_way_ += bytes;
    jobs_.push_back(std::move(job));
  }
  work_.notify_one();
  return true;
}

void CorpusPipeline::encode_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return is_stopped_ || begun_ < jobs_.size() || at_end_; });
    if (is_stopped_ || begun_ == jobs_.size()) return;
    Job& job = *jobs_[begun_++];
    if (!job.error) {
      lock.unlock();
      try {
        job.result = encode_(job.batch);
      } catch (...) {
        job.error = std::current_exception();
      }
      lock.lock();
    }
    job.is_done = true;
    results_.notify_one();
  }
}

}  // namespace phalanx
