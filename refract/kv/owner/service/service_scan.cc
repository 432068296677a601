// SPDX-License-Identifier: Apache-2.0
// Pages of keys for callers that cannot read the table by themselves.
#include <optional>
#include <utility>

#include "refract/base/units.h"
#include "refract/kv/direct/direct_reader.h"
#include "refract/kv/direct/mapped_memory.h"
#include "refract/kv/owner/parts/parts.h"
#include "refract/kv/owner/service/service.h"

namespace refract::kv {
namespace {

// A page ends here at the latest, whatever was asked for: others want to be served too.
constexpr size_t kPageBytesMin = 64 * kKiB;
constexpr uint64_t kPageLinesMax = 1024;

void append_key(std::vector<std::byte>& page, std::span<const std::byte> key, uint64_t version,
                uint64_t value_bytes) {
  const wire::ScanEntry entry{.version = version,
                              .value_bytes = static_cast<uint32_t>(value_bytes),
                              .key_bytes = static_cast<uint16_t>(key.size()),
                              .reserved = 0};
  const auto bytes = std::as_bytes(std::span(&entry, 1));
  page.insert(page.end(), bytes.begin(), bytes.end());
  page.insert(page.end(), key.begin(), key.end());
}

// A crowded bucket's next piece; the cursor moves behind it. Nothing: the bucket is not crowded.
template <typename Visit>
std::optional<uint64_t> scan_piece(const Table& table, uint64_t& cursor, Visit& visit) {
  const ScanStep step = scan_step(cursor, table.stats().buckets);
  const Crowd* const crowd = table.crowd_of(step.bucket);
  if (crowd == nullptr) return std::nullopt;
  const Crowds& crowds = *table.crowds();
  // Of a process before this one, perhaps: the order of lines may have been another.
  const uint64_t piece = crowds.piece_of(step.bucket, cursor & kCursorPieceMask).value_or(0);
  const bool is_over = (piece + 1) * kLinesPerPiece >= crowd->lines().size();
  Table::Hand hand{.bucket = step.bucket, .line = piece * kLinesPerPiece};
  Table::SlotRoom room;
  for (const Table::Standing& standing : table.slots_at(hand, room)) {
    if (const auto entry = table.entry_in(standing.slot))
      visit(entry->key, entry->version, entry->value_bytes);
  }
  cursor = is_over ? step.next : (cursor & ~kCursorPieceMask) | crowds.piece_bits(step.bucket, piece + 1);
  return room.lines;
}

}  // namespace

void TableService::scan(const rpc::Responder& to, Open& session, std::span<const std::byte> body) {
  const auto request = wire::take<wire::ScanRequest>(body);
  if (!request || !body.empty()) return answer(to, Code::kMalformed);
  if (scanning_.empty() && !has_scanned_) {
    has_scanned_ = true;
    return scan_page(to, session, *request);
  }
  if (session.scans.empty()) scanning_.push_back(to.session);
  session.scans.push_back({.from = to, .request = *request});
  ++waiting_scans_;
  if (scanner_.valid() && !scanner_.done()) return;
  scanner_ = work_on_scans();
  scanner_.start();
}

runtime::Task<> TableService::work_on_scans() {
  while (!scanning_.empty()) {
    co_await parts_.shard.sleep_for(0);
    const rpc::SessionId session = scanning_.front();
    scanning_.pop_front();
    Open* open = find(session);
    if (open == nullptr) continue;
    const writes::PendingScan pending = open->scans.front();
    open->scans.pop_front();
    --waiting_scans_;
    if (!open->scans.empty()) scanning_.push_back(session);
    scan_page(pending.from, *open, pending.request);
  }
}

void TableService::scan_page(const rpc::Responder& to, Open& session, const wire::ScanRequest& request) {
  // The owner reads as a remote reader does; no other thread interferes, so nothing is ever repeated.
  MappedMemory memory(parts_.writer.base(), parts_.heap.end(), nullptr);
  if (parts_.table.parts() != nullptr) memory.reach(parts_.table.parts());
  DirectReader<MappedMemory> reader(memory, parts_.shard.clock());
  std::vector<std::byte> page;
  wire::ScanReply reply{.next = request.cursor, .page_bytes = 0, .view = 0, .keys = 0, .reserved = 0};
  const auto add = [&](std::span<const std::byte> key, uint64_t version, uint64_t value_bytes) {
    append_key(page, key, version, value_bytes);
    ++reply.keys;
  };
  uint64_t lines = 0;
  do {
    if (const auto piece = scan_piece(parts_.table, reply.next, add)) {
      lines += *piece + 1;
      continue;
    }
    const auto step = reader.scan(reply.next, 0, add);
    if (step.code != Code::kOk) return answer(to, step.code);
    reply.next = step.next;
    ++lines;
  } while (reply.next != 0 && reply.keys < request.keys_min && page.size() < kPageBytesMin &&
           lines < kPageLinesMax);

  reply.page_bytes = page.size();
  const size_t room = session.payload_bytes_max - sizeof(reply);
  if (page.size() <= room) return answer(to, reply, page);
  SessionState::View* view = session.state.free_view(page.size(), parts_.shard.now_ns());
  if (view == nullptr) return answer(to, Code::kOverloaded);
  view->id = reply.view = parts_.heap.next_stamp();
  view->page = std::move(page);
  view->shown = view->page;
  answer(to, reply, view->shown.first(room));
}

}  // namespace refract::kv
