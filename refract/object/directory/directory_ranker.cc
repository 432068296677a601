// SPDX-License-Identifier: Apache-2.0
#include "refract/object/directory/directory_ranker.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_visible.h"
#include "refract/object/directory/bring_time.h"
#include "refract/object/directory/directory_use.h"
#include "refract/object/layout/object_rank_wire.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;

namespace {

constexpr size_t kLookedUpAtOnce = 16;

template <typename T>
void append_struct(std::vector<std::byte>& body, const T& value) {
  const auto bytes = struct_bytes(value);
  body.insert(body.end(), bytes.begin(), bytes.end());
}

template <typename Reserved>
[[nodiscard]] bool has_zeros(const Reserved& reserved) noexcept {
  return std::ranges::all_of(reserved, [](uint8_t byte) { return byte == 0; });
}

// The quickest first; behind them those that cannot have all, then those of which nothing is known.
[[nodiscard]] auto place_of(const Elsewhere::RankedMember& member) noexcept {
  const int trouble = member.code == Code::kOk ? 0 : member.code == Code::kNoSpace ? 1 : 2;
  // Names are the order of the list.
  return std::tuple(trouble, member.unreachable, member.time_ns, member.missing_bytes,
                    std::string_view(member.name));
}

[[nodiscard]] Code told_of_member(const runtime::OpResult& reply, bool is_open) noexcept {
  if (reply.value == 0) return is_open ? Code::kDeadlineExceeded : Code::kUnavailable;
  if (reply.code == Code::kOk || reply.code == Code::kUnsupported) return reply.code;
  // Its list is another one now.
  if (reply.code == Code::kVersionMismatch || reply.code == Code::kUnavailable) return Code::kUnavailable;
  return Code::kMalformed;
}

}  // namespace

uint64_t Directory::State::Ranker::Wanted::bytes() const noexcept {
  return sum_or_most(parts.body_bytes, parts.metadata_bytes);
}

// --- For a client of this node ---

void Directory::State::Ranker::rank(std::vector<std::string> ids, uint64_t until_ns, TakeRanked take_ranked) {
  if (state.list_version == 0) return take_ranked({.code = Code::kUnavailable, .ids = {}, .members = {}});
  if (rankings_.size() >= kRankingsMax) {
    return take_ranked({.code = Code::kOverloaded, .ids = {}, .members = {}});
  }
  const uint64_t now_ns = state.parts.shard.refresh_now();
  auto ranking = std::make_unique<Ranking>(state.parts.shard);
  ranking->list_version = state.list_version;
  ranking->until_ns = std::max(until_ns, now_ns);
  // A home that is silent takes no more than half of the time.
  ranking->look_until_ns = now_ns + (ranking->until_ns - now_ns) / 2;
  ranking->wanted.resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) ranking->wanted[i].id = std::move(ids[i]);
  ranking->members.resize(state.by_index.size());
  for (size_t i = 0; i < ranking->members.size(); ++i) ranking->members[i].name = state.by_index[i]->name;
  rankings_.emplace(++last_, std::move(ranking));
  state.start(run(last_, std::move(take_ranked)));
}

Directory::State::Ranker::Ranking* Directory::State::Ranker::at(uint64_t number, Phase phase) noexcept {
  const auto found = rankings_.find(number);
  const bool is_on = found != rankings_.end() && found->second->phase == phase &&
                     found->second->list_version == state.list_version;
  return is_on ? found->second.get() : nullptr;
}

