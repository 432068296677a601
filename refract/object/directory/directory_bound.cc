// SPDX-License-Identifier: Apache-2.0
// Bound copies at the member that has them: it binds what a home says, brings what it does not have, and asks
// before it lets one go (docs/design/054-copies.md).
#include "refract/kv/layout/wire.h"
#include "refract/object/directory/directory_outside.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;
using wire::ChangeKind;

namespace {

constexpr size_t kBroughtAtOnce = 4;
constexpr size_t kReleasedAtOnce = 64;
constexpr uint64_t kReleasePause_ns = 100 * kMillisecond_ns;

}  // namespace

void Directory::State::bind(const rpc::Responder& from, const Peer& peer, std::span<const std::byte> body) {
  const auto request = take<wire::BindRequest>(body);
  if (!request || request->reserved != 0 || request->may_pull > 1) return answer(from, Code::kMalformed);
  TakenId id;
  Code code = id.take_last(body, request->id_bytes);
  const CopiesWord word{request->word};
  if (code == Code::kOk && (request->birth == 0 || !word.is_sound())) code = Code::kInvalidArgument;
  // Of a home that is no member each member may say it.
  const bool may_say = outside != nullptr || home_of(id.text()) == *peer.index;
  if (code == Code::kOk && !may_say) code = Code::kAccessDenied;
  if (code == Code::kOk) code = take_bind(Named(id.text(), request->birth), word, request->may_pull != 0);
  answer(from, code);
}

Code Directory::State::take_bind(const Named& named, CopiesWord word, bool may_pull) {
  const auto& [id, birth] = named;
  if (parts.store.has_tombstone(text_bytes(id), birth)) return Code::kCancelled;
  // Whatever the home has said to that.
  releasing.erase(named);
  const Result<Object> object = parts.store.find(text_bytes(id));
  if (object && object->birth == birth) {
    if (word > object->copies) {
      parts.store.set_copies(text_bytes(id), birth, word);
      if (asker != nullptr) asker->store_changed();
    }
    // It may have gone for the room of others.
    const Result<Object> now = parts.store.find(text_bytes(id));
    if (now && now->birth == birth) say_held(id, *now);
    return Code::kOk;
  }
  if (object) return Code::kExists;
  if (!may_pull || !word.is_bound() || asker == nullptr) return Code::kNotFound;
  Binding& one = binding[id];
  if (one.birth != birth) one.word = {};
  one.birth = birth;
  one.word = std::max(one.word, word);
  if (!one.is_running) to_bring.push_back(id);
  bring_copies();
  return Code::kOk;
}

// At the home itself: not in the middle of the change that made it decide so.
Task<> Directory::State::bind_here(Named named, bool may_pull) {
  co_await parts.shard.sleep_for(0);
  const HomeTable::Bound bound = table.bound(named.first, named.second);
  if (may_pull ? !bound.wish.is_bound() : !bound.behind[self]) co_return;
  bind_answered(self, named, take_bind(named, bound.wish, may_pull));
}

void Directory::State::bind_answered(MemberIndex member, const Named& named, Code code) {
  if (code != Code::kOk) placed(member, named, false);
}

void Directory::State::bring_copies() {
  while (brought_now < kBroughtAtOnce && !to_bring.empty()) {
    const std::string id = std::move(to_bring.front());
    to_bring.pop_front();
    const auto at = binding.find(id);
    if (at == binding.end() || at->second.is_running) continue;
    at->second.is_running = true;
    ++brought_now;
    want(id, 0, {.is_in_advance = true});
  }
}

// Behind each look for it.
void Directory::State::settle_binding(const std::string& id) {
  const auto at = binding.find(id);
  if (at == binding.end()) return;
  const Binding one = at->second;
  binding.erase(at);
  brought_now -= one.is_running ? 1 : 0;
  const Result<Object> object = parts.store.find(text_bytes(id));
  if (!object || object->birth != one.birth) {
    say({.kind = ChangeKind::kGone, .id = id, .birth = one.birth, .parts = {}});
  } else if (object->copies < one.word) {
    (void)take_bind(Named(id, one.birth), one.word, false);
  }
  bring_copies();
}

CopiesWord Directory::State::word_for(const std::string& id, uint64_t birth) const {
  const auto at = binding.find(id);
  return at != binding.end() && at->second.birth == birth ? at->second.word : CopiesWord();
}

void Directory::State::say_held(const std::string& id, const Object& object) {
  if (outside != nullptr && object.copies.is_bound()) outside->look_after(Named(id, object.birth));
  say({.kind = ChangeKind::kHolds,
       .id = id,
       .birth = object.birth,
       .parts = object.parts,
       .copies = object.copies});
}

// --- Letting go ---

void Directory::State::release_some(uint64_t bytes) {
  const uint64_t now_ns = parts.shard.now_ns();
  if (list_version == 0 || !releasing.empty() || now_ns < released_ns) return;
  released_ns = moment_after(now_ns, kReleasePause_ns);
  start(ask_to_release(bytes));
}

// In a turn of its own: the service is in the middle of looking for room.
Task<> Directory::State::ask_to_release(uint64_t bytes) {
  co_await parts.shard.sleep_for(0);
  std::vector<Named> asked;
  uint64_t chosen = 0;
  parts.store.visit_bound([&](std::span<const std::byte> id, const Object& object) {
    asked.emplace_back(text_of(id), object.birth);
    chosen += object.parts.counted_bytes();
    return chosen < bytes && asked.size() < kReleasedAtOnce;
  });
  for (const Named& named : asked) {
    const Peer& home = *peer_at(home_of(named.first));
    if (!is_self(*home.index) && !home.has_reported) continue;
    releasing[named] = ++last_release;
    say({.kind = ChangeKind::kReleases,
         .id = named.first,
         .birth = named.second,
         .parts = {},
         .ticket = last_release});
  }
}

// The home's word, in the stream in which it was asked for. A yes to what an order has cancelled is none.
void Directory::State::released(const Change& change, Code code) {
  const auto& [id, birth] = std::tie(change.id, change.birth);
  const auto at = releasing.find(Named(id, birth));
  if (at == releasing.end() || at->second != change.ticket) return;
  releasing.erase(at);
  if (code != Code::kOk) {
    if (outside != nullptr) start(outside->bring_one_more(Named(id, birth)));
    return parts.store.put_behind(text_bytes(id), birth);
  }
  ++counts.released;
  parts.store.set_copies(text_bytes(id), birth, {});
  if (asker != nullptr) asker->store_changed();
}

// A yes that comes behind the end of the stream is none.
void Directory::State::end_releases(MemberIndex home) {
  std::erase_if(releasing, [&](const auto& one) { return home_of(one.first.first) == home; });
}

}  // namespace refract::object
