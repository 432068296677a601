// SPDX-License-Identifier: Apache-2.0
// Memory of this process in which an object lies: one that was fetched, or that was made here and is kept by
// its creator's handle.
//
// Threads: any, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "refract/memory/host/shared_buffer.h"

namespace refract::client {

class ClientState;

class ObjectMemory {
 public:
  // For body, padding and metadata, aligned to 64, and an id. Null: there is no such memory.
  [[nodiscard]] static ObjectMemory* make(uint64_t bytes, std::string id) noexcept;
  // What lies in this buffer, which goes back to where reservations come from.
  [[nodiscard]] static ObjectMemory* adopt(SharedBufferHold buffer, ClientState& client, std::string id);
  ObjectMemory(const ObjectMemory&) = delete;
  ObjectMemory& operator=(const ObjectMemory&) = delete;

  [[nodiscard]] std::byte* bytes() const noexcept { return bytes_; }
  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  // Gives it back, and ends this.
  void end() noexcept;

 private:
  explicit ObjectMemory(std::string id) noexcept;
  ~ObjectMemory() = default;

  std::string id_;
  std::byte* bytes_ = nullptr;
  SharedBufferHold buffer_;        // Where the bytes are. None: on the heap.
  ClientState* client_ = nullptr;  // Referred to; null: of none.
};

}  // namespace refract::client