Task<> Directory::State::Ranker::run(uint64_t number, TakeRanked take_ranked) {
  Ranking& ranking = *rankings_.at(number);
  ranking.running = std::min(ranking.wanted.size(), kLookedUpAtOnce);
  for (size_t i = ranking.running; i > 0; --i) state.start(look_up_some(number));
  co_await wait_for_tasks(ranking, ranking.look_until_ns);
  if (ranking.list_version == state.list_version) {
    ranking.phase = Phase::kAsking;
    add_own(ranking);
    ranking.running = ranking.members.size();
    for (size_t i = 0; i < ranking.members.size(); ++i) {
      state.start(ask(number, static_cast<MemberIndex>(i)));
    }
    co_await wait_for_tasks(ranking, ranking.until_ns);
  }
  const std::unique_ptr<Ranking> done = std::move(rankings_.at(number));
  rankings_.erase(number);
  Ranked ranked;
  if (done->list_version == state.list_version) {
    ranked.code = Code::kOk;
    for (const Wanted& wanted : done->wanted) ranked.ids.push_back(wanted.code);
    ranked.members = std::move(done->members);
    std::ranges::sort(ranked.members, {}, place_of);
  }
  take_ranked(ranked);
}

// Those that are late find their phase over.
Task<> Directory::State::Ranker::wait_for_tasks(Ranking& ranking, uint64_t until_ns) {
  while (ranking.running > 0 && ranking.list_version == state.list_version &&
         state.parts.shard.refresh_now() < until_ns) {
    co_await ranking.news.wait_until(until_ns);
  }
}

void Directory::State::Ranker::leave(uint64_t number, Phase phase) noexcept {
  const auto found = rankings_.find(number);
  if (found == rankings_.end() || found->second->phase != phase) return;
  if (--found->second->running == 0) found->second->news.raise();
}

// --- What the homes know ---

Task<> Directory::State::Ranker::look_up_some(uint64_t number) {
  while (true) {
    Ranking* const ranking = at(number, Phase::kLooking);
    if (ranking == nullptr || ranking->next == ranking->wanted.size() ||
        state.parts.shard.now_ns() >= ranking->look_until_ns) {
      break;
    }
    const size_t index = ranking->next++;
    const std::string id = ranking->wanted[index].id;
    Search search{.id = id, .pulls = false};
    co_await state.look(search);
    note_found(number, index, search);
  }
  leave(number, Phase::kLooking);
}

void Directory::State::Ranker::note_found(uint64_t number, size_t index, const Search& search) {
  Ranking* const ranking = at(number, Phase::kLooking);
  if (ranking == nullptr) return;
  Wanted& wanted = ranking->wanted[index];
  wanted.code = search.code;
  if (search.code != Code::kOk) return;
  wanted.birth = search.located.birth;
  wanted.parts = search.located.parts;
  for (const std::string& name : search.located.holders) {
    const auto peer = state.peers.find(name);
    if (peer == state.peers.end() || !peer->second->index) continue;
    if (wanted.holders.size() < wire::WantedObject::kHoldersMax) {
      wanted.holders.push_back(*peer->second->index);
    }
  }
}

// Where the home is not reached, what is here is known all the same.
void Directory::State::Ranker::add_own(Ranking& ranking) const {
  for (Wanted& wanted : ranking.wanted) {
    if (wanted.code == Code::kOk) continue;
    const Result<Object> object = state.parts.store.find(text_bytes(wanted.id));
    if (!object) continue;
    wanted.code = Code::kOk;
    wanted.birth = object->birth;
    wanted.parts = object->parts;
    wanted.holders = {state.self};
  }
}

// --- What members say ---

Task<> Directory::State::Ranker::ask(uint64_t number, MemberIndex member) {
  Told told;
  if (state.is_self(member)) {
    ask_itself(*rankings_.at(number), told);
  } else {
    co_await ask_other(number, *state.by_index[member], told);
  }
  RankedMember& said = told.member;
  if (said.code == Code::kOk && told.wanted_bytes > told.room_bytes) said.code = Code::kNoSpace;
  if (said.code != Code::kOk && said.code != Code::kNoSpace) said = {.name = {}, .code = said.code};
  if (Ranking* const ranking = at(number, Phase::kAsking)) {
    said.name = ranking->members[member].name;
    ranking->members[member] = said;
  }
  leave(number, Phase::kAsking);
}

