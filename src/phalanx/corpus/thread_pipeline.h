#pragma once
// The threads that read a corpus: one reads batches of documents, several encode them, and the
// caller takes the results in the order of the batches. The bytes of unfinished batches are
// bounded.

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

// What is wrong with a line, or with the document that begins there.
struct CorpusFault {
  std::int64_t line = 0;  // in the segment
  std::string problem;
};

// The result of a batch.
struct EncodedBatch {
  std::vector<SequenceBlock> blocks;  // one for each key; none if there are no documents
  std::size_t segment = 0;
  bool has_lines = false;             // the documents are JSON lines, so bad ones may be left out
  std::vector<CorpusFault> faults;    // in order; these documents are left out
  std::vector<CorpusFault> warnings;  // about documents that are kept
  std::int64_t documents = 0;
  std::int64_t empty_documents = 0;
  std::int64_t text_bytes = 0;
  std::int64_t input_bytes = 0;  // as in TextBatch
};

class CorpusPipeline {
 public:
  using Read = std::function<bool(TextBatch&)>;
  using Encode = std::function<EncodedBatch(const TextBatch&)>;

  // Starts the threads; SystemError if the system refuses. One thread calls `read`, all others
  // `encode` at once. What the functions refer to must outlive this object.
  CorpusPipeline(int workers, std::size_t bytes_under_way, Read read, Encode encode);
  CorpusPipeline(const CorpusPipeline&) = delete;
  CorpusPipeline& operator=(const CorpusPipeline&) = delete;
  // Waits until the threads have ended.
  ~CorpusPipeline();

  // The next result; none at the end. Exceptions of `read` and `encode` are thrown here, in the
  // order of the batches. `wait` is called about ten times a second while there is no result; it
  // may throw.
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
  // False if the threads must end.
  bool add(std::unique_ptr<Job> job);
  void stop();

  const std::size_t bytes_under_way_limit_;
  const Read read_;
  const Encode encode_;

  std::mutex mutex_;
  std::condition_variable room_, work_, results_;
  std::deque<std::unique_ptr<Job>> jobs_;  // in order; the first is the next result
  std::size_t begun_ = 0;                  // number of jobs that a thread has begun
  std::size_t bytes_under_way_ = 0;
  bool at_end_ = false;
  bool is_stopped_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace phalanx
