// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/session_state.h"

#include <algorithm>
#include <utility>

#include "refract/base/check.h"
#include "refract/base/units.h"

namespace refract::kv {
namespace {

template <typename Transfer>
bool is_idle(const Transfer& place, uint64_t now_ns) noexcept {
  const uint64_t extra_ns = place.window ? place.bytes() / kMiB * SessionState::kIdlePerMiB_ns : 0;
  return now_ns - place.used_ns >= SessionState::kIdle_ns + extra_ns;
}

bool may_be_given_up(const SessionState::Upload& upload) noexcept {
  return !upload.is_pulled;
}

bool may_be_given_up(const SessionState::View&) noexcept {
  return true;
}

template <typename Transfer, size_t kPlaces>
uint64_t bytes_of(const std::array<Transfer, kPlaces>& places) noexcept {
  uint64_t bytes = 0;
  for (const Transfer& place : places) bytes += place.id != 0 ? place.bytes() : 0;
  return bytes;
}

// A free place, where there is one and the bytes of all stay within their bound.
template <typename Transfer, size_t kPlaces>
Transfer* free_place(std::array<Transfer, kPlaces>& places, uint64_t bytes) noexcept {
  const auto free_at = std::ranges::find(places, uint64_t{0}, &Transfer::id);
  Transfer* free = free_at == places.end() ? nullptr : &*free_at;
  const bool all_are_free = std::ranges::all_of(places, [](const Transfer& place) { return place.id == 0; });
  if (all_are_free) return free;
  const uint64_t open_bytes = bytes_of(places);
  return open_bytes <= wire::kOpenBytesPerSession && bytes <= wire::kOpenBytesPerSession - open_bytes
             ? free
             : nullptr;
}

// The one untouched for the longest time, where that is long enough.
template <typename Transfer, size_t kPlaces>
Transfer* idle_place(std::array<Transfer, kPlaces>& places, uint64_t now_ns) noexcept {
  Transfer* oldest = nullptr;
  for (Transfer& place : places) {
    if (place.id == 0 || !is_idle(place, now_ns) || !may_be_given_up(place)) continue;
    if (oldest == nullptr || place.used_ns < oldest->used_ns) oldest = &place;
  }
  return oldest;
}

template <typename Transfer, size_t kPlaces>
Transfer* find(std::array<Transfer, kPlaces>& places, uint64_t id, uint64_t now_ns) noexcept {
  if (id == 0) return nullptr;
  for (Transfer& place : places) {
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

SessionState::Upload* SessionState::free_upload(uint64_t bytes, uint64_t now_ns) {
  Upload* upload = free_place(uploads_, bytes);
  while (upload == nullptr) {
    if (!abandon_idle_upload(now_ns)) return nullptr;
    upload = free_place(uploads_, bytes);
  }
  upload->used_ns = now_ns;
  return upload;
}

SessionState::View* SessionState::free_view(uint64_t bytes, uint64_t now_ns) {
  View* view = free_place(views_, bytes);
  while (view == nullptr) {
    View* idle = idle_place(views_, now_ns);
    if (idle == nullptr) return nullptr;
    close(*idle);
    view = free_place(views_, bytes);
  }
  view->used_ns = now_ns;
  return view;
}

SessionState::Upload* SessionState::find_upload(uint64_t id, uint64_t now_ns) noexcept {
  Upload* const upload = find(uploads_, id, now_ns);
  return upload == nullptr || upload->is_pulled ? nullptr : upload;
}

SessionState::View* SessionState::find_view(uint64_t id, uint64_t now_ns) noexcept {
  return find(views_, id, now_ns);
}

void SessionState::pin(View& view, Offset buffer, std::span<const std::byte> value) {
  view.buffer = buffer;
  view.shown = value;
  pins_.pin(buffer);
}

void SessionState::close(View& view) noexcept {
  // Before the buffer may be reused: a client that still reads through the window must not see what comes
  // then.
  if (view.window) windows_->close(*view.window);
  if (view.buffer) pins_.unpin(view.buffer);
  view = View{};
}

void SessionState::begin(Upload& upload, uint64_t id, const Table::Draft& draft, const PutOptions& options) {
  upload.id = id;
  upload.draft = draft;
  upload.options = options;
  all_upload_bytes_ += upload.bytes();
  outcomes_.watch(options.request);
}

SessionState::Upload& SessionState::release_pulled(uint64_t id) noexcept {
  const auto found = std::ranges::find(uploads_, id, &Upload::id);
  REFRACT_CHECK(id != 0 && found != uploads_.end() && found->is_pulled);
  found->is_pulled = false;
  return *found;
}

bool SessionState::seal(Upload& upload) noexcept {
  if (upload.window) upload.filled = std::min(upload.bytes(), windows_->close(*upload.window));
  upload.window.reset();
  return upload.filled == upload.bytes();
}

void SessionState::forget(Upload& upload) {
  all_upload_bytes_ -= upload.bytes();
  outcomes_.unwatch(upload.options.request);
  upload = {};
}

void SessionState::abandon(Upload& upload) {
  (void)seal(upload);
  table_.abandon(upload.draft);
  forget(upload);
}

bool SessionState::abandon_idle_upload(uint64_t now_ns) {
  Upload* idle = idle_place(uploads_, now_ns);
  if (idle == nullptr) return false;
  abandon(*idle);
  return true;
}

void SessionState::open_window(View& view, std::byte* value) {
  if (windows_ != nullptr) view.window = windows_->open({value, view.bytes()}, {.read = true});
}

void SessionState::open_window(Upload& upload, std::byte* value) {
  if (windows_ != nullptr) upload.window = windows_->open({value, upload.bytes()}, {.write = true});
}

size_t SessionState::uploads() const noexcept {
  return static_cast<size_t>(
      std::ranges::count_if(uploads_, [](const Upload& upload) { return upload.id != 0; }));
}

size_t SessionState::views() const noexcept {
  return static_cast<size_t>(std::ranges::count_if(views_, [](const View& view) { return view.id != 0; }));
}

uint64_t SessionState::view_bytes() const noexcept {
  return bytes_of(views_);
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
