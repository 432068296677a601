// SPDX-License-Identifier: Apache-2.0
// An operation that is under way in an event loop: its coroutine, what it was given, which it holds, and the
// future that waits for it.
//
// Threads: the GIL is held in all of it but in run().
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "python/ext/gil.h"
#include "python/ext/kv_arguments.h"

#include "refract/base/report.h"
#include "refract/client/async_client.h"
#include "refract/runtime/task.h"

namespace refract::python::aio {

class Turns;

// What becomes of an operation that is ended before.
enum class Rest : uint8_t {
  kDropped,  // At once.
  // Dropped, it would leave something open at the owner for half a minute, as an upload that was begun, of
  // which a connection has sixteen. So it ends by itself, though nothing waits for it any more.
  kEndsByItself,
  // Likewise; but it is just writing its caller's memory, so that the caller waits a moment for its end.
  kAwaited,
};

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  [[nodiscard]] virtual runtime::Task<> run() = 0;
  // What it came to, when it has run. Raises. `trouble`: what is known of a failure.
  [[nodiscard]] virtual PyObject* outcome(const Report& trouble) = 0;
  // It is ended before; outcome() says so, with this code.
  [[nodiscard]] virtual Code give_up() noexcept = 0;
  // It copies so much that the GIL is let go of meanwhile.
  [[nodiscard]] virtual bool is_long() const noexcept { return false; }
  [[nodiscard]] virtual uint64_t timeout_ms() const noexcept { return kForever_ms; }
  // Its caller does not want it any more. It lets go of what the caller may change or give away, if it can.
  [[nodiscard]] virtual Rest abandon() noexcept { return Rest::kDropped; }
  // It has something to tell before its end.
  virtual void tell() {}

  // Keeps the arguments as long as it is.
  void hold(const Arguments& given);
  // What may lead back to its client.
  [[nodiscard]] std::array<PyObject*, 2> visited() const noexcept { return {call_.ptr(), timer_.ptr()}; }

 private:
  friend class Turns;
  friend class TransactionOperation;

  uint64_t number_ = 0;
  uint64_t inside_ = 0;        // The number of its transaction; 0: of none.
  bool is_long_ = false;       // When it was begun.
  bool is_cancelled_ = false;  // Its caller waits for its end all the same, or until a moment is over.
  bool is_expired_ = false;    // Likewise, since its own timeout is over.
  std::vector<pybind11::object> held_;
  pybind11::object call_;   // The future. Null: there is none yet.
  pybind11::object timer_;  // Of its own timeout. Null: it has none.
  runtime::Task<> task_;
};

// A request (kv_requests.h) to the client, or inside of a transaction.
template <typename Request, typename Target>
class Asking final : public Operation {
 public:
  template <typename... Names>
  Asking(Target& target, const Arguments& given, Names... names)
      : target_(target), request_(names..., given) {
    hold(given);
  }
  // One that holds what it was given by itself.
  template <typename... Given>
  Asking(Target& target, std::in_place_t /*is_whole*/, Given&&... given)
      : target_(target), request_(std::forward<Given>(given)...) {}

  [[nodiscard]] Request& request() noexcept { return request_; }

  [[nodiscard]] runtime::Task<> run() override { return request_.ask(target_); }
  [[nodiscard]] PyObject* outcome(const Report& trouble) override {
    if constexpr (requires { request_.outcome(trouble); }) {
      return request_.outcome(trouble);
    } else {
      return request_.outcome();
    }
  }
  [[nodiscard]] Code give_up() noexcept override {
    if constexpr (requires { request_.give_up(); }) request_.give_up();
    return Request::kGivenUp;
  }
  [[nodiscard]] bool is_long() const noexcept override {
    if constexpr (requires { request_.is_long(); }) return request_.is_long();
    return false;
  }
  [[nodiscard]] Rest abandon() noexcept override {
    if constexpr (requires { request_.abandon(); }) {
      return request_.abandon() ? Rest::kEndsByItself : Rest::kAwaited;
    } else if constexpr (requires { request_.ends_by_itself(); }) {
      return request_.ends_by_itself() ? Rest::kEndsByItself : Rest::kDropped;
    } else {
      return Rest::kDropped;
    }
  }
  [[nodiscard]] uint64_t timeout_ms() const noexcept override {
    if constexpr (requires { request_.timeout_ms; }) return request_.timeout_ms;
    return kForever_ms;
  }

 private:
  Target& target_;
  Request request_;
};

}  // namespace refract::python::aio