void Directory::State::Ranker::ask_itself(const Ranking& ranking, Told& told) const {
  std::vector<Wanted> known;
  std::ranges::copy_if(ranking.wanted, std::back_inserter(known),
                       [](const Wanted& one) { return one.code == Code::kOk; });
  Question asked{.body = {}, .count = static_cast<uint32_t>(known.size()), .bytes = 0};
  for (const Wanted& one : known) asked.bytes = sum_or_most(asked.bytes, one.bytes());
  told.member.code = add_answer(told, asked, estimate_of(known));
}

Task<> Directory::State::Ranker::ask_other(uint64_t number, Peer& peer, Told& told) {
  if (peer.session == nullptr || !peer.is_agreed) {
    told.member.code = Code::kUnavailable;
    co_return;
  }
  rpc::Session& session = *peer.session;
  const Use use(state, session);
  size_t next = 0;
  bool is_last = false;
  while (!is_last) {
    const Ranking* const ranking = at(number, Phase::kAsking);
    if (ranking == nullptr) co_return;
    const Question asked = question(*ranking, next, session.payload_bytes_max());
    is_last = next == ranking->wanted.size();
    const runtime::OpResult reply = co_await session.call(
        {.method = static_cast<uint16_t>(Method::kEstimate), .head = asked.body}, ranking->until_ns);
    told.member.code = told_of_member(reply, session.state() == rpc::Session::State::kOpen);
    if (told.member.code != Code::kOk) co_return;
    std::span<const std::byte> bytes = reply.bytes;
    const auto answer = take<wire::EstimateReply>(bytes);
    told.member.code = answer && bytes.empty() ? add_answer(told, asked, *answer) : Code::kMalformed;
    if (told.member.code != Code::kOk) co_return;
  }
}

// As many as fit a message of so many bytes, from number `next` on; of those that no node has, nothing.
Directory::State::Ranker::Question Directory::State::Ranker::question(const Ranking& ranking, size_t& next,
                                                                      size_t room) const {
  Question asked;
  asked.body.resize(sizeof(wire::EstimateRequest));
  for (; next < ranking.wanted.size(); ++next) {
    const Wanted& wanted = ranking.wanted[next];
    if (wanted.code != Code::kOk) continue;
    const size_t bytes = sizeof(wire::WantedObject) + wanted.id.size() + wanted.holders.size();
    if (asked.body.size() + bytes > room) break;
    append_struct(asked.body, wire::WantedObject{.birth = wanted.birth,
                                                 .body_bytes = wanted.parts.body_bytes,
                                                 .metadata_bytes = wanted.parts.metadata_bytes,
                                                 .id_bytes = static_cast<uint16_t>(wanted.id.size()),
                                                 .holders = static_cast<uint8_t>(wanted.holders.size()),
                                                 .reserved = 0});
    const auto id = text_bytes(wanted.id);
    asked.body.insert(asked.body.end(), id.begin(), id.end());
    for (const MemberIndex holder : wanted.holders) asked.body.push_back(std::byte{holder});
    ++asked.count;
    asked.bytes = sum_or_most(asked.bytes, wanted.bytes());
  }
  const wire::EstimateRequest request{
      .list_version = state.list_version, .count = static_cast<uint16_t>(asked.count), .reserved = {}};
  std::memcpy(asked.body.data(), &request, sizeof(request));
  return asked;
}

