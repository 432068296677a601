// SPDX-License-Identifier: Apache-2.0
// What clients of this node wait for: it is looked for at its home, then at all members that may have it, and
// pulled.
#include <algorithm>

#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_visible.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/directory/directory_broadcast.h"
#include "refract/object/directory/directory_outside.h"
#include "refract/object/directory/directory_use.h"
#include "refract/object/transfer/object_transfer.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;
using wire::DirectoryMethod;

namespace {

constexpr uint64_t kAskTimeout_ns = kSecond_ns;
constexpr uint64_t kSaidPause_ns = 100 * kMicrosecond_ns;
// The home tells when something comes; this is for when it could not.
constexpr uint64_t kLookAgain_ns = 5 * kSecond_ns;
constexpr int kRounds = 3;
constexpr uint64_t kRoundPause_ns = 2 * kMillisecond_ns;

}  // namespace

// --- Who waits ---

void Directory::State::want(std::string_view id, uint64_t arrival, const PullWish& wish) {
  auto [at, is_new] = wants.try_emplace(std::string(id));
  if (is_new) at->second = std::make_unique<Want>(parts.shard);
  at->second->arrival = std::max(at->second->arrival, arrival);
  // A newer plan may be of another birth. A look that is under way has the one it began with.
  const bool is_newer_plan = wish.plan != 0 && at->second->wish.is_in_advance;
  if (is_new || !wish.is_in_advance || is_newer_plan) at->second->wish = wish;
  is_new ? start(look_for(std::string(id))) : at->second->news.raise();
}

void Directory::State::raise_want(std::string_view id) {
  if (wants.empty()) return;
  const auto at = wants.find(std::string(id));
  if (at != wants.end()) at->second->news.raise();
}

Task<> Directory::State::look_for(std::string id) {
  Want& want = *wants.at(id);
  bool tells_later = false;
  while (asker != nullptr) {
    const uint64_t arrival = want.arrival;
    Search search{.id = id, .pulls = true, .wish = want.wish, .tells_later = tells_later};
    broadcaster->look_begins(id);
    co_await look(search);
    if (asker == nullptr) break;
    settle_binding(id);
    broadcaster->look_ended(search);
    if (broadcaster->is_awaited(id)) continue;
    // It may have gone again already.
    if (search.code == Code::kOk && !asker->is_awaited(id)) break;
    if (search.code != Code::kOk) asker->absent(id, arrival, search.code);
    if (!asker->is_awaited(id)) break;
    if (want.arrival != arrival) continue;
    // From the second look on, the home tells when it comes.
    if (std::exchange(tells_later, true)) {
      co_await want.news.wait_until(moment_after(parts.shard.now_ns(), kLookAgain_ns));
    }
    if (asker == nullptr || !asker->is_awaited(id)) break;
  }
  wants.erase(id);
}

Task<> Directory::State::locate_for(std::string id, TakeLocated take) {
  Search search{.id = id, .pulls = false};
  if (list_version != 0) {
    co_await look(search);
    search.located.code = search.code;
  }
  take(search.located);
}

// --- A look ---

Task<> Directory::State::look(Search& search) {
  ++counts.look_ups;
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) co_await parts.shard.sleep_for(kRoundPause_ns << round);
    if (round > 0 && !take_course_back(search)) break;
    search.asked.reset();
    search.is_open = false;
    search.code = Code::kNotFound;
    search.runs.clear();
    for (const Peer* peer : by_index) search.runs.push_back(peer->run);
    search.stream = peer_at(home_of(search.id))->stream_now();
    const Said said = co_await ask_home(search);
    if (said && said->birth != 0) {
      co_await take_found(*said, search);
      if (search.code != Code::kNotFound) co_return;
    }
    const Peer& home = *peer_at(home_of(search.id));
    search.by_home = said.has_value();
    if (!said && !may_ask_all(home)) {
      search.is_open = true;
      continue;
    }
    counts.asked_all += said ? 0 : 1;
    search.to_ask = said ? said->doubtful : others();
    if (const auto maker = maker_of(search.id)) search.to_ask.set(*maker);
    co_await ask_members(search);
    // Where it named members only, the home counts this one among those that may have it.
    if (said && said->birth == 0 && said->doubtful.any() && search.code != Code::kOk)
      end_coming(search.id, 0);
    if (search.code != Code::kNotFound || !search.is_open) co_return;
  }
  search.code = Code::kUnavailable;
}

