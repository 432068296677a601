// SPDX-License-Identifier: Apache-2.0
// What the home of an id does for members, and what a member tells those that ask all.
#include <algorithm>

#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_visible.h"
#include "refract/object/directory/directory_state.h"

namespace refract::object {

using kv::wire::take;
using wire::ChangeKind;

namespace {

constexpr uint64_t kTellsFor_ns = 10 * kSecond_ns;
constexpr size_t kWatchedMax = 65'536;  // Ids; beyond it members ask again by themselves.

template <typename Reserved>
bool is_zero(const Reserved& reserved) noexcept {
  return std::ranges::all_of(reserved, [](uint8_t byte) { return byte == 0; });
}

}  // namespace

// --- Streams ---

Code Directory::State::take_change(std::span<const std::byte>& body, Change& change) {
  const auto entry = take<wire::Change>(body);
  if (!entry || !is_zero(entry->reserved)) return Code::kMalformed;
  if (entry->birth == 0 && entry->kind != ChangeKind::kGone) return Code::kMalformed;
  const auto kind = static_cast<uint8_t>(entry->kind);
  if (kind < static_cast<uint8_t>(ChangeKind::kHolds) || kind > static_cast<uint8_t>(ChangeKind::kReleases) ||
      entry->metadata_bytes > kMetadataBytesMax) {
    return Code::kMalformed;
  }
  const CopiesWord copies{entry->copies};
  if (!copies.is_sound() || (copies.bits != 0 && entry->kind != ChangeKind::kHolds)) return Code::kMalformed;
  TakenId id;
  const Code code = id.take(body, entry->id_bytes);
  if (code != Code::kOk) return code;
  change = {.kind = entry->kind,
            .id = std::string(id.text()),
            .birth = entry->birth,
            .parts = {.body_bytes = entry->body_bytes,
                      .metadata_bytes = entry->metadata_bytes,
                      .id_bytes = entry->id_bytes},
            .copies = copies};
  return Code::kOk;
}

void Directory::State::changes(const rpc::Responder& from, Peer& peer, std::span<const std::byte> body) {
  const auto request = take<wire::ChangesRequest>(body);
  if (!request || !is_zero(request->reserved) || request->is_report > 1 ||
      request->is_last > request->is_report || request->count > body.size()) {
    return answer(from, Code::kMalformed);
  }
  const Caller& caller = callers.at(from.session.bits);
  if (request->stream != caller.stream) return answer(from, Code::kVersionMismatch);
  std::vector<Change> page(request->count);
  for (Change& change : page) {
    const Code code = take_change(body, change);
    if (code != Code::kOk) return answer(from, code);
    // By the same list it is this node's.
    if (!is_self(home_of(change.id))) return answer(from, Code::kInvalidArgument);
  }
  if (!body.empty()) return answer(from, Code::kMalformed);
  if (peer.caller != from.session || peer.caller_stream != caller.stream) {
    // The first page of a stream; or one of a stream that another has ended.
    if (request->is_report == 0 || caller.has_begun) return answer(from, Code::kVersionMismatch);
    begin_stream(peer, from.session);
  }
  std::vector<uint16_t> codes;
  codes.reserve(page.size());
  for (const Change& change : page) {
    codes.push_back(static_cast<uint16_t>(apply(*peer.index, change, request->is_report != 0)));
  }
  answer(from, Code::kOk, std::as_bytes(std::span(codes)));
  if (request->is_last != 0) end_report(peer);
}

void Directory::State::begin_stream(Peer& peer, rpc::SessionId session) {
  Caller& caller = callers.at(session.bits);
  caller.has_begun = true;
  peer.caller = session;
  peer.caller_stream = caller.stream;
  peer.identity = caller.identity;
  peer.begun_ns = parts.shard.now_ns();
  table.open_stream(*peer.index, peer.identity);
}

void Directory::State::end_report(Peer& peer) {
  table.end_report(*peer.index);
  order_drops(peer);
  bury_losers();
  care_again();
}

void Directory::State::bury_losers() {
  for (const auto& [id, birth] : table.losers()) {
    ++counts.conflicts;
    (void)bury(id, birth);
  }
}

// --- Look-ups ---

void Directory::State::look_up(const rpc::Responder& from, const Peer& peer,
                               std::span<const std::byte> body) {
  const auto request = take<wire::LookUpRequest>(body);
  if (!request || !is_zero(request->reserved) || request->tells_later > 1 || request->pulls > 1) {
    return answer(from, Code::kMalformed);
  }
  TakenId id;
  const Code code = id.take_last(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  if (!is_self(home_of(id.text()))) return answer(from, Code::kInvalidArgument);
  const HomeTable::Found found = table.look_up(id.text());
  std::vector<uint8_t> members(found.holders.begin(), found.holders.end());
  for (size_t i = 0; i < by_index.size(); ++i) {
    if (found.doubtful[i]) members.push_back(static_cast<uint8_t>(i));
  }
  const wire::LookUpReply reply{.birth = found.birth,
                                .body_bytes = found.parts.body_bytes,
                                .metadata_bytes = found.parts.metadata_bytes,
                                .holders = static_cast<uint8_t>(found.holders.size()),
                                .doubtful = static_cast<uint8_t>(found.doubtful.count()),
                                .wanted = found.wish.wanted(),
                                .counted = found.counted};
  if (request->pulls != 0 && (found.birth != 0 || found.doubtful.any())) {
    table.comes(*peer.index, id.text(), found.birth, found.parts);
  }
  if (request->tells_later != 0 && (watchers.size() < kWatchedMax || drop_old_watchers())) {
    watchers[std::string(id.text())][*peer.index] = moment_after(parts.shard.now_ns(), kTellsFor_ns);
  }
  answer(from, reply, std::as_bytes(std::span(members)));
}

// False: too many are waited for.
bool Directory::State::drop_old_watchers() {
  const uint64_t now_ns = parts.shard.now_ns();
  std::erase_if(watchers, [now_ns](const auto& row) {
    return std::ranges::all_of(row.second, [now_ns](const auto& member) { return member.second < now_ns; });
  });
  return watchers.size() < kWatchedMax;
}

void Directory::State::note_published(std::string_view id, uint64_t birth) {
  raise_want(id);
  const auto at = watchers.find(std::string(id));
  if (at == watchers.end()) return;
  for (const auto& [member, until_ns] : at->second) {
    if (until_ns >= parts.shard.now_ns()) order(*peer_at(member), Method::kAppeared, id, birth);
  }
  watchers.erase(at);
}

void Directory::State::ask(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::AskRequest>(body);
  if (!request || !is_zero(request->reserved)) return answer(from, Code::kMalformed);
  TakenId id;
  const Code code = id.take_last(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  wire::AskReply reply{};
  if (const Result<Object> object = parts.store.find(id.bytes())) {
    reply.birth = object->birth;
    reply.body_bytes = object->parts.body_bytes;
    reply.metadata_bytes = object->parts.metadata_bytes;
  }
  const auto to = passed.find(std::string(id.text()));
  const std::string_view name = to == passed.end() ? std::string_view() : std::string_view(to->second.to);
  const bool is_open = pulls.contains(std::string(id.text())) || has_unsaid(id.text()) ||
                       parts.shard.now_ns() < passed_lost_until_ns;
  reply.is_open = is_open ? 1 : 0;
  reply.name_bytes = static_cast<uint16_t>(name.size());
  std::string tail(name);
  const ObjectStore::Tombstones& tombstones = parts.store.tombstones();
  for (auto tomb = tombstones.lower_bound({std::string(id.text()), 0});
       tomb != tombstones.end() && tomb->first == id.text() && reply.tombstones < UINT8_MAX; ++tomb) {
    ++reply.tombstones;
    tail.append(reinterpret_cast<const char*>(&tomb->second), sizeof(tomb->second));
  }
  answer(from, reply, text_bytes(tail));
}

}  // namespace refract::object
