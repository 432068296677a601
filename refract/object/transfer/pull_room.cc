// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/pull_room.h"

#include <algorithm>
#include <utility>

#include "refract/object/owner/object_sessions.h"

namespace refract::object {

using runtime::Task;

namespace {

constexpr uint64_t kRoomPause_ns = 2 * kMillisecond_ns;

}  // namespace

// In the line while it lives, so that a pull that is dropped leaves it.
class PullRoom::Place {
 public:
  Place(PullRoom& room, bool is_awaited) : room_(room) {
    auto at = room_.line_.end();
    if (is_awaited) at = std::ranges::find(room_.line_, false, &Waiting::is_awaited);
    at_ = room_.line_.insert(at, {.is_awaited = is_awaited});
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    room_.line_.erase(at_);
    room_.wake_first();
  }
  [[nodiscard]] bool is_first() const noexcept { return at_ == room_.line_.begin(); }
  [[nodiscard]] runtime::Token& waiter() noexcept { return at_->waiter; }

 private:
  PullRoom& room_;
  std::list<Waiting>::iterator at_;
};

PullRoom::~PullRoom() {
  timer_ = {};
  for (const Grace& grace : graces_) parts_.pins->unpin(grace.object);
}

void PullRoom::wake_first() noexcept {
  if (line_.empty()) return;
  const runtime::Token waiter = std::exchange(line_.front().waiter, 0);
  if (waiter != 0) (void)parts_.shard.ops().complete(waiter, {.code = Code::kOk});
}

Code PullRoom::try_take(const ObjectStore::NewObject& object) {
  const Result<Creation> made = parts_.store.create(object);
  if (made) return made->is_sealed ? Code::kExists : Code::kOk;
  return made.error().code;
}

Task<Code> PullRoom::take(ObjectStore::NewObject object, bool is_awaited) {
  if (line_.empty()) {
    const Code code = try_take(object);
    if (code != Code::kNoSpace) co_return code;
  }
  ++counts_.waits;
  const Code code = co_await take_in_turn(object, is_awaited);
  counts_.fails += code == Code::kNoSpace ? 1 : 0;
  co_return code;
}

// As creators wait for it: memory that can come is waited for however long it takes, by those behind the
// first, too.
Task<Code> PullRoom::take_in_turn(ObjectStore::NewObject object, bool is_awaited) {
  const uint64_t begun_ns = parts_.shard.now_ns();
  Place place(*this, is_awaited);
  for (;;) {
    if (place.is_first()) {
      end_graces();
      const Code code = try_take(object);
      if (code != Code::kNoSpace) co_return code;
    }
    const ObjectStore::Shortage shortage =
        place.is_first() ? parts_.store.shortage() : ObjectStore::Shortage{};
    if (shortage.wanted_bytes > 0) {
      parts_.growth.want(shortage.wanted_bytes);
      memory_comes_ns_ = parts_.shard.now_ns();
    }
    const uint64_t until_ns = moment_after(std::max(begun_ns, memory_comes_ns_), kTimeout_ns);
    if (parts_.shard.now_ns() >= until_ns) co_return Code::kNoSpace;
    uint64_t again_ns = until_ns;
    if (place.is_first()) {
      if (asker_ != nullptr) asker_->store_changed();
      again_ns = parts_.shard.now_ns() + (shortage.is_under_way ? 0 : kRoomPause_ns);
    }
    // Awaiting changes it, which the check does not see.
    runtime::Pending turn = parts_.shard.ops().begin(again_ns);  // NOLINT(misc-const-correctness)
    place.waiter() = turn.token();
    const uint64_t pause_ns = turn.token() != 0 ? 0 : kRoomPause_ns;
    if (turn.token() != 0) (void)co_await turn;
    place.waiter() = 0;
    // The one before it in the line stands below on the stack.
    co_await parts_.shard.sleep_for(pause_ns);
  }
}

void PullRoom::came(const Object& object) {
  if (parts_.pins == nullptr) return;
  parts_.pins->pin(object.object);
  graces_.push_back({.object = object.object, .until_ns = moment_after(parts_.shard.now_ns(), kGrace_ns)});
  if (std::exchange(is_timing_, true)) return;
  timer_ = run_graces();
  timer_.start();
}

void PullRoom::end_grace_of(std::span<const std::byte> id, uint64_t birth) {
  if (graces_.empty()) return;
  const Result<Object> object = parts_.store.find(id);
  if (!object || object->birth != birth) return;
  const auto at = std::ranges::find(graces_, object->object, &Grace::object);
  if (at == graces_.end()) return;
  parts_.pins->unpin(at->object);
  graces_.erase(at);
}

void PullRoom::end_graces() {
  const uint64_t now_ns = parts_.shard.now_ns();
  std::erase_if(graces_, [&](const Grace& grace) {
    // It is one holder itself.
    const bool is_over = now_ns >= grace.until_ns || parts_.store.holders_of(grace.object) > 1;
    if (is_over) parts_.pins->unpin(grace.object);
    return is_over;
  });
}

Task<> PullRoom::run_graces() {
  while (!graces_.empty()) {
    co_await parts_.shard.sleep_until(graces_.front().until_ns);
    while (!graces_.empty() && parts_.shard.now_ns() >= graces_.front().until_ns) {
      parts_.pins->unpin(graces_.front().object);
      graces_.pop_front();
    }
    if (asker_ != nullptr) asker_->store_changed();
  }
  is_timing_ = false;
}

PullRoom::Counts PullRoom::counts() const noexcept {
  Counts counts = counts_;
  counts.graces = graces_.size();
  return counts;
}

}  // namespace refract::object