// Another attempt follows no plan: what others get by that does not wait for this member. False: it is too
// late for another one.
bool Directory::State::take_course_back(Search& search) const {
  const Course* const course = broadcaster->course_of(search.id, std::exchange(search.wish.plan, 0));
  return course == nullptr || parts.shard.now_ns() < course->until_ns;
}

Task<> Directory::State::take_found(const HomeTable::Found& found, Search& search) {
  const Course* const course = broadcaster->course_of(search.id, search.wish.plan);
  if (course != nullptr && course->birth != found.birth) {
    search.code = Code::kExists;
    end_coming(search.id, found.birth);
    co_return;
  }
  if (search.pulls) {
    co_await pull_from(found.holders,
                       {.id = search.id,
                        .birth = found.birth,
                        .parts = found.parts,
                        .wish = search.wish,
                        .stream = search.stream},
                       search);
    if (search.code != Code::kOk) end_coming(search.id, found.birth);
    co_return;
  }
  search.code = Code::kOk;
  search.located = {.code = Code::kOk,
                    .birth = found.birth,
                    .parts = found.parts,
                    .holders = {},
                    .wanted = found.wish.wanted(),
                    .counted = found.counted};
  for (const MemberIndex holder : found.holders) search.located.holders.push_back(by_index[holder]->name);
}

// A home that believes in a stream which has ended here does not know what this member pulls meanwhile. And
// one that was never reported to may have deleted what others have still.
bool Directory::State::may_ask_all(const Peer& home) const {
  if (is_self(*home.index)) return true;
  const uint64_t unseen_ns = home.is_outside() ? parts.outside->unseen_ns() : parts.unseen_ns;
  const bool must_have_seen = parts.shard.now_ns() >= moment_after(home.ended_ns, unseen_ns);
  return home.was_reported_to && !home.collects && must_have_seen;
}

bool Directory::State::have_sessions_stood(const Search& search) const {
  if (search.runs.size() != by_index.size()) return false;
  for (size_t i = 0; i < by_index.size(); ++i) {
    if (search.asked[i] && !is_running(*by_index[i], search.runs[i])) return false;
  }
  return true;
}

// The home counts this member among those that have it, or will.
void Directory::State::end_coming(std::string_view id, uint64_t birth) {
  const Result<Object> object = parts.store.find(text_bytes(id));
  if (object && object->birth == birth) return;
  say({.kind = wire::ChangeKind::kGone, .id = std::string(id), .birth = birth, .parts = {}});
}

HomeTable::MemberSet Directory::State::others() const noexcept {
  MemberSet set;
  for (size_t i = 0; i < by_index.size(); ++i) set.set(i, i != self);
  return set;
}

Task<Directory::State::Said> Directory::State::ask_home(Search& search) {
  Peer& home = *peer_at(home_of(search.id));
  if (home.is_outside()) co_return co_await outside->ask(search);
  if (!is_self(*home.index)) co_return co_await ask_home_at(home, search);
  HomeTable::Found found = table.look_up(search.id);
  if (search.pulls && (found.birth != 0 || found.doubtful.any())) {
    table.comes(self, search.id, found.birth, found.parts);
  }
  co_return found;
}

Task<Directory::State::Said> Directory::State::ask_home_at(Peer& home, Search& search) {
  // A look-up is no part of the stream, and must not overtake it: the home would forget that a copy comes.
  const bool is_said = co_await all_is_said(search.id);
  if (!is_said || home.session == nullptr || !home.is_agreed) co_return std::nullopt;
  rpc::Session& session = *home.session;
  const Use use(*this, session);
  const wire::LookUpRequest request{.list_version = list_version,
                                    .id_bytes = static_cast<uint16_t>(search.id.size()),
                                    .tells_later = static_cast<uint8_t>(search.tells_later ? 1 : 0),
                                    .pulls = static_cast<uint8_t>(search.pulls ? 1 : 0),
                                    .reserved = {}};
  const CallFront front({struct_bytes(request), text_bytes(search.id)});
  const runtime::OpResult reply = co_await session.call(
      {.method = static_cast<uint16_t>(DirectoryMethod::kLookUp), .head = front.bytes()},
      parts.shard.now_ns() + kAskTimeout_ns);
  if (reply.value == 0 || reply.code != Code::kOk || request.list_version != list_version) {
    co_return std::nullopt;
  }
  std::span<const std::byte> bytes = reply.bytes;
  const auto said = take<wire::LookUpReply>(bytes);
  if (!said || bytes.size() != size_t{said->holders} + said->doubtful ||
      said->metadata_bytes > kMetadataBytesMax) {
    co_return std::nullopt;
  }
  HomeTable::Found found{.birth = said->birth,
                         .parts = {.body_bytes = said->body_bytes,
                                   .metadata_bytes = said->metadata_bytes,
                                   .id_bytes = static_cast<uint16_t>(search.id.size())},
                         .holders = {},
                         .doubtful = {},
                         .wish = CopiesWord::of(0, said->wanted),
                         .counted = said->counted};
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto member = static_cast<MemberIndex>(bytes[i]);
    if (member >= by_index.size()) co_return std::nullopt;
    if (i < said->holders) {
      found.holders.push_back(member);
    } else {
      found.doubtful.set(member);
    }
  }
  co_return found;
}

