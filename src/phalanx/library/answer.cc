#include "phalanx/library/answer.h"

#include <pthread.h>

#include <cfenv>
#include <csignal>
#include <memory>
#include <thread>

#include "phalanx/cli/fault.h"

namespace phalanx {
namespace {

// Where there is no memory for an answer. Its texts are short enough to need none.
phalanx_answer* no_memory() {
  static phalanx_answer answer{
      .code = static_cast<int>(ErrorCode::kSystem), .text = {}, .error = "out of memory"};
  return &answer;
}

// Threads that are started meanwhile get only the signals of their own faults: the process's are
// for the threads of its program, and a file that exceeds a limit is a failed write.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      ::sigdelset(&blocked, own);
    }
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

std::thread start(const std::function<void()>& work) {
  const BlockedSignals blocked;
  return std::thread(work);
}

}  // namespace

phalanx_answer* answer_of(const std::function<std::string()>& work) noexcept {
  try {
    auto answer = std::make_unique<phalanx_answer>();
    try {
      answer->text = work();
    } catch (...) {
      const Fault fault = current_fault();
      answer->code = static_cast<int>(fault.code);
      answer->error = fault.message;
    }
    return answer.release();
  } catch (...) {
    return no_memory();
  }
}

phalanx_answer* answer_apart(const std::function<std::string()>& work) noexcept {
  phalanx_answer* answer = nullptr;
  phalanx_answer* const of_start = answer_of([&] {
    start([&] {
      // The thread has begun with the caller's mode.
      std::fesetenv(FE_DFL_ENV);
      answer = answer_of(work);
    }).join();
    return std::string();
  });
  if (answer == nullptr) return of_start;
  phalanx_answer_free(of_start);
  return answer;
}

}  // namespace phalanx

extern "C" {

int phalanx_answer_code(const phalanx_answer* answer) {
  return answer != nullptr ? answer->code : static_cast<int>(phalanx::ErrorCode::kUsage);
}

const char* phalanx_answer_text(const phalanx_answer* answer) {
  return answer != nullptr ? answer->text.c_str() : "";
}

const char* phalanx_answer_error(const phalanx_answer* answer) {
  return answer != nullptr ? answer->error.c_str() : "the answer is NULL";
}

void phalanx_answer_free(phalanx_answer* answer) {
  if (answer != phalanx::no_memory()) delete answer;
}

}  // extern "C"
