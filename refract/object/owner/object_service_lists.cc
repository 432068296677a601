// SPDX-License-Identifier: Apache-2.0
// What there is, and what is to go.
#include <algorithm>
#include <utility>

#include "refract/object/owner/object_service_state.h"
#include "refract/object/owner/reply_page.h"

namespace refract::object {

using kv::wire::take;

namespace {

constexpr int kStepsPerPage = 256;
// Answers of one moment may come from the same look at all objects.
constexpr uint64_t kLookEvery_ns = 10 * kMillisecond_ns;
// No cursor of a table's begins so: they begin with the number of a shard.
constexpr uint64_t kRestCursors = uint64_t{0x3ff} << 54;

bool is_rest(uint64_t cursor) noexcept {
  return (cursor & kRestCursors) == kRestCursors;
}

uint32_t holders_in(const PinSet& pins, Offset object) noexcept {
  return static_cast<uint32_t>(std::ranges::equal_range(pins.offsets(), object.value).size());
}

}  // namespace

// What stands from the cursor on, up to where it is then.
std::vector<Row> ObjectService::State::list_step(uint64_t& cursor) {
  std::vector<Row> rows;
  cursor = parts.store.list(cursor, [&rows](const ObjectStore::Listed& listed) {
    const Object& object = listed.object;
    rows.push_back({.object = {.birth = object.birth,
                               .body_bytes = object.parts.body_bytes,
                               .metadata_bytes = object.parts.metadata_bytes,
                               .flags = object.is_kept ? ObjectRecord::kKept : 0,
                               .holders = 0,
                               .id_bytes = static_cast<uint16_t>(listed.id.size()),
                               .is_sealed = static_cast<uint8_t>(listed.is_sealed ? 1 : 0),
                               .reserved = 0},
                    .at = object.object,
                    .id = std::string(text_of(listed.id))});
  });
  return rows;
}

void ObjectService::State::list(const rpc::Responder& from, Session& session,
                                std::span<const std::byte> body) {
  const auto request = take<wire::ListRequest>(body);
  if (!request || !body.empty()) return answer(from, Code::kMalformed);
  ReplyPage page(session.payload_bytes_max - sizeof(wire::ListReply));
  const PinSet& pins = parts.heap.look_at_pins();
  uint64_t begin = request->cursor;
  Rest step = {.cursor = 0, .next = begin, .rows = {}};
  if (is_rest(begin)) {
    if (session.rest.cursor != begin) return answer(from, Code::kInvalidated);
    step = std::exchange(session.rest, {});
  } else {
    step.rows = list_step(step.next);
  }
  for (int steps = 1;; ++steps) {
    const ReplyPage::Mark mark = page.mark();
    size_t added = 0;
    for (Row& row : step.rows) {
      row.object.holders = holders_in(pins, row.at);
      if (!page.add(row.object, row.id)) break;
      ++added;
    }
    if (added < step.rows.size() && steps > 1) {
      // The next page begins with this step.
      page.back_to(mark);
      step.next = begin;
      break;
    }
    if (added < step.rows.size()) {
      step.rows.erase(step.rows.begin(), step.rows.begin() + static_cast<ptrdiff_t>(added));
      step.cursor = kRestCursors | (parts.heap.next_stamp() & ~kRestCursors);
      const uint64_t next = step.cursor;
      session.rest = std::move(step);
      return answer(from, wire::ListReply{.next = next, .count = page.count(), .reserved = 0}, page.bytes());
    }
    if (step.next == 0 || steps == kStepsPerPage) break;
    begin = step.next;
    step.rows = list_step(step.next);
  }
  answer(from, wire::ListReply{.next = step.next, .count = page.count(), .reserved = 0}, page.bytes());
}

void ObjectService::State::erase(const rpc::Responder& from, std::span<const std::byte> body) {
  wire::IdRequest request{};
  TakenId id;
  Code code = take_id(body, request, id);
  if (code == Code::kOk && request.flag != 0) code = Code::kMalformed;
  if (code != Code::kOk) return answer(from, code);
  const Result<uint64_t> holders = parts.store.erase(id.bytes(), request.birth);
  if (holders) return answer(from, wire::DeleteReply{*holders});
  code = holders.error().code;
  if (code == Code::kNoSpace && room_may_come(0)) code = Code::kOverloaded;
  answer(from, code);
}

void ObjectService::State::keep(const rpc::Responder& from, std::span<const std::byte> body) {
  wire::IdRequest request{};
  TakenId id;
  Code code = take_id(body, request, id);
  if (code != Code::kOk) return answer(from, code);
  if (request.birth != 0) {
    const Result<Object> object = parts.store.find(id.bytes());
    if (!object) return answer(from, object.error().code);
    if (object->birth != request.birth) return answer(from, Code::kVersionMismatch);
  }
  code = parts.store.keep(id.bytes(), request.flag != 0);
  if (code == Code::kNoSpace && room_may_come(0)) code = Code::kOverloaded;
  room_may_have_come = room_may_have_come || (code == Code::kOk && request.flag == 0);
  answer(from, code);
}

void ObjectService::State::evict(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::EvictRequest>(body);
  if (!request || !body.empty()) return answer(from, Code::kMalformed);
  evicting.push_back({.from = from, .bytes = request->bytes});
}

// A step a turn, so that no call waits for more than that; the calls take turns.
void ObjectService::State::evict_some() {
  if (evicting.empty()) return;
  Evicting one = evicting.front();
  evicting.pop_front();
  const uint64_t bytes = one.done < one.bytes ? parts.store.evict(one.bytes - one.done) : 0;
  one.done += bytes;
  if (bytes > 0 && one.done < one.bytes && parts.store.shortage().is_under_way) {
    evicting.push_back(one);
  } else {
    answer(one.from, wire::EvictReply{one.done});
  }
}

const HeldBytes& ObjectService::State::held() {
  const uint64_t now_ns = parts.shard.now_ns();
  if (now_ns >= held_until_ns) {
    held_bytes = parts.store.held();
    held_until_ns = moment_after(now_ns, kLookEvery_ns);
  }
  return held_bytes;
}

wire::StatReply ObjectService::State::stat() {
  const HeldBytes& bytes = held();
  const ObjectAccounts& accounts = parts.store.accounts();
  return {.limit = accounts.limit,
          .used = accounts.used(),
          .sealed_bytes = accounts.sealed_bytes,
          .creation_bytes = accounts.creation_bytes,
          .departed_bytes = accounts.departed_bytes,
          .held_bytes = bytes.sealed_bytes,
          .kept_bytes = accounts.kept_bytes,
          .objects = accounts.objects,
          .creations = accounts.creations,
          .departed = accounts.departed,
          .held = bytes.objects,
          .sealed_ever = accounts.sealed_ever,
          .deleted_ever = accounts.deleted_ever,
          .evicted_ever = accounts.evicted_ever,
          .evicted_bytes_ever = accounts.evicted_bytes_ever,
          .aborted_ever = accounts.aborted_ever,
          .shares = parts.elsewhere != nullptr ? uint64_t{1} : uint64_t{0}};
}

}  // namespace refract::object