// --- Asking members ---

// What they say counts only if they were there from the first to the last: one that was away may have got
// a copy from one that was asked already.
Task<> Directory::State::ask_members(Search& search) {
  MemberSet again;
  search.to_ask.reset(self);
  while (search.code == Code::kNotFound) {
    const MemberSet rest = search.to_ask & ~search.asked;
    if (rest.none()) break;
    size_t next = 0;
    while (!rest[next]) ++next;
    search.asked.set(next);
    if (next >= by_index.size()) break;  // The list has changed.
    Peer& peer = *by_index[next];
    const std::string receiver = co_await ask_member(peer, search);
    const auto to = peers.find(receiver);
    if (to == peers.end() || !to->second->index || is_self(*to->second->index)) continue;
    // It may have had no copy when it was asked.
    const MemberIndex index = *to->second->index;
    if (again[index]) continue;
    again.set(index);
    search.to_ask.set(index);
    search.asked.reset(index);
  }
  search.is_open = search.is_open || !have_sessions_stood(search);
}

// Refuses these births, as after a drop. False: there is no room for that.
bool Directory::State::take_tombstones(const std::string& id, std::span<const std::byte> births) {
  while (!births.empty()) {
    const auto birth = take<uint64_t>(births);
    uint64_t holders = 0;
    if (!birth || *birth == 0 || drop_here(id, *birth, holders) != Code::kOk) return false;
  }
  return true;
}

// Returns the name of the one to which it has passed a copy last.
Task<std::string> Directory::State::ask_member(Peer& peer, Search& search) {
  if (peer.session == nullptr || !peer.is_agreed) {
    search.is_open = true;
    co_return std::string();
  }
  rpc::Session& session = *peer.session;
  const Use use(*this, session);
  const wire::AskRequest request{
      .list_version = list_version, .id_bytes = static_cast<uint16_t>(search.id.size()), .reserved = {}};
  const CallFront front({struct_bytes(request), text_bytes(search.id)});
  const runtime::OpResult reply =
      co_await session.call({.method = static_cast<uint16_t>(DirectoryMethod::kAsk), .head = front.bytes()},
                            parts.shard.now_ns() + kAskTimeout_ns);
  std::span<const std::byte> bytes = reply.bytes;
  const auto said = take<wire::AskReply>(bytes);
  if (reply.value == 0 || reply.code != Code::kOk || !said || !peer.index ||
      bytes.size() != said->name_bytes + said->tombstones * sizeof(uint64_t) ||
      said->metadata_bytes > kMetadataBytesMax || request.list_version != list_version) {
    search.is_open = true;
    co_return std::string();
  }
  std::string receiver(text_of(bytes.first(said->name_bytes)));
  const std::vector<std::byte> births(bytes.begin() + said->name_bytes, bytes.end());
  if (said->birth != 0 && !take_tombstones(search.id, births)) {
    search.is_open = true;
    co_return receiver;
  }
  if (said->birth == 0) {
    search.is_open = search.is_open || said->is_open != 0;
    co_return receiver;
  }
  const HomeTable::Found found{.birth = said->birth,
                               .parts = {.body_bytes = said->body_bytes,
                                         .metadata_bytes = said->metadata_bytes,
                                         .id_bytes = static_cast<uint16_t>(search.id.size())},
                               .holders = {*peer.index},
                               .doubtful = {},
                               .wish = {},
                               .counted = 0};
  co_await take_found(found, search);
  co_return receiver;
}

// --- Pulling ---

