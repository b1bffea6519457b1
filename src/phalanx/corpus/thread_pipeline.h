#pragma once
// The threads that read a corpus: one reads batches of documents, several encode them, and the
// caller takes the results in the order of the batches. What is under way is bounded in bytes.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "phalanx/corpus/batch_reader.h"
#include "phalanx/data/indexed_dataset_writer.h"

namespace phalanx {

// What is wrong with a line, or with a document that begins there.
struct CorpusFault {
  std::int64_t line = 0;  // in the segment
  std::string problem;
};

// What became of a batch.
struct EncodedBatch {
  std::vector<SequenceBlock> blocks;  // of each key; none where there is no document
  std::size_t segment = 0;
  bool has_lines = false;             // JSON lines, which may be left out
  std::vector<CorpusFault> faults;    // in order; their documents are left out
  std::vector<CorpusFault> warnings;  // of documents that are not left out
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t input_bytes = 0;  // as TextBatch's
};

class CorpusPipeline {
 public:
  using Read = std::function<bool(TextBatch&)>;
  using Encode = std::function<EncodedBatch(const TextBatch&)>;

  // Starts the threads; SystemError where the system refuses. `read` is called by one of them,
  // `encode` by all others at once. They must not outlive what the functions refer to.
  CorpusPipeline(int workers, std::size_t bytes_under_way, Read read, Encode encode);
  CorpusPipeline(const CorpusPipeline&) = delete;
  CorpusPipeline& operator=(const CorpusPipeline&) = delete;
  // Waits for what the threads are doing.
  ~CorpusPipeline();

  // The next result; none at the end. An exception of `read` or `encode` is thrown in its turn.
  // `wait` is called about ten times a second while there is nothing to take, and may throw.
  std::optional<EncodedBatch> next(const std::function<void()>& wait);

 private:
  struct Job {
    TextBatch batch;
    EncodedBatch result;
    std::exception_ptr error;
    bool is_done = false;
  };

  void read_all();
  void encode_all();
  // False where the threads are to leave.
  bool add(std::unique_ptr<Job> job);
  void stop();

  const std::size_t bytes_under_way_limit_;
  const Read read_;
  const Encode encode_;

  std::mutex mutex_;
  std::condition_variable room_, work_, results_;
  std::deque<std::unique_ptr<Job>> jobs_;  // in order, from the next result on
  std::size_t begun_ = 0;                  // of the jobs
  std::size_t bytes_under_way_ = 0;
  bool at_end_ = false;
  bool is_stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace phalanx
