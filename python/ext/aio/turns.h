// SPDX-License-Identifier: Apache-2.0
// One client in one event loop of asyncio: its shard, which has its turns there instead of a thread, and what
// is under way on it.
//
// (I1) Python's code runs only while the shard does not: what its coroutines come to is noted, and told
// behind the turn. So it may end any operation, and close the client.
//
// (I2) A turn follows each use of the shard, before the loop waits; only turns announce that the shard
// sleeps.
//
// (I3) An operation's coroutine goes before what it was given, operations inside of a transaction before
// that, and all of them before the client.
//
// (I4) In a child of the process shard and loop are not touched: their descriptors are the parent's.
//
// Threads: that of the loop; ends of objects may come from any. The GIL is held, but while the shard copies
// long values: is_running_ is for that.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "python/ext/aio/operation.h"
#include "python/ext/gil.h"

#include "refract/base/report.h"
#include "refract/client/async_client.h"
#include "refract/runtime/shard.h"

namespace refract::python::aio {

class Turns {
 public:
  // A new object of Python around one. `make_call`: refract.aio.Call. Raises.
  [[nodiscard]] static pybind11::object make(PyObject* loop, PyObject* make_call);
  [[nodiscard]] static Turns& of(PyObject* self);

  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;
  ~Turns();

  // Raises unless this thread runs the loop, in the process that made it.
  void require_here(const char* call) const;
  // Raises behind close(): what a call was given may have run Python's code, and that have closed it.
  void require_open(const char* call) const;
  [[nodiscard]] bool is_child() const noexcept { return ::getpid() != process_; }
  // Whether its loop runs, in whatever thread.
  [[nodiscard]] bool is_used() const;
  [[nodiscard]] PyObject* self() const noexcept { return self_; }

  [[nodiscard]] runtime::Shard& shard() noexcept { return *shard_; }
  [[nodiscard]] AsyncClient& client() noexcept { return *client_; }
  void take_client(std::unique_ptr<AsyncClient> client) noexcept;

  // Begins the operation. An awaitable of its outcome, which is there or not. `inside`: the number of the
  // transaction to which it belongs; 0: of none.
  [[nodiscard]] PyObject* begin(std::unique_ptr<Operation> operation, uint64_t inside = 0);
  // The same by halves: it is under way, and nothing waits for it. Its number.
  uint64_t start(std::unique_ptr<Operation> operation, uint64_t inside = 0);
  // Resumes what waits in an operation for something of Python.
  template <typename Resume>
  void resume(const Operation& operation, Resume&& resume_it);
  // A future that tell() and outcome() resolve.
  [[nodiscard]] PyObject* wait_for(Operation& operation);
  // Sets what `call() -> PyObject*` returns or throws.
  template <typename Call>
  static void resolve(const pybind11::object& future, Call&& call);

  // Null: it has ended.
  [[nodiscard]] Operation* find(uint64_t number) noexcept;
  // Its outcome, or what it raises, and it has gone. REQUIRES: it has run.
  [[nodiscard]] PyObject* settle(uint64_t number);
  // From inside of the shard: it has ended, or has something to tell.
  void note(uint64_t number) { noted_.push_back(number); }

  // One read by loads. Now and then it takes a turn: only turns see that a node has gone.
  void count_read();
  // One turn, and what it brought is told.
  void turn();
  // Ends it at once, or leaves it to itself. What it had sent may be done or not. False: it is over in a
  // moment, and cancels its future then.
  bool drop(uint64_t number);
  // Its own timeout is over.
  bool expire(uint64_t number);
  // Ends one for whose end its caller waits still, whatever drop() has said.
  bool finish(uint64_t number);
  // Likewise all those inside of a transaction: its body has returned.
  void drop_inside(uint64_t transaction);

  // Of the objects that call it. Without any, and with nothing under way, it ends.
  void hold() noexcept { ++holders_; }
  void let_go();
  // What is under way fails.
  void close();
  [[nodiscard]] bool is_closed() const noexcept { return shard_ == nullptr; }

 private:
  friend struct TurnsType;
  struct Inherited;
  Turns(PyObject* self, PyObject* loop, PyObject* make_call);

  // Runs what uses the shard: it must not come here again.
  template <typename Work>
  auto run_shard(bool is_long, Work&& work);
  [[nodiscard]] runtime::Task<> drive(Operation& operation);
  void tell();
  [[nodiscard]] std::unique_ptr<Operation> take(uint64_t number) noexcept;
  void wait_a_moment(Operation& operation);
  static void end(std::unique_ptr<Operation> operation) noexcept;
  static void forget(Operation& operation) noexcept;
  void fail_all(std::map<uint64_t, std::unique_ptr<Operation>>& operations) noexcept;
  void schedule();
  void close_if_unused();
  [[nodiscard]] Report trouble() const;

  PyObject* self_;
  pybind11::object loop_;
  pybind11::object make_call_;
  pid_t process_ = ::getpid();
  std::unique_ptr<runtime::Shard> shard_;  // Null: closed.
  std::unique_ptr<AsyncClient> client_;    // Null: not connected.
  bool is_near_ = false;                   // Answers may come in a microsecond.
  std::map<uint64_t, std::unique_ptr<Operation>> under_way_;
  uint64_t last_number_ = 0;
  size_t long_ = 0;  // So many of them copy much.
  std::vector<uint64_t> noted_;
  std::vector<uint64_t> dropped_;  // While the shard was running.
  uint64_t reads_ = 0;
  size_t holders_ = 0;
  bool is_running_ = false;
  bool is_scheduled_ = false;
  bool is_close_wanted_ = false;
};

template <typename Work>
auto Turns::run_shard(bool is_long, Work&& work) {
  is_running_ = true;
  if (!is_long) {
    auto result = work();
    is_running_ = false;
    return result;
  }
  auto result = without_gil(work);
  is_running_ = false;
  return result;
}

template <typename Resume>
void Turns::resume(const Operation& operation, Resume&& resume_it) {
  (void)run_shard(false, [&] {
    shard_->refresh_now();
    resume_it();
    return true;
  });
  // What it came to is looked at by the caller.
  std::erase(noted_, operation.number_);
  schedule();
}

template <typename Call>
void Turns::resolve(const pybind11::object& future, Call&& call) {
  // One that is done already was cancelled, and refuses: nothing waits for this.
  try {
    pybind11::object value;
    try {
      value = pybind11::reinterpret_steal<pybind11::object>(call());
    } catch (pybind11::error_already_set& error) {
      future.attr("set_exception")(error.value());
      return;
    }
    future.attr("set_result")(value);
  } catch (pybind11::error_already_set&) {
    PyErr_Clear();
  }
}

void add_turns(pybind11::module_& module);

}  // namespace refract::python::aio