// kMalformed: no node can say that of what it was asked.
Code Directory::State::Ranker::add_answer(Told& told, const Question& asked,
                                          const wire::EstimateReply& reply) {
  const bool has_time = reply.time_ns != 0 || reply.is_guessed != 0;
  const bool is_sound = has_zeros(reply.reserved) && reply.is_guessed <= 1 && reply.missing <= asked.count &&
                        reply.unreachable <= reply.missing && reply.missing_bytes <= asked.bytes &&
                        (reply.missing > 0 || reply.missing_bytes == 0) &&
                        (reply.missing > reply.unreachable || !has_time);
  if (!is_sound) return Code::kMalformed;
  RankedMember& said = told.member;
  said.time_ns = sum_or_most(said.time_ns, reply.time_ns);
  said.missing_bytes = sum_or_most(said.missing_bytes, reply.missing_bytes);
  said.missing += reply.missing;
  said.unreachable += reply.unreachable;
  said.is_guessed = said.is_guessed || reply.is_guessed != 0;
  told.room_bytes = reply.room_bytes;
  told.wanted_bytes = sum_or_most(told.wanted_bytes, asked.bytes);
  return Code::kOk;
}

// --- At the member that is asked ---

void Directory::State::Ranker::estimate(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::EstimateRequest>(body);
  if (!request || !has_zeros(request->reserved)) return state.answer(from, Code::kMalformed);
  if (request->count > wire::kRankIdsMax) return state.answer(from, Code::kInvalidArgument);
  std::vector<Wanted> wanted(request->count);
  for (Wanted& one : wanted) {
    const Code code = take_wanted(body, one);
    if (code != Code::kOk) return state.answer(from, code);
  }
  if (!body.empty()) return state.answer(from, Code::kMalformed);
  state.answer(from, estimate_of(wanted));
}

Code Directory::State::Ranker::take_wanted(std::span<const std::byte>& body, Wanted& wanted) const {
  const auto entry = take<wire::WantedObject>(body);
  if (!entry || entry->reserved != 0 || entry->birth == 0 || entry->metadata_bytes > kMetadataBytesMax) {
    return Code::kMalformed;
  }
  TakenId id;
  const Code code = id.take(body, entry->id_bytes);
  if (code != Code::kOk) return code;
  if (entry->holders > body.size()) return Code::kMalformed;
  if (entry->holders > wire::WantedObject::kHoldersMax) return Code::kInvalidArgument;
  wanted.id = id.text();
  wanted.birth = entry->birth;
  wanted.parts = {
      .body_bytes = entry->body_bytes, .metadata_bytes = entry->metadata_bytes, .id_bytes = entry->id_bytes};
  std::array<std::byte, wire::WantedObject::kHoldersMax> holders{};
  copy_possibly_torn(holders.data(), body.data(), entry->holders);
  body = body.subspan(entry->holders);
  for (size_t i = 0; i < entry->holders; ++i) {
    const auto holder = static_cast<MemberIndex>(holders[i]);
    if (holder >= state.by_index.size()) return Code::kInvalidArgument;
    wanted.holders.push_back(holder);
  }
  return Code::kOk;
}

wire::EstimateReply Directory::State::Ranker::estimate_of(std::span<const Wanted> wanted) const {
  BringEstimate estimate;
  std::vector<BringEstimate::Holder> holders;
  for (const Wanted& one : wanted) {
    const Result<Object> object = state.parts.store.find(text_bytes(one.id));
    if (object && object->birth == one.birth) continue;
    holders.clear();
    for (const MemberIndex member : one.holders) {
      const Peer& peer = *state.by_index[member];
      if (state.is_self(member) || peer.session == nullptr || !peer.is_agreed) continue;
      holders.push_back({.member = member,
                         .path = {.measured = &peer.path,
                                  .hello_ns = peer.hello_ns,
                                  .message_bytes = peer.session->payload_bytes_max()}});
    }
    estimate.add(one.bytes(), holders);
  }
  return {.time_ns = estimate.time_ns(),
          .missing_bytes = estimate.missing_bytes(),
          .room_bytes = state.parts.store.accounts().limit,
          .missing = estimate.missing(),
          .unreachable = estimate.unreachable(),
          .is_guessed = static_cast<uint8_t>(estimate.is_guessed() ? 1 : 0),
          .reserved = {}};
}

}  // namespace refract::object
