// SPDX-License-Identifier: Apache-2.0
// What this member says to the homes of its ids: a stream to each, which begins with a report.
#include <algorithm>
#include <cstring>

#include "refract/kv/layout/wire.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/directory/directory_outside.h"
#include "refract/object/directory/directory_use.h"

namespace refract::object {

using kv::wire::take;
using runtime::Task;
using wire::ChangeKind;
using wire::DirectoryMethod;

namespace {

constexpr uint64_t kCallTimeout_ns = 5 * kSecond_ns;
// The lists differ, or the other one is busy with its own start.
constexpr uint64_t kHelloPause_ns = 200 * kMillisecond_ns;

size_t bytes_in_page(std::string_view id) noexcept {
  return sizeof(wire::Change) + id.size();
}

}  // namespace

void Directory::State::start_peer(Peer& peer) {
  ++peer.run;
  stop_stream(peer);
  peer.orders.clear();
  if (peer.index) end_placings_of(*peer.index);
  peer.changed.raise();
  peer.ordered.raise();
  if (!peer.is_reached() || !peer.index || is_self(*peer.index)) return;
  start(run_stream(peer, peer.run));
  if (!peer.is_outside()) start(run_orders(peer, peer.run));
}

// What was not answered stands in the next report, or is claimed again.
void Directory::State::stop_stream(Peer& peer) {
  if (peer.collects) peer.ended_ns = parts.shard.refresh_now();
  peer.is_agreed = peer.collects = peer.has_reported = false;
  peer.changes.clear();
  peer.sending.clear();
  if (peer.index) end_releases(*peer.index);
  for (auto& [ticket, claim] : claims) {
    if (peer.index && home_of(claim.id) == *peer.index) claim.is_asked = false;
  }
}

// Without a session the peer is the home outside, here and below.
Task<> Directory::State::run_stream(Peer& peer, uint32_t run) {
  rpc::Session* const session = peer.session;
  std::optional<Use> use;
  if (session != nullptr) use.emplace(*this, *session);
  while (is_running(peer, run)) {
    Code code = co_await say_hello(peer, session);
    if (!is_running(peer, run)) co_return;
    if (code == Code::kOk) {
      peer.is_agreed = peer.collects = true;
      ++peer.begun;
      // The home's word on deletes may come now.
      order_drops(peer);
      care_again();
      code = co_await report(peer, session, run);
      if (!is_running(peer, run)) co_return;
      if (code == Code::kOk) {
        peer.has_reported = peer.was_reported_to = true;
        ask_claims_of(peer);
        for (const auto& [id, want] : wants) want->news.raise();
        (void)co_await send_changes(peer, session, run);
        if (!is_running(peer, run)) co_return;
      }
      stop_stream(peer);
    }
    co_await parts.shard.sleep_for(kHelloPause_ns);
  }
}

Task<Code> Directory::State::say_hello(Peer& peer, rpc::Session* session) {
  if (session == nullptr) co_return co_await parts.outside->hello();
  const std::string& name = by_index[self]->name;
  const wire::HelloRequest request{.list_version = list_version,
                                   .list_digest = list_digest,
                                   .identity = {parts.identity[0], parts.identity[1]},
                                   .name_bytes = static_cast<uint16_t>(name.size()),
                                   .reserved = {}};
  const CallFront front({struct_bytes(request), text_bytes(name)});
  const uint64_t began_ns = parts.shard.refresh_now();
  const runtime::OpResult reply = co_await session->call(
      {.method = static_cast<uint16_t>(DirectoryMethod::kHello), .head = front.bytes()},
      began_ns + kCallTimeout_ns);
  if (reply.value == 0) co_return Code::kUnavailable;
  if (reply.code != Code::kOk) co_return reply.code;
  std::span<const std::byte> bytes = reply.bytes;
  const auto said = take<wire::HelloReply>(bytes);
  if (!said || said->stream == 0) co_return Code::kMalformed;
  // Another node answers at that address.
  if (bytes.size() != said->name_bytes || text_of(bytes) != peer.name) co_return Code::kNotFound;
  peer.stream = said->stream;
  peer.hello_ns = std::max<uint64_t>(parts.shard.refresh_now() - began_ns, 1);
  co_return Code::kOk;
}

size_t Directory::State::page_room(const rpc::Session* session) const noexcept {
  if (session == nullptr) return parts.outside->page_bytes_max();
  return std::min<size_t>(session->payload_bytes_max(), 64 * kKiB) - sizeof(wire::ChangesRequest);
}

// --- The report ---

uint64_t Directory::State::gather(MemberIndex home, uint64_t cursor, std::vector<Change>& changes) const {
  return parts.store.list(cursor, [&](const ObjectStore::Listed& listed) {
    const std::string_view id = text_of(listed.id);
    if (!listed.is_sealed || home_of(id) != home) return;
    changes.push_back({.kind = ChangeKind::kHolds,
                       .id = std::string(id),
                       .birth = listed.object.birth,
                       .parts = listed.object.parts,
                       .copies = listed.object.copies});
  });
}

void Directory::State::gather_others(MemberIndex home, std::vector<Change>& changes) const {
  for (const auto& [id, birth] : parts.store.tombstones()) {
    if (home_of(id) == home) changes.push_back(tombstone_of(id, birth));
  }
  for (const auto& [named, unused] : granted) {
    if (home_of(named.first) != home) continue;
    changes.push_back({.kind = ChangeKind::kClaims, .id = named.first, .birth = named.second, .parts = {}});
  }
  for (const auto& [id, pull] : pulls) {
    if (pull.birth == 0 || home_of(id) != home) continue;
    changes.push_back({.kind = ChangeKind::kComing, .id = id, .birth = pull.birth, .parts = pull.parts});
  }
}

Directory::State::Change Directory::State::tombstone_of(const std::string& id, uint64_t birth) const {
  const Result<Object> object = parts.store.find(text_bytes(id));
  const bool is_there = object && object->birth == birth;
  return {.kind = ChangeKind::kTombstone,
          .id = id,
          .birth = birth,
          .parts = {.body_bytes = is_there ? uint64_t{1} : uint64_t{0}}};
}

void Directory::State::say_tombstone(const std::string& id, uint64_t birth) {
  say(tombstone_of(id, birth));
}

// What happens meanwhile is said before its end.
Task<Code> Directory::State::report(Peer& peer, rpc::Session* session, uint32_t run) {
  Page page{.changes = {}, .is_report = true, .is_last = false};
  const size_t room = page_room(session);
  std::vector<Change> gathered;
  gather_others(*peer.index, gathered);
  uint64_t cursor = 0;
  size_t next = 0;
  bool is_walked = false;
  while (!page.is_last) {
    page.changes.clear();
    size_t bytes = 0;
    while (true) {
      if (next == gathered.size()) {
        gathered.clear();
        next = 0;
        if (is_walked && peer.changes.empty()) break;
        if (is_walked) {
          // Look-ups wait for what stands among the changes, or in the page.
          if (bytes + bytes_in_page(peer.changes.front().id) > room) break;
          gathered.push_back(std::move(peer.changes.front()));
          peer.changes.pop_front();
          continue;
        }
        cursor = gather(*peer.index, cursor, gathered);
        is_walked = cursor == 0;
        continue;
      }
      bytes += bytes_in_page(gathered[next].id);
      if (bytes > room) break;
      page.changes.push_back(std::move(gathered[next++]));
    }
    page.is_last = is_walked && next == gathered.size() && peer.changes.empty();
    const Code code = co_await send_page(peer, session, run, page);
    if (code != Code::kOk || !is_running(peer, run)) co_return code;
  }
  co_return Code::kOk;
}

void Directory::State::report_to_self() {
  table.open_stream(self, parts.identity);
  std::vector<Change> changes;
  gather_others(self, changes);
  uint64_t cursor = 0;
  do {
    cursor = gather(self, cursor, changes);
  } while (cursor != 0);
  for (const Change& change : changes) (void)apply(self, change, true);
  table.end_report(self);
  bury_losers();
  care_again();
}

// --- Changes ---

Task<Code> Directory::State::send_changes(Peer& peer, rpc::Session* session, uint32_t run) {
  Page page;
  const size_t room = page_room(session);
  while (is_running(peer, run)) {
    if (peer.changes.empty()) {
      co_await peer.changed.wait_until(kForever_ns);
      continue;
    }
    page.changes.clear();
    size_t bytes = 0;
    while (!peer.changes.empty()) {
      bytes += bytes_in_page(peer.changes.front().id);
      if (bytes > room) break;
      page.changes.push_back(std::move(peer.changes.front()));
      peer.changes.pop_front();
    }
    const Code code = co_await send_page(peer, session, run, page);
    if (code != Code::kOk) co_return code;
  }
  co_return Code::kUnavailable;
}

Task<Code> Directory::State::send_page(Peer& peer, rpc::Session* session, uint32_t run, const Page& page) {
  if (session == nullptr) co_return co_await outside->send_page(run, page);
  const wire::ChangesRequest request{.list_version = list_version,
                                     .stream = peer.stream,
                                     .count = static_cast<uint32_t>(page.changes.size()),
                                     .is_report = static_cast<uint8_t>(page.is_report ? 1 : 0),
                                     .is_last = static_cast<uint8_t>(page.is_last ? 1 : 0),
                                     .reserved = {}};
  std::vector<std::byte> body;
  for (const Change& change : page.changes) {
    const wire::Change entry{.birth = change.birth,
                             .body_bytes = change.parts.body_bytes,
                             .metadata_bytes = change.parts.metadata_bytes,
                             .copies = change.copies.bits,
                             .id_bytes = static_cast<uint16_t>(change.id.size()),
                             .kind = change.kind,
                             .reserved = {}};
    const auto head = struct_bytes(entry);
    body.insert(body.end(), head.begin(), head.end());
    const auto id = text_bytes(change.id);
    body.insert(body.end(), id.begin(), id.end());
  }
  peer.sending = page.changes;
  const runtime::OpResult reply =
      co_await session->call({.method = static_cast<uint16_t>(DirectoryMethod::kChanges),
                              .head = struct_bytes(request),
                              .tail = body},
                             parts.shard.now_ns() + kCallTimeout_ns);
  if (is_running(peer, run)) peer.sending.clear();
  if (reply.value == 0) co_return Code::kUnavailable;
  if (reply.code != Code::kOk) co_return reply.code;
  if (reply.bytes.size() != page.changes.size() * sizeof(uint16_t)) co_return Code::kMalformed;
  // Said under another list, or in an earlier stream: it counts no more.
  if (!is_running(peer, run)) co_return Code::kUnavailable;
  std::vector<uint16_t> codes(page.changes.size());
  if (!codes.empty()) std::memcpy(codes.data(), reply.bytes.data(), reply.bytes.size());
  for (size_t i = 0; i < codes.size(); ++i) take_code(page.changes[i], code_from_wire(codes[i]));
  co_return Code::kOk;
}

void Directory::State::take_code(const Change& change, Code code) {
  // What another birth has the better right to, the home buries: it is dropped by its order.
  if (change.kind == ChangeKind::kReleases) return released(change, code);
  if (change.ticket != 0) settle_claim(change.ticket, code);
}

void Directory::State::say(Change change) {
  if (list_version == 0) return;
  const MemberIndex home = home_of(change.id);
  if (is_self(home)) {
    take_code(change, apply(self, change, false));
    return;
  }
  Peer& peer = *peer_at(home);
  // Without a stream, the next report has it.
  if (!peer.collects) return;
  peer.changes.push_back(std::move(change));
  peer.changed.raise();
}

// By a change that the store may be in the middle of telling.
Task<> Directory::State::bury_later(std::string id, uint64_t birth) {
  co_await parts.shard.sleep_for(0);
  ++counts.conflicts;
  (void)bury(id, birth);
}

// At the home.
Code Directory::State::apply(MemberIndex member, const Change& change, bool is_report) {
  if (change.kind == ChangeKind::kReleases) return release_at_home(member, change);
  const Code code = apply_alone(member, change, is_report);
  // Behind a report, all are looked at.
  const bool is_about_copies = change.kind == ChangeKind::kHolds || change.kind == ChangeKind::kGone;
  if (is_about_copies && !is_report) {
    placed(member, Named(change.id, change.birth), change.kind == ChangeKind::kHolds);
    place(change.id, change.birth);
  }
  return code;
}

Code Directory::State::apply_alone(MemberIndex member, const Change& change, bool is_report) {
  switch (change.kind) {
    case ChangeKind::kHolds: {
      const Code code = table.holds(member, change.id, change.birth, change.parts, change.copies);
      if (code == Code::kExists) start(bury_later(change.id, change.birth));
      if (code != Code::kCancelled) note_published(change.id, change.birth);
      return code == Code::kExists ? Code::kOk : code;
    }
    case ChangeKind::kGone:
      table.gone(member, change.id, change.birth);
      return Code::kOk;
    case ChangeKind::kClaims: {
      const Code code = table.claims(member, change.id, change.birth, is_report);
      // A report's: it was granted by a home before this one.
      if (is_report && code == Code::kExists) start(bury_later(change.id, change.birth));
      return code;
    }
    case ChangeKind::kUnclaims:
      table.unclaims(member, change.id, change.birth);
      return Code::kOk;
    case ChangeKind::kTombstone:
      // Behind the report that named it: all have acknowledged, and the word to forget it was lost.
      if (!is_report && !table.is_buried(change.id, change.birth)) {
        order(*peer_at(member), Method::kForget, change.id, change.birth);
        return Code::kOk;
      }
      if (!table.is_buried(change.id, change.birth)) (void)bury(change.id, change.birth);
      if (change.parts.body_bytes == 0) acknowledged(member, change.id, change.birth, 0);
      return Code::kOk;
    case ChangeKind::kComing:
      table.comes(member, change.id, change.birth, change.parts);
      return Code::kOk;
    case ChangeKind::kDropped:
      // All had acknowledged, and it was told twice.
      if (!table.is_buried(change.id, change.birth)) {
        order(*peer_at(member), Method::kForget, change.id, change.birth);
      }
      acknowledged(member, change.id, change.birth, change.parts.body_bytes);
      return Code::kOk;
    case ChangeKind::kReleases:
      break;
  }
  return Code::kUnsupported;
}

}  // namespace refract::object
