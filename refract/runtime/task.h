// SPDX-License-Identifier: Apache-2.0
// Task<T>: a lazily started coroutine that yields one T (by value), or nothing.
//
//   Task<uint64_t> read_twice(Shard& shard) {
//     const uint64_t first = co_await read_once(shard);
//     const uint64_t second = co_await read_once(shard);
//     co_return first + second;
//   }
//
// It starts when it is awaited (once, as an rvalue: `co_await std::move(task)`), spawned on a shard, or given
// to block_on. A Task owns its frame: destroying it while it is suspended destroys the frame with all locals,
// and so the tasks and operations it waits for. A task must not be destroyed while it runs, also not by what
// it calls. Frames come from a pool (frame_pool.h). No task is resumed by another thread than the one that
// started it.
//
// Awaiting a task that completes at once does not grow the stack, with or without optimisation, so a loop may
// await any number of such tasks. The compilers' weak spots forbid: capturing lambdas as coroutines, and
// co_await inside a conditional expression or an argument list. Exceptions are bugs here and abort.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "refract/base/check.h"
#include "refract/runtime/frame_pool.h"

namespace refract::runtime {

template <typename T>
class Task;

namespace detail {

// What the promises of all tasks share.
class TaskPromiseBase {
 public:
  static void* operator new(size_t bytes) noexcept(false) { return FramePool::allocate(bytes); }
  static void operator delete(void* frame, size_t bytes) noexcept { FramePool::release(frame, bytes); }

  struct FinalAwaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <typename Promise>
    [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      return self.promise().next_to_run();
    }
    void await_resume() const noexcept {}
  };

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] FinalAwaiter final_suspend() const noexcept { return {}; }
  [[noreturn]] void unhandled_exception() const noexcept {
    check_failed("no exception leaves a task", __FILE__, __LINE__);
  }

  // Runs the task until it ends or first suspends; true: it has ended and `parent` simply continues.
  // Symmetric transfer would need the compiler's tail calls, which g++ omits without optimisation and under
  // sanitizers.
  [[nodiscard]] bool run_first(std::coroutine_handle<> self, std::coroutine_handle<> parent) noexcept {
    parent_ = parent;
    in_first_run_ = true;
    self.resume();
    in_first_run_ = false;
    return self.done();
  }

 private:
  [[nodiscard]] std::coroutine_handle<> next_to_run() const noexcept {
    if (in_first_run_ || !parent_) return std::noop_coroutine();
    return parent_;
  }

  std::coroutine_handle<> parent_;
  bool in_first_run_ = false;
};

template <typename T>
class TaskPromise : public TaskPromiseBase {
 public:
  [[nodiscard]] Task<T> get_return_object() noexcept;
  template <typename Value>
    requires std::is_constructible_v<T, Value&&>
  void return_value(Value&& value) noexcept {
    value_.emplace(std::forward<Value>(value));
  }
  [[nodiscard]] T take() noexcept {
    REFRACT_DCHECK(value_.has_value());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> : public TaskPromiseBase {
 public:
  [[nodiscard]] Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::TaskPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() noexcept = default;
  explicit Task(Handle handle) noexcept : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { reset(); }

  // False after a move, and for a default-made one.
  [[nodiscard]] bool valid() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] bool done() const noexcept { return handle_ && handle_.done(); }

  // For callers that drive a task without a coroutine around it (block_on, tests). REQUIRES: valid, not yet
  // started.
  void start() noexcept { static_cast<void>(handle_.promise().run_first(handle_, nullptr)); }
  // REQUIRES: done(). Once.
  T take() noexcept { return handle_.promise().take(); }

  struct Awaiter {
    Handle handle;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    [[nodiscard]] bool await_suspend(std::coroutine_handle<> parent) const noexcept {
      return !handle.promise().run_first(handle, parent);
    }
    T await_resume() const noexcept { return handle.promise().take(); }
  };
  // REQUIRES: valid, not yet started.
  [[nodiscard]] Awaiter operator co_await() && noexcept {
    REFRACT_DCHECK(handle_ && !handle_.done());
    return Awaiter{handle_};
  }

 private:
  void reset() noexcept {
    if (handle_) std::exchange(handle_, nullptr).destroy();
  }

  Handle handle_;
};

namespace detail {

template <typename T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<TaskPromise>::from_promise(*this));
}

}  // namespace detail
}  // namespace refract::runtime
