#pragma once
// A coroutine that performs an operation, or a part of one that another task awaits. It begins when
// it is resumed or awaited.

#include <coroutine>
#include <exception>
#include <utility>

namespace phalanx::ucx {

class [[nodiscard]] Task {
 public:
  class promise_type {  // NOLINT(readability-identifier-naming): the language's name
   public:
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Awaiter {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          const auto caller = self.promise().caller_;
          return caller ? caller : std::noop_coroutine();
        }
        void await_resume() noexcept {}
      };
      return Awaiter{};
    }
    void return_void() {}
    void unhandled_exception() { error_ = std::current_exception(); }

   private:
    friend Task;
    std::coroutine_handle<> caller_ = nullptr;
    std::exception_ptr error_ = nullptr;
  };
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  std::coroutine_handle<> handle() const { return handle_; }
  bool done() const { return !handle_ || handle_.done(); }
  void rethrow_error() const {
    if (handle_ && handle_.promise().error_) std::rethrow_exception(handle_.promise().error_);
  }

  // Another task awaits this one.
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().caller_ = caller;
    return handle_;
  }
  void await_resume() const { rethrow_error(); }

 private:
  Handle handle_ = nullptr;
};

}  // namespace phalanx::ucx
