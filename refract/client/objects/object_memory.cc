// SPDX-License-Identifier: Apache-2.0
#include "refract/client/objects/object_memory.h"

#include <cstdlib>
#include <utility>

#include "refract/base/units.h"
#include "refract/client/client_state.h"
#include "refract/memory/host/limits.h"
#include "refract/object/layout/object_layout.h"

namespace refract::client {

ObjectMemory::ObjectMemory(std::string id) noexcept : id_(std::move(id)) {}

ObjectMemory* ObjectMemory::make(uint64_t bytes, std::string id) noexcept {
  const uint64_t rounded = round_up(bytes, object::kBodyAlignment);
  std::byte* memory = nullptr;
  if (bytes > 0) {
    if (!check_own_room(rounded, false)) return nullptr;
    memory = static_cast<std::byte*>(std::aligned_alloc(object::kBodyAlignment, rounded));
    if (memory == nullptr) return nullptr;
  }
  auto* made = new ObjectMemory(std::move(id));
  made->bytes_ = memory;
  return made;
}

ObjectMemory* ObjectMemory::adopt(SharedBufferHold buffer, ClientState& client, std::string id) {
  auto* made = new ObjectMemory(std::move(id));
  made->bytes_ = buffer->bytes().data();
  made->buffer_ = std::move(buffer);
  made->client_ = &client;
  client.refer();
  return made;
}

void ObjectMemory::end() noexcept {
  if (!buffer_) {
    std::free(bytes_);
  } else if (buffer_->is_of_this_process()) {
    // A child has only a copy of what its parent continues to use.
    client_->take_back(std::move(buffer_));
  } else {
    (void)buffer_.release();
  }
  delete this;
}

}  // namespace refract::client
