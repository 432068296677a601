// SPDX-License-Identifier: Apache-2.0
#include "refract/object/owner/notices.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "refract/object/owner/object_sessions.h"

namespace refract::object {
namespace {

constexpr int kStepsPerReplay = 256;  // Of the store's list, so that no page takes long.

wire::Notice notice_of(wire::NoticeKind kind, size_t id_bytes, const Object& object) noexcept {
  return {.birth = object.birth,
          .body_bytes = object.parts.body_bytes,
          .metadata_bytes = object.parts.metadata_bytes,
          .id_bytes = static_cast<uint16_t>(id_bytes),
          .kind = kind,
          .reserved = 0};
}

}  // namespace

Notices::Notices(ObjectStore& store, Heap& heap, size_t notices_max)
    : store_(store), heap_(heap), notices_max_(notices_max), floor_(heap.next_stamp()), newest_(floor_) {}

uint64_t Notices::mark_of(std::span<const std::byte> id, uint64_t birth) noexcept {
  // A birth is random, but its creator's choice.
  return std::hash<std::string_view>()(text_of(id)) * 0x9E3779B97F4A7C15ULL ^ birth;
}

void Notices::add(wire::NoticeKind kind, std::span<const std::byte> id, const Object& object) {
  newest_ = heap_.next_stamp();
  ++counts_.notices;
  const wire::Notice notice = notice_of(kind, id.size(), object);
  kept_.push_back({.number = newest_, .notice = notice, .id = std::string(text_of(id))});
  if (kept_.size() > notices_max_) {
    floor_ = kept_.front().number;
    kept_.pop_front();
  }
  const uint64_t mark = mark_of(id, object.birth);
  for (const auto& replay : replays_) {
    // One that is lost begins again.
    if (replay->begin < floor_) continue;
    const bool is_new = replay->settled.insert(mark).second;
    if (kind == wire::NoticeKind::kSealed || !is_new || replay->is_listed) continue;
    replay->to_show.push_back({.notice = notice_of(wire::NoticeKind::kReplayed, id.size(), object),
                               .id = std::string(text_of(id))});
  }
}

std::optional<Notices::Told> Notices::tell(rpc::SessionId session, uint64_t cursor, ReplyPage& page) {
  const auto found = std::ranges::find_if(
      replays_, [&](const auto& replay) { return replay->cursor == cursor && replay->session == session; });
  if (found != replays_.end()) {
    std::rotate(found, found + 1, replays_.end());
    if (replays_.back()->begin >= floor_) return Told{.next = tell_replay(*replays_.back(), page)};
    replays_.pop_back();
  } else if (knows(cursor)) {
    auto next = std::ranges::upper_bound(kept_, cursor, {}, &Kept::number);
    for (; next != kept_.end() && page.add(next->notice, next->id); ++next) cursor = next->number;
    return Told{.next = cursor};
  }
  counts_.lost += cursor == 0 ? 0 : 1;
  Replay* replay = begin_replay(session);
  if (replay == nullptr) return std::nullopt;
  return Told{.next = tell_replay(*replay, page), .is_lost = cursor != 0};
}

Notices::Replay* Notices::begin_replay(rpc::SessionId session) {
  const auto is_its_own = [session](const auto& replay) { return replay->session == session; };
  if (std::ranges::count_if(replays_, is_its_own) >= static_cast<ptrdiff_t>(kReplaysPerSession)) {
    replays_.erase(std::ranges::find_if(replays_, is_its_own));
  }
  if (replays_.size() >= kReplaysMax) return nullptr;
  ++counts_.replays;
  replays_.push_back(std::make_unique<Replay>());
  replays_.back()->session = session;
  replays_.back()->begin = newest_;
  return replays_.back().get();
}

// REQUIRES: it is the last one. Returns the cursor behind the page.
uint64_t Notices::tell_replay(Replay& replay, ReplyPage& page) {
  for (int steps = 0; steps < kStepsPerReplay; ++steps) {
    while (!replay.to_show.empty()) {
      const Shown& first = replay.to_show.front();
      if (!page.add(first.notice, first.id)) return replay.cursor = heap_.next_stamp();
      replay.to_show.pop_front();
    }
    if (replay.is_listed) {
      const uint64_t begin = replay.begin;
      replays_.pop_back();
      return begin;
    }
    list_some(replay);
  }
  return replay.cursor = heap_.next_stamp();
}

void Notices::list_some(Replay& replay) {
  replay.place = store_.list(replay.place, [&](const ObjectStore::Listed& listed) {
    if (!listed.is_sealed || !replay.settled.insert(mark_of(listed.id, listed.object.birth)).second) return;
    replay.to_show.push_back(
        {.notice = notice_of(wire::NoticeKind::kReplayed, listed.id.size(), listed.object),
         .id = std::string(text_of(listed.id))});
  });
  replay.is_listed = replay.place == 0;
}

void Notices::end(rpc::SessionId session) noexcept {
  std::erase_if(replays_, [session](const auto& replay) { return replay->session == session; });
}

}  // namespace refract::object