// kNotFound: none of them brought it. Each of them may be away, or have it no more.
Task<> Directory::State::pull_from(std::vector<MemberIndex> holders, Pull pull, Search& search) {
  std::vector<Peer*> givers;
  const Peer& home = *peer_at(home_of(pull.id));
  // Without the home's word: only as long as its next report is to come, which names the pull.
  const bool may = search.by_home || is_self(*home.index) || may_ask_all(home);
  for (const MemberIndex holder : holders) {
    if (holder >= by_index.size()) break;
    if (is_self(holder)) {
      if (!parts.store.find(text_bytes(pull.id))) continue;
      search.code = Code::kOk;
      co_return;
    }
    Peer& giver = *by_index[holder];
    if (may && giver.session != nullptr && giver.is_agreed) givers.push_back(&giver);
  }
  if (!search.by_home) pull.wish.plan = 0;
  pull.forebears = add_forebears(pull, givers);
  Code code = Code::kUnavailable;
  if (!givers.empty()) code = co_await this->pull(givers, pull);
  if (code == Code::kOk || code == Code::kNoSpace || code == Code::kTooLarge) {
    search.code = code == Code::kTooLarge ? Code::kNoSpace : code;
    co_return;
  }
  search.is_open = true;
}

// Those of the plan are first, and behind them the one that has it. Returns how many of those are that may
// have a part only.
size_t Directory::State::add_forebears(Pull& pull, std::vector<Peer*>& givers) const {
  const Course* const course = broadcaster->course_of(pull.id, pull.wish.plan);
  if (course == nullptr || course->list_version != list_version) {
    pull.wish.plan = 0;
    return 0;
  }
  pull.piece_bytes = course->piece_bytes;
  std::vector<Peer*> first;
  const auto add = [&](const std::string& name) {
    const auto peer = peers.find(name);
    if (peer == peers.end() || !peer->second->index || is_self(*peer->second->index)) return;
    if (peer->second->session != nullptr && peer->second->is_agreed) first.push_back(peer->second.get());
  };
  for (const std::string& name : course->forebears) add(name);
  const size_t forebears = first.size();
  add(course->root);
  // A forebear is not asked for the whole: it may wait for one that waits for this member.
  for (Peer* const giver : givers) {
    if (std::ranges::find(first, giver) == first.end()) first.push_back(giver);
  }
  givers = std::move(first);
  return forebears;
}

// Behind the wait for room, which may have been long. kUnavailable: the home is to be asked again. Another
// stream has begun, whose report did not name this pull; or the home has granted the id to this node, so what
// was to come has gone everywhere.
Code Directory::State::judge_wanted(const Pull& pull) {
  if (parts.store.has_tombstone(text_bytes(pull.id), pull.birth)) return Code::kCancelled;
  const auto claimed = granted.lower_bound(Named(pull.id, 0));
  if (claimed != granted.end() && claimed->first.first == pull.id) return Code::kUnavailable;
  const uint64_t stream = peer_at(home_of(pull.id))->stream_now();
  return stream != 0 && stream != pull.stream ? Code::kUnavailable : Code::kOk;
}

Task<Code> Directory::State::pull(std::vector<Peer*> givers, Pull pull) {
  const auto id = text_bytes(pull.id);
  if (parts.store.has_tombstone(id, pull.birth)) co_return Code::kCancelled;
  std::deque<Use> held;
  std::vector<TransferSource> sources;
  for (Peer* const giver : givers) {
    held.emplace_back(*this, *giver->session);
    sources.push_back({.name = giver->name, .session = giver->session, .path = &giver->path});
  }
  const uint64_t version = list_version;
  Code code = co_await pull_room.take({.id = id,
                                       .birth = pull.birth,
                                       .body_bytes = pull.parts.body_bytes,
                                       .metadata_bytes = pull.parts.metadata_bytes,
                                       .is_pulled = true},
                                      !pull.wish.is_in_advance);
  if (code == Code::kExists) {
    const Result<Object> object = parts.store.find(id);
    co_return object && object->birth == pull.birth ? Code::kOk : Code::kExists;
  }
  if (code != Code::kOk) co_return code;
  code = judge_wanted(pull);
  if (code != Code::kOk) {
    (void)parts.store.end_pull(id, pull.birth);
    co_return code;
  }
  const Result<Creation> made = parts.store.creation(id, pull.birth);
  std::optional<Arrivals::Entry> arrival;
  begin_arrival(pull, *made, arrival);
  code = co_await transfer(pull, *made, arrival, std::move(sources));
  const bool is_over = pulls.at(pull.id).birth != pull.birth;
  pulls.erase(pull.id);
  // It was deleted meanwhile, which all may have forgotten already; or what is agreed upon now is not known.
  if (code == Code::kOk && is_over) code = Code::kCancelled;
  if (code == Code::kOk && list_version != version) code = Code::kUnavailable;
  if (code == Code::kOk) {
    const Result<Object> object = parts.store.seal(id, pull.birth, word_for(pull.id, pull.birth));
    code = object.code();
    if (object) pull_room.came(*object);
    if (object && arrival) arrival->sealed();
  }
  // Others READ from its room no more.
  arrival.reset();
  if (code == Code::kOk) {
    ++counts.pulls;
    counts.pulled_bytes += pull.parts.counted_bytes();
  } else {
    ++counts.pulls_failed;
    (void)parts.store.end_pull(id, pull.birth);
  }
  if (asker != nullptr) asker->store_changed();
  co_return code;
}

