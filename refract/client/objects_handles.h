// SPDX-License-Identifier: Apache-2.0
// What calls of Objects return that holds something: an object, one that is being made, a subscription. See
// objects.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "refract/base/api.h"
#include "refract/base/result.h"
#include "refract/client/objects_types.h"

namespace refract {

class Client;
class Objects;

namespace client {
class ClientState;
struct Creating;
class ObjectHandles;
class ObjectLink;
class ObjectMemory;
}  // namespace client

// A sealed object, held. Its bytes stay where they are and as they are as long as this lives.
class REFRACT_API Object {
 public:
  // Of nothing.
  Object() noexcept = default;
  Object(Object&& other) noexcept { swap(other); }
  Object& operator=(Object&& other) noexcept {
    swap(other);
    return *this;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (link_ != nullptr || copy_ != nullptr) let_go();
  }

  [[nodiscard]] std::span<const std::byte> body() const noexcept { return {body_, body_bytes_}; }
  [[nodiscard]] std::span<const std::byte> metadata() const noexcept { return {metadata_, metadata_bytes_}; }
  [[nodiscard]] std::string_view id() const noexcept { return {id_, id_bytes_}; }
  [[nodiscard]] uint64_t birth() const noexcept { return birth_; }
  // Whether the bytes are in this process's own memory.
  [[nodiscard]] bool is_copy() const noexcept { return link_ == nullptr; }
  // Of body and metadata: reads them all.
  [[nodiscard]] ObjectDigest digest() const noexcept;

 private:
  friend class client::ObjectHandles;
  void let_go() noexcept;
  void swap(Object& other) noexcept;

  client::ObjectLink* link_ = nullptr;    // Whose pin holds the bytes. Null: they are this process's.
  client::ObjectMemory* copy_ = nullptr;  // Where they are then; null: of nothing.
  int pin_ = -1;
  uint16_t id_bytes_ = 0;
  uint32_t metadata_bytes_ = 0;
  const std::byte* body_ = nullptr;
  const std::byte* metadata_ = nullptr;
  const char* id_ = nullptr;
  uint64_t body_bytes_ = 0;
  uint64_t birth_ = 0;
};

// An object that is being made. Its room at the node is taken, and no reader finds it. Ends by seal(), by
// abandon(), or with this, which abandons it. Used by one thread at a time; the thread that created it is the
// one that seals it without a detour.
class REFRACT_API NewObject {
 public:
  // Of nothing.
  NewObject() noexcept = default;
  NewObject(NewObject&& other) noexcept;
  NewObject& operator=(NewObject&& other) noexcept;
  NewObject(const NewObject&) = delete;
  NewObject& operator=(const NewObject&) = delete;
  ~NewObject();

  // For the program to fill, in memory of this process: what is there at first is anything that the process
  // put there. Not to be touched after seal() or abandon().
  [[nodiscard]] std::span<std::byte> body() const noexcept;
  [[nodiscard]] std::span<std::byte> metadata() const noexcept;
  [[nodiscard]] std::string_view id() const noexcept;
  [[nodiscard]] uint64_t birth() const noexcept;

  // The first `bytes` of the body do not change any more: the node copies them while the others are made.
  // Worth it from some MiB at a time. Need not be called, and promises the more the more it says.
  [[nodiscard]] Code filled(uint64_t bytes);
  // All is there. From now on every reader finds the object, and its bytes cannot be changed by any process.
  // kExists: another program has sealed an object of this id since this creation was lost. kAccessDenied:
  // another one continues it. kIndeterminate: the server or the connection broke; the object was sealed, or
  // was not. kOverloaded: this thread holds as many objects as it can, or the
  // node cannot take the memory in which it was filled: trouble() says which. After kOverloaded, kUnavailable
  // and kDeadlineExceeded it may be sealed again; after all else it has ended.
  [[nodiscard]] Result<Object> seal();
  // Gives the room back. Also what the destructor does, where it does not say what came of it.
  Code abandon();
  // From now on what body() and metadata() returned stays mapped after the end, too, until this goes, or the
  // handle that seal() returned: for programs that cannot tell when the last pointer to it goes.
  void keep_memory() noexcept;

 private:
  friend class Objects;
  explicit NewObject(client::Creating* creating) noexcept : creating_(creating) {}
  client::Creating* creating_ = nullptr;  // Null: it has ended.
};

// What happens to objects: all that are there when it begins, then each seal and each removal once, in the
// order in which they happen. A subscriber that falls too far behind, or whose node was started again, is
// told so by a kMissed, behind which all that are there come again. Used by one thread at a time; the Client
// outlives it.
class REFRACT_API Subscription {
 public:
  Subscription(Subscription&& other) noexcept;
  Subscription& operator=(Subscription&& other) noexcept;
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;
  ~Subscription();

  // The next one, waiting for it. kNotFound: none came in `timeout_ms`.
  [[nodiscard]] Result<ObjectNotice> next(uint64_t timeout_ms);

 private:
  friend class Objects;
  struct State;
  explicit Subscription(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace refract
