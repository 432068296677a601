// SPDX-License-Identifier: Apache-2.0
// An object that is being made: a writable buffer, which becomes an object by seal().
//
// The memory that is filled is used for other objects afterwards, so it stays where it is as long as a view
// of it is left: what such a view writes after the seal changes nothing. Views refer to a Hold (hold.h), as
// those of a Buffer do.
//
// Threads: the GIL is held; calls that wait let go of it, and meanwhile all others are refused.
#pragma once

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "python/ext/objects_link.h"

namespace refract::python {

class Creation {
 public:
  Creation(const SharedLink& link, NewObject made, std::string metadata);
  Creation(const Creation&) = delete;
  Creation& operator=(const Creation&) = delete;
  ~Creation();

  [[nodiscard]] pybind11::bytes id() const { return {id_}; }
  [[nodiscard]] uint64_t birth() const noexcept { return birth_; }
  [[nodiscard]] size_t size() const noexcept { return body_.size(); }
  [[nodiscard]] bool is_open() const noexcept { return state_ == State::kOpen; }
  [[nodiscard]] std::span<std::byte> body() const;
  void filled(uint64_t bytes);
  [[nodiscard]] pybind11::object seal();
  void abandon();
  // With its client: as abort(), and nothing is raised. False: the node did not answer.
  bool end_with_client() noexcept;

  static int export_to(PyObject* self, Py_buffer* view, int flags) noexcept;
  static void end_export(PyObject* self, Py_buffer* view) noexcept;

 private:
  enum class State : uint8_t { kOpen, kBusy, kSealed, kAborted, kClosed };

  // Raises where it is not open to calls. Then it is busy until state_ is set.
  [[nodiscard]] SharedLink begin(const char* call);
  // Whether anything may write to the memory still.
  [[nodiscard]] bool is_seen() const noexcept;
  // Lets go of the memory, which has ended: now, with the last view, or with this where an array refers to
  // it.
  void let_go() noexcept;

  struct Memory {
    NewObject made;
    std::shared_ptr<const Object> sealed;  // Where the memory is the sealed object's.
  };

  std::weak_ptr<ObjectsLink> link_;
  std::shared_ptr<Memory> memory_;  // Null: let go of. Of the hold, too.
  pybind11::object hold_;
  std::string id_;
  uint64_t birth_;
  std::span<std::byte> body_;
  State state_ = State::kOpen;
  bool is_a_base_ = false;  // An array may refer to this, without a view.
  pid_t process_ = ::getpid();
};

void add_creation(pybind11::module_& module);

}  // namespace refract::python
