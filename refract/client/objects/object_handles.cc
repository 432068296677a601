// SPDX-License-Identifier: Apache-2.0
#include "refract/client/objects/object_handles.h"

#include <xxhash.h>

#include <utility>

namespace refract {

namespace client {

void ObjectHandles::hold(ObjectLink& link, int pin, uint64_t object_at, const ObjectFacts& facts,
                         Object& object) noexcept {
  const std::byte* const header = link.at(object_at);
  object.link_ = &link;
  object.pin_ = pin;
  object.id_bytes_ = facts.parts.id_bytes;
  object.metadata_bytes_ = facts.parts.metadata_bytes;
  object.body_ = header + object::ObjectParts::body_at();
  object.metadata_ = header + facts.parts.metadata_at();
  object.id_ = reinterpret_cast<const char*>(header + facts.parts.id_at());
  object.body_bytes_ = facts.parts.body_bytes;
  object.birth_ = facts.birth;
}

Object ObjectHandles::of_memory(ObjectMemory* memory, const ObjectFacts& facts) noexcept {
  Object object;
  object.copy_ = memory;
  object.id_bytes_ = static_cast<uint16_t>(memory->id().size());
  object.metadata_bytes_ = facts.parts.metadata_bytes;
  object.body_ = memory->bytes();
  object.id_ = memory->id().data();
  object.body_bytes_ = facts.parts.body_bytes;
  object.birth_ = facts.birth;
  // Of nothing the address may be null.
  if (facts.parts.filled_bytes() > 0) {
    object.metadata_ = memory->bytes() + (facts.parts.metadata_at() - object::ObjectParts::body_at());
  }
  return object;
}

}  // namespace client

void Object::let_go() noexcept {
  if (link_ != nullptr) {
    link_->let_go(pin_);
  } else {
    copy_->end();
  }
}

void Object::swap(Object& other) noexcept {
  std::swap(link_, other.link_);
  std::swap(copy_, other.copy_);
  std::swap(pin_, other.pin_);
  std::swap(id_bytes_, other.id_bytes_);
  std::swap(metadata_bytes_, other.metadata_bytes_);
  std::swap(body_, other.body_);
  std::swap(metadata_, other.metadata_);
  std::swap(id_, other.id_);
  std::swap(body_bytes_, other.body_bytes_);
  std::swap(birth_, other.birth_);
}

ObjectDigest Object::digest() const noexcept {
  if (metadata_bytes_ == 0) {
    const XXH128_hash_t whole = XXH3_128bits(body_, body_bytes_);
    return {.high = whole.high64, .low = whole.low64};
  }
  // On the heap: it has half a kilobyte, aligned to 64.
  XXH3_state_t* const state = XXH3_createState();
  if (state == nullptr) return {};
  (void)XXH3_128bits_reset_withSeed(state, metadata_bytes_);
  (void)XXH3_128bits_update(state, body_, body_bytes_);
  (void)XXH3_128bits_update(state, metadata_, metadata_bytes_);
  const XXH128_hash_t whole = XXH3_128bits_digest(state);
  (void)XXH3_freeState(state);
  return {.high = whole.high64, .low = whole.low64};
}

}  // namespace refract
