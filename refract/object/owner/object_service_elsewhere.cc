// SPDX-License-Identifier: Apache-2.0
// Where nodes share their objects: an id is claimed before it is taken, what is not here is looked for, and
// deletes reach all. elsewhere.h says what is asked and told.
#include <algorithm>
#include <utility>

#include "refract/memory/remote_visible.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/owner/object_service_state.h"

namespace refract::object {

using kv::wire::take;
using wire::Method;

namespace {

constexpr uint64_t kCopiesWaitMax_ns = 60 * kSecond_ns;

}  // namespace

bool ObjectService::State::is_node(const Session& session) const {
  return parts.elsewhere != nullptr && parts.elsewhere->is_node(session.id);
}

std::string_view ObjectService::State::id_of(const Object& object) const noexcept {
  const std::byte* const first = parts.writer.base() + object.object.value + object.parts.id_at();
  return text_of({first, object.parts.id_bytes});
}

bool ObjectService::State::handle_with_others(const rpc::IncomingCall& call, Session& session) {
  const std::span<const std::byte> body = call.payload;
  switch (static_cast<Method>(call.header.method)) {
    case Method::kCreate:
    case Method::kPut:
    case Method::kPutMany:
      return claim_first(call, session);
    case Method::kFetch:
    case Method::kAwait:
      if (parts.elsewhere->may_fetch(session.id)) return false;
      answer(call.from, Code::kAway);
      return true;
    case Method::kDelete:
      erase_everywhere(call.from, body);
      return true;
    case Method::kWhere:
      where(call.from, body);
      return true;
    case Method::kCopies:
      set_copies(call.from, body);
      return true;
    case Method::kRank:
      rank(call.from, body);
      return true;
    case Method::kBroadcast:
      broadcast(call.from, body);
      return true;
    default:
      return false;
  }
}

// --- Claims ---

// False: the call makes no sense, which its own way says.
bool ObjectService::State::read_ids(const rpc::IncomingCall& call, std::vector<ClaimedId>& ids) {
  std::span<const std::byte> body = call.payload;
  TakenId id;
  const auto add = [&](uint64_t claim) {
    ids.push_back({.id = std::string(id.text()), .birth = birth_of(id.bytes(), claim)});
  };
  switch (static_cast<Method>(call.header.method)) {
    case Method::kCreate: {
      const auto request = take<wire::CreateRequest>(body);
      if (!request || id.take_last(body, request->id_bytes) != Code::kOk) return false;
      add(request->claim);
      return true;
    }
    case Method::kPut: {
      const auto request = take<wire::PutRequest>(body);
      if (!request || id.take(body, request->id_bytes) != Code::kOk) return false;
      add(request->claim);
      return true;
    }
    default: {
      PutMany many;
      if (parse_many(body, many) != Code::kOk) return false;
      for (const PutMany::Entry& entry : many.entries) {
        const auto bytes = std::span(many.ids).subspan(entry.id_at, entry.request.id_bytes);
        ids.push_back({.id = std::string(text_of(bytes)), .birth = entry.birth});
      }
      return true;
    }
  }
}

bool ObjectService::State::claim_first(const rpc::IncomingCall& call, Session& session) {
  auto claim = std::make_unique<Claiming>();
  if (!read_ids(call, claim->ids)) return false;
  const uint64_t number = ++last_ticket;
  std::vector<std::pair<uint64_t, size_t>> open;
  for (size_t i = 0; i < claim->ids.size(); ++i) {
    ClaimedId& one = claim->ids[i];
    // What is here is answered here, as the first time.
    const bool is_known =
        parts.store.find(bytes_of(one.id)).has_value() || opens.find(std::string_view(one.id)) != nullptr;
    if (is_known || !parts.elsewhere->needs_claim(one.id)) continue;
    const uint64_t ticket = ++last_ticket;
    const std::optional<Code> code = parts.elsewhere->claim(one.id, one.birth, ticket);
    one.code = told(code.value_or(Code::kOk));
    if (!code) open.emplace_back(ticket, i);
  }
  const bool is_many = static_cast<Method>(call.header.method) == Method::kPutMany;
  if (open.empty()) {
    if (is_many) {
      put_many(call.from, session, call.payload, claim->ids);
      return true;
    }
    if (claim->ids.front().code == Code::kOk) return false;
    answer(call.from, claim->ids.front().code);
    return true;
  }
  claim->from = call.from;
  claim->unanswered = open.size();
  claim->body.resize(call.payload.size());
  copy_possibly_torn(claim->body.data(), call.payload.data(), call.payload.size());
  for (const auto& [ticket, index] : open) tickets.emplace(ticket, std::pair(number, index));
  claiming.emplace(number, std::move(claim));
  return true;
}

void ObjectService::State::claimed(uint64_t ticket, Code code) noexcept {
  const auto at = tickets.find(ticket);
  if (at == tickets.end()) return;
  const auto [number, index] = at->second;
  tickets.erase(at);
  const auto waiting_call = claiming.find(number);
  if (waiting_call == claiming.end()) return;
  Claiming& claim = *waiting_call->second;
  claim.ids[index].code = told(code);
  if (--claim.unanswered > 0) return;
  const std::unique_ptr<Claiming> done = std::move(waiting_call->second);
  claiming.erase(waiting_call);
  make_claimed(*done);
  store_changed();
}

// The call as it came.
void ObjectService::State::make_claimed(Claiming& claim) {
  Session* const session = find(claim.from.session);
  if (session == nullptr) return;
  const auto method = static_cast<Method>(claim.from.method);
  if (method == Method::kPutMany) return put_many(claim.from, *session, claim.body, claim.ids);
  if (claim.ids.front().code != Code::kOk) return answer(claim.from, claim.ids.front().code);
  method == Method::kPut ? put(claim.from, *session, claim.body) : create(claim.from, *session, claim.body);
}

// Others may have the id at once, not only when the directory finds that nothing became of its claim.
void ObjectService::State::unclaim_unmade(std::span<const std::byte> id, uint64_t birth) {
  if (parts.elsewhere == nullptr || is_making(text_of(id), birth) || parts.store.creation(id, birth)) return;
  parts.elsewhere->unclaim(text_of(id), birth);
}

bool ObjectService::State::is_making(std::string_view id, uint64_t birth) const noexcept {
  const OpenCreation* const open = opens.find(id);
  if (open != nullptr && open->birth() == birth) return true;
  const auto makes_it = [birth](const Waiting& one) {
    if (one.many == nullptr) return one.making.birth == birth;
    return std::ranges::any_of(one.many->entries,
                               [birth](const PutMany::Entry& entry) { return entry.birth == birth; });
  };
  if (std::ranges::any_of(waiting, makes_it) || std::ranges::any_of(retried, makes_it)) return true;
  return std::ranges::any_of(claiming, [birth](const auto& one) {
    return std::ranges::any_of(one.second->ids,
                               [birth](const ClaimedId& claimed) { return claimed.birth == birth; });
  });
}

void ObjectService::State::lost(std::string_view id, uint64_t birth) noexcept {
  (void)end_waiting(bytes_of(id), birth);
  OpenCreation* const open = opens.find(id);
  if (open == nullptr || open->birth() != birth) {
    (void)parts.store.end_creation(bytes_of(id), birth);
    return;
  }
  open->is_ending = true;
  refuse_seals(*open, Code::kExists);
  advance(*open);
}

// --- What is not here ---

bool ObjectService::State::is_awaited(std::string_view id) const noexcept {
  return awaiting.contains(std::string(id));
}

void ObjectService::State::absent(std::string_view id, uint64_t arrival, Code code) noexcept {
  const uint64_t now_ns = parts.shard.now_ns();
  std::vector<Awaiting> over;
  const auto [begin, end] = awaiting.equal_range(std::string(id));
  for (auto at = begin; at != end;) {
    if (at->second.arrival > arrival) {
      ++at;
      continue;
    }
    at->second.is_looked_for = false;
    at->second.absent = told(code);
    awaiting_due_ns = std::min(awaiting_due_ns, at->second.until_ns);
    if (at->second.until_ns > now_ns) {
      ++at;
      continue;
    }
    over.push_back(at->second);
    at = awaiting.erase(at);
  }
  for (const Awaiting& one : over) {
    if (Session* session = find(one.from.session)) --session->awaiting;
    answer(one.from, one.absent);
  }
  if (!is_handling) arrange_timer();
}

void ObjectService::State::where(const rpc::Responder& from, std::span<const std::byte> body) {
  wire::IdRequest request{};
  TakenId id;
  Code code = take_id(body, request, id);
  if (code == Code::kOk && (request.flag != 0 || request.birth != 0)) code = Code::kMalformed;
  if (code != Code::kOk) return answer(from, code);
  parts.elsewhere->locate(id.text(),
                          [this, from](const Elsewhere::Located& located) { tell_where(from, located); });
}

void ObjectService::State::tell_where(const rpc::Responder& from, const Elsewhere::Located& located) {
  if (located.code != Code::kOk) return answer(from, told(located.code));
  const wire::WhereReply reply{.birth = located.birth,
                               .body_bytes = located.parts.body_bytes,
                               .metadata_bytes = located.parts.metadata_bytes,
                               .holders = static_cast<uint16_t>(located.holders.size()),
                               .wanted = located.wanted,
                               .counted = located.counted};
  answer(from, reply, names_for(from, located.holders, sizeof(reply)));
}

void ObjectService::State::set_copies(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::CopiesCall>(body);
  if (!request || std::ranges::any_of(request->reserved, [](uint8_t byte) { return byte != 0; })) {
    return answer(from, Code::kMalformed);
  }
  TakenId id;
  Code code = id.take_last(body, request->id_bytes);
  if (code == Code::kOk && request->wanted > kCopiesMax) code = Code::kInvalidArgument;
  if (code != Code::kOk) return answer(from, code);
  // A client that has gone is not waited for without end.
  const uint64_t until_ns =
      moment_after(parts.shard.now_ns(), std::min(request->timeout_ns, kCopiesWaitMax_ns));
  parts.elsewhere->set_copies(
      id.text(), request->birth, request->wanted, until_ns, [this, from](const Elsewhere::KeptCopies& kept) {
        if (kept.code != Code::kOk) return answer(from, told(kept.code));
        answer(from,
               wire::CopiesAnswer{
                   .birth = kept.birth, .wanted = kept.wanted, .counted = kept.counted, .reserved = {}});
      });
}

// Each behind its length.
std::vector<std::byte> ObjectService::State::names_for(const rpc::Responder& to,
                                                       const std::vector<std::string>& names,
                                                       size_t head_bytes) {
  const Session* const session = find(to.session);
  const size_t room = session == nullptr ? 0 : session->payload_bytes_max - head_bytes;
  std::vector<std::byte> bytes;
  for (const std::string& name : names) {
    if (bytes.size() + 1 + name.size() > room) break;
    bytes.push_back(static_cast<std::byte>(name.size()));
    const auto text = bytes_of(std::string_view(name));
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  return bytes;
}

void ObjectService::State::answer_away(const rpc::Responder& to) {
  const std::vector<std::byte> names = names_for(to, parts.elsewhere->away(), 0);
  server->reply(to, Code::kAway, names);
}

// --- Deletes ---

void ObjectService::State::erase_everywhere(const rpc::Responder& from, std::span<const std::byte> body) {
  wire::IdRequest request{};
  TakenId id;
  Code code = take_id(body, request, id);
  if (code == Code::kOk && request.flag != 0) code = Code::kMalformed;
  if (code != Code::kOk) return answer(from, code);
  const uint64_t ticket = ++last_ticket;
  removing.emplace(ticket, from);
  parts.elsewhere->remove(id.text(), request.birth, ticket);
}

void ObjectService::State::removed(uint64_t ticket, const Removed& removed) noexcept {
  const auto at = removing.find(ticket);
  if (at == removing.end()) return;
  const rpc::Responder from = at->second;
  removing.erase(at);
  if (removed.code != Code::kOk) return answer(from, told(removed.code));
  answer(from, wire::DeleteReply{removed.holders},
         names_for(from, removed.missed, sizeof(wire::DeleteReply)));
}

void ObjectService::State::store_changed() noexcept {
  room_may_have_come = true;
  if (!is_handling) settle();
}

}  // namespace refract::object
