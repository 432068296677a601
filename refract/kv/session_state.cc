// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/session_state.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"

namespace refract::kv {
namespace {

// A free place, or else the one untouched for the longest time, where that is long enough.
template <typename Place, size_t kPlaces>
Place* free_or_idle(std::array<Place, kPlaces>& places, uint64_t now_ns) noexcept {
  Place* oldest = &places[0];
  for (Place& place : places) {
    if (place.id == 0) return &place;
    if (place.used_ns < oldest->used_ns) oldest = &place;
  }
  return now_ns - oldest->used_ns >= SessionState::kIdle_ns ? oldest : nullptr;
}

template <typename Place, size_t kPlaces>
Place* find(std::array<Place, kPlaces>& places, uint64_t id, uint64_t now_ns) noexcept {
  if (id == 0) return nullptr;
  for (Place& place : places) {
    if (place.id != id) continue;
    place.used_ns = now_ns;
    return &place;
  }
  return nullptr;
}

}  // namespace

void SessionPins::unpin(Offset buffer) noexcept {
  const auto at = std::ranges::find(buffers_, buffer);
  REFRACT_CHECK(at != buffers_.end());
  *at = buffers_.back();
  buffers_.pop_back();
}

void SessionPins::collect(PinSet& pins) noexcept {
  for (const Offset buffer : buffers_) pins.add(buffer);
}

SessionState::~SessionState() {
  for (Upload& upload : uploads_) {
    if (upload.id != 0) abandon(upload);
  }
  for (View& view : views_) {
    if (view.id != 0) close(view);
  }
}

SessionState::Upload* SessionState::free_upload(uint64_t now_ns) {
  Upload* upload = free_or_idle(uploads_, now_ns);
  if (upload == nullptr) return nullptr;
  if (upload->id != 0) abandon(*upload);
  upload->used_ns = now_ns;
  return upload;
}

SessionState::View* SessionState::free_view(uint64_t now_ns) {
  View* view = free_or_idle(views_, now_ns);
  if (view == nullptr) return nullptr;
  if (view->id != 0) close(*view);
  view->used_ns = now_ns;
  return view;
}

SessionState::Upload* SessionState::find_upload(uint64_t id, uint64_t now_ns) noexcept {
  return find(uploads_, id, now_ns);
}

SessionState::View* SessionState::find_view(uint64_t id, uint64_t now_ns) noexcept {
  return find(views_, id, now_ns);
}

void SessionState::pin(View& view, Offset buffer, std::span<const std::byte> value) {
  view.buffer = buffer;
  view.bytes = value;
  pins_.pin(buffer);
}

void SessionState::close(View& view) noexcept {
  if (view.buffer) pins_.unpin(view.buffer);
  view = View{};
}

void SessionState::abandon(Upload& upload) {
  table_.abandon(upload.draft);
  upload = Upload{};
}

size_t SessionState::uploads() const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(uploads_, [](const Upload& upload) { return upload.id != 0; }));
}

size_t SessionState::views() const noexcept {
  return static_cast<size_t>(std::ranges::count_if(views_, [](const View& view) { return view.id != 0; }));
}

Code SessionState::stage(size_t place, uint64_t offset, std::span<const std::byte> piece) {
  std::vector<std::byte>& key = staged_[place];
  if (offset == 0) key.clear();
  if (offset != key.size()) return Code::kInvalidated;
  if (piece.size() > kKeyBytesMax - key.size()) return Code::kTooLarge;
  key.resize(key.size() + piece.size());
  if (!piece.empty()) copy_possibly_torn(key.data() + offset, piece.data(), piece.size());
  return Code::kOk;
}

std::optional<std::vector<std::byte>> SessionState::take_staged(size_t place, size_t key_bytes) noexcept {
  std::vector<std::byte> key = std::exchange(staged_[place], {});
  if (key.size() != key_bytes) return std::nullopt;
  return key;
}

}  // namespace refract::kv