// What comes from whole copies alone is given to all; else to those that follow the same plan, so that none
// waits for itself.
void Directory::State::begin_arrival(const Pull& pull, const Creation& made,
                                     std::optional<Arrivals::Entry>& arrival) const {
  if (parts.arrivals == nullptr || pull.wish.is_checked) return;
  arrival.emplace(*parts.arrivals, Arrivals::Arrival{.id = pull.id,
                                                     .birth = pull.birth,
                                                     .parts = made.parts,
                                                     .plan = pull.forebears > 0 ? pull.wish.plan : 0,
                                                     .object = made.object,
                                                     .room = parts.store.room_of(made)});
}

Task<Code> Directory::State::transfer(const Pull& pull, Creation made,
                                      std::optional<Arrivals::Entry>& arrival,
                                      std::vector<TransferSource> sources) {
  TransferOrder order{.id = text_bytes(pull.id),
                      .birth = pull.birth,
                      .parts = made.parts,
                      .writer = parts.store.writer(),
                      .room = parts.store.room_of(made),
                      .wish = pull.wish.by,
                      .is_checked = pull.wish.is_checked,
                      .limits = parts.transfers};
  if (arrival) order.arrival = &*arrival;
  order.plan = pull.wish.plan;
  order.forebears = pull.forebears;
  order.limits.piece_bytes = std::min(order.limits.piece_bytes, pull.piece_bytes);
  ObjectTransfer transfer(parts.shard, order, std::move(sources));
  pulls.insert_or_assign(pull.id, Pulling{.birth = pull.birth,
                                          .parts = pull.parts,
                                          .transfer = &transfer,
                                          .arrival = arrival ? &*arrival : nullptr});
  const TransferOutcome outcome = co_await transfer.run();
  Pulling& pulling = pulls.at(pull.id);
  pulling.transfer = nullptr;
  pulling.arrival = nullptr;
  note_transfer(outcome);
  co_return outcome.code;
}

void Directory::State::note_transfer(const TransferOutcome& outcome) {
  size_t givers = 0;
  for (const TransferShare& share : outcome.shares) {
    counts.transfer_calls += share.calls;
    counts.transfer_reads += share.reads;
    const bool by_reads = share.by == wire::TransferBy::kReads;
    (by_reads ? counts.read_bytes : counts.message_bytes) += share.bytes;
    givers += share.bytes > 0 ? 1 : 0;
    counts.givers_left += share.code != Code::kOk ? 1 : 0;
  }
  counts.pulls_from_several += givers > 1 ? 1 : 0;
}

Task<bool> Directory::State::all_is_said(const std::string& id) {
  const uint64_t until_ns = moment_after(parts.shard.now_ns(), kAskTimeout_ns);
  while (has_unsaid(id)) {
    if (parts.shard.now_ns() >= until_ns) co_return false;
    co_await parts.shard.sleep_for(kSaidPause_ns);
  }
  co_return true;
}

bool Directory::State::has_unsaid(std::string_view id) const {
  const Peer& home = *peer_at(home_of(id));
  if (is_self(*home.index)) return false;
  if (!home.collects) return false;
  const auto is_about = [id](const Change& change) {
    return change.id == id && change.kind != wire::ChangeKind::kTombstone;
  };
  return std::ranges::any_of(home.changes, is_about) || std::ranges::any_of(home.sending, is_about);
}

}  // namespace refract::object
