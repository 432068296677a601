// SPDX-License-Identifier: Apache-2.0
// Bound copies whose home is no member: the home counts, and members place (docs/design/056-directory-in-
// redis.md). The node whose client asks does so as long as the call lasts; later the first, in the slot's
// order, of those that have a bound copy and a stream.
#include <algorithm>

#include "refract/object/directory/directory_outside.h"

namespace refract::object {

using runtime::Task;

namespace {

constexpr uint64_t kCarePause_ns = kSecond_ns;
constexpr size_t kStepsAtOnce = 64;

}  // namespace

// kOverloaded: nothing was changed, and it is worth another try.
Task<Elsewhere::KeptCopies> Directory::State::Outside::keep_copies(CopiesWish wish) {
  const bool changes_nothing = wish.wanted == wire::CopiesRequest::kAsItIs;
  const uint64_t version = state.list_version;
  // What was made just now is to be known there.
  const bool is_said = co_await state.all_is_said(wish.id);
  if (!is_said || !peer.is_agreed || version != state.list_version) {
    co_return KeptCopies{.code = Code::kOverloaded};
  }
  const OutsideHome::Copies copies = co_await home.copies(wish.id, wish.birth, wish.wanted);
  if (copies.code == Code::kIndeterminate || version != state.list_version) {
    co_return KeptCopies{.code = changes_nothing ? Code::kOverloaded : Code::kUnavailable};
  }
  if (copies.code == Code::kUnavailable) co_return KeptCopies{.code = Code::kOverloaded};
  if (copies.code != Code::kOk) co_return KeptCopies{.code = copies.code};
  (void)place(Named(wish.id, copies.birth), copies, 0, true);
  co_return KeptCopies{.code = Code::kOk,
                       .birth = copies.birth,
                       .wanted = copies.bound.wish.wanted(),
                       .counted = static_cast<uint8_t>(copies.bound.counted.count())};
}

void Directory::State::Outside::note_current(const MemberSet& now_current) {
  current = now_current;
  heard |= now_current;
  const uint64_t until_ns = moment_after(state.parts.shard.now_ns(), state.parts.grace_ns);
  for (size_t i = 0; i < state.by_index.size(); ++i) {
    if (current[i]) state.by_index[i]->grace_until_ns = until_ns;
  }
}

// True: there are too few.
bool Directory::State::Outside::place(const Named& named, const OutsideHome::Copies& copies, size_t beyond,
                                      bool is_awaited) {
  note_current(copies.current);
  const HomeTable::Bound& bound = copies.bound;
  // What they were told has come.
  for (size_t i = 0; i < state.by_index.size(); ++i) {
    if (bound.bound[i]) state.placed(static_cast<MemberIndex>(i), named, true);
  }
  if (bound.wish == CopiesWord()) {
    words.erase(named);
    state.end_placing(named);
    return false;
  }
  words[named] = bound.wish;
  for (size_t i = 0; i < state.by_index.size(); ++i) {
    if (bound.behind[i]) state.order_bind(static_cast<MemberIndex>(i), named, false);
  }
  const bool is_short = state.order_copies(bound, named, beyond, is_awaited);
  if (!is_short && bound.behind.none() && !state.placings.contains(named)) words.erase(named);
  return is_short;
}

// In a turn of its own: not in the middle of what decided it.
Task<> Directory::State::Outside::bind_here(Named named, bool may_pull) {
  co_await state.parts.shard.sleep_for(0);
  const auto at = words.find(named);
  if (at == words.end()) co_return;
  const CopiesWord word = at->second;
  state.bind_answered(state.self, named, state.take_bind(named, word, may_pull));
}

// A copy may not be let go: one more elsewhere, and it may the next time.
Task<> Directory::State::Outside::bring_one_more(Named named) {
  const uint64_t version = state.list_version;
  const OutsideHome::Copies copies =
      co_await home.copies(named.first, named.second, wire::CopiesRequest::kAsItIs);
  if (copies.code == Code::kOk && version == state.list_version) (void)place(named, copies, 1, false);
}

// --- What changes without a word ---

void Directory::State::Outside::look_after(const Named& named) {
  unsettled.insert(named);
  start_care();
}

void Directory::State::Outside::start_care() {
  if (is_caring_) return;
  is_caring_ = true;
  state.start(care());
}

// As long as there are bound copies here.
Task<> Directory::State::Outside::care() {
  uint64_t streams = 0;
  MemberSet unknown;
  bool has_bound = true;  // It is looked for at first.
  while (has_bound || !unsettled.empty()) {
    const uint64_t grace_ns = next_grace_end_ns();
    co_await state.parts.shard.sleep_for(kCarePause_ns);
    if (!peer.has_reported) continue;
    const OutsideHome::Counts said = home.counts();
    MemberSet all;
    for (size_t i = 0; i < state.by_index.size(); ++i) all.set(i);
    note_current(all & ~said.unknown);
    const bool is_changed =
        said.streams_begun != streams || said.unknown != unknown || state.parts.shard.now_ns() >= grace_ns;
    streams = said.streams_begun;
    unknown = said.unknown;
    // One is asked about in any case: else nothing may be written for long, and who is silent is not noticed.
    const Result<Object> object = state.parts.store.find(text_bytes(asked_about_.first));
    const bool is_bound = object && object->birth == asked_about_.second && object->copies.is_bound();
    if (is_changed || (has_bound && !is_bound)) {
      has_bound = co_await take_bound();
    } else if (has_bound) {
      unsettled.insert(asked_about_);
    }
    co_await look_at_unsettled();
  }
  is_caring_ = false;
}

// All bound copies of this member are to be looked at. False: there are none.
Task<bool> Directory::State::Outside::take_bound() {
  uint64_t cursor = 0;
  size_t steps = 0;
  bool has_bound = false;
  do {
    cursor = state.parts.store.list(cursor, [&](const ObjectStore::Listed& listed) {
      if (!listed.is_sealed || !listed.object.copies.is_bound()) return;
      asked_about_ = Named(text_of(listed.id), listed.object.birth);
      unsettled.insert(asked_about_);
      has_bound = true;
    });
    if (++steps % kStepsAtOnce == 0) co_await state.parts.shard.sleep_for(0);
  } while (cursor != 0);
  co_return has_bound;
}

Task<> Directory::State::Outside::look_at_unsettled() {
  const uint64_t version = state.list_version;
  const std::vector<Named> some(unsettled.begin(), unsettled.end());
  for (const Named& named : some) {
    const OutsideHome::Copies copies =
        co_await home.copies(named.first, named.second, wire::CopiesRequest::kAsItIs);
    if (version != state.list_version || !peer.has_reported) co_return;
    if (copies.code == Code::kUnavailable || copies.code == Code::kIndeterminate) continue;
    const bool is_mine = copies.code == Code::kOk && is_first(named, copies);
    const bool is_short = is_mine && place(named, copies, 0, false);
    if (!is_short) unsettled.erase(named);
  }
}

// Whether this member places it: of those that have a bound copy and a stream.
bool Directory::State::Outside::is_first(const Named& named, const OutsideHome::Copies& copies) const {
  for (const MemberIndex member : state.by_place(named.first)) {
    if (copies.bound.bound[member] && copies.current[member]) return state.is_self(member);
  }
  return false;
}

uint64_t Directory::State::Outside::next_grace_end_ns() const {
  const uint64_t now_ns = state.parts.shard.now_ns();
  uint64_t next_ns = kForever_ns;
  for (size_t i = 0; i < state.by_index.size(); ++i) {
    const uint64_t until_ns = state.by_index[i]->grace_until_ns;
    if (!current[i] && until_ns > now_ns) next_ns = std::min(next_ns, until_ns);
  }
  return next_ns;
}

}  // namespace refract::object
