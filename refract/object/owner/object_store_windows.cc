// SPDX-License-Identifier: Apache-2.0
// Room in one piece. Where the limit has room and the heap has no run, objects leave a window of chunks, of
// which none has anything in it that must stay. It is withheld until it is empty, through several calls where
// it holds many objects; where a caller does not come back, the next one continues with it.
#include <algorithm>
#include <utility>

#include "refract/base/units.h"
#include "refract/object/owner/object_store_state.h"

namespace refract::object {
namespace {

// So many windows are tried in one call, of those that turn out to hold what must stay.
constexpr int kWindowsMax = 16;

// What buffers of the table take at most.
constexpr uint64_t kRecordBytesMax = kClassBytes[size_class_of(
    kv::Lengths{.value_bytes = sizeof(ObjectRecord), .key_bytes = 1 + kIdBytesMax}.total_bytes())];

uint64_t chunks_for(uint64_t bytes) noexcept {
  return bytes > kSlabBytesMax ? round_up(bytes, kChunkBytes) / kChunkBytes : 1;
}

}  // namespace

void ObjectStore::State::bar(Offset at, uint64_t bytes) {
  const uint64_t last = (at.value + bytes - 1) / kChunkBytes;
  for (uint64_t chunk = at.value / kChunkBytes; chunk <= last && chunk < barred.size(); ++chunk) {
    barred[chunk] = with_records[chunk] = true;
  }
}

void ObjectStore::State::bar_chunks() {
  const uint64_t chunks = parts.heap.end() / kChunkBytes;
  barred.assign(chunks, false);
  with_records.resize(chunks);
  for (uint64_t chunk = 0; chunk < chunks; ++chunk) {
    with_records[chunk] = parts.heap.slab_bytes(chunk) <= kRecordBytesMax;
  }
  for (const Standing standing : {Standing::kCreation, Standing::kKept, Standing::kDeparted}) {
    for (Number number = index.oldest(standing); number != ObjectIndex::kNone; number = index.newer(number)) {
      bar(index.object(number), parts_of(index.object(number)).total_bytes());
    }
  }
  for (const uint64_t pin : parts.heap.look_at_pins().offsets()) {
    if (index.find({pin}) != ObjectIndex::kNone) bar({pin}, parts_of({pin}).total_bytes());
  }
}

bool ObjectStore::State::can_make_room(uint64_t bytes) {
  if (parts.growth != nullptr && parts.growth->can_grow(bytes)) {
    shortage.wanted_bytes = bytes;
    return false;
  }
  const uint64_t chunks = chunks_for(bytes);
  if (window && window->chunks >= chunks) return true;
  end_window();
  bar_chunks();
  return parts.heap.emptiest_run(chunks, 0, &barred).has_value();
}

bool ObjectStore::State::begin_window(uint64_t chunks) {
  const auto emptiest = [&](uint64_t count) {
    const auto without_records = parts.heap.emptiest_run(count, 0, &with_records);
    return without_records ? without_records : parts.heap.emptiest_run(count, 0, &barred);
  };
  while (true) {
    auto run = emptiest(chunks);
    // What is free already is not given out because the table keeps some chunks: one more helps.
    if (run && chunks > 1 && parts.heap.is_free(*run)) run = emptiest(1);
    if (!run) return false;
    parts.heap.withhold(*run);
    window = run;
    if (move_spare()) return true;
    end_window();
    bar(spare, 1);
  }
}

// Inside of the window it could not be given out, and no object could leave.
bool ObjectStore::State::move_spare() {
  const uint64_t chunk = spare.value / kChunkBytes;
  if (!spare || chunk < window->first || chunk >= window->first + window->chunks) return true;
  const uint64_t bytes_free = parts.heap.stats().bytes_free;
  const Offset before = std::exchange(spare, {});
  take_spare();
  if (spare && (parts.heap.stats().bytes_free == bytes_free || can_do_without_chunk())) {
    release_spare(before);
    return true;
  }
  if (spare) release_spare(spare);
  spare = before;
  return false;
}

// Whether what is asked for finds enough free chunks when the window is empty: else one chunk for another
// would be no gain, time and again.
bool ObjectStore::State::can_do_without_chunk() const noexcept {
  uint64_t chunks = parts.heap.stats().bytes_free / kChunkBytes;
  for (uint64_t chunk = window->first; chunk < window->first + window->chunks; ++chunk) {
    chunks += parts.heap.is_free({.first = chunk, .chunks = 1}) ? 0 : 1;
  }
  return chunks >= needed_chunks + parts.heap.reserved_chunks();
}

void ObjectStore::State::end_window() {
  if (window) parts.heap.hand_back(*window);
  window.reset();
}

Code ObjectStore::State::make_room(uint64_t bytes) {
  if (parts.growth != nullptr && parts.growth->can_grow(bytes)) {
    shortage.wanted_bytes = bytes;
    return Code::kNoSpace;
  }
  release_departed();
  note_uses();
  bar_chunks();
  const uint64_t chunks = chunks_for(bytes);
  needed_chunks = chunks;
  can_move_records = true;
  if (window && window->chunks < chunks) end_window();
  for (int tried = 0; tried < kWindowsMax; ++tried) {
    if (!window && !begin_window(chunks)) return Code::kNoSpace;
    const Emptied emptied = empty_window();
    if (emptied == Emptied::kNotYet) {
      shortage.is_under_way = true;
      return Code::kNoSpace;
    }
    end_window();
    if (emptied == Emptied::kYes) {
      // Windows without objects count, too: a step is bounded.
      if (budget > 0) --budget;
      return Code::kOk;
    }
  }
  return Code::kNoSpace;
}

ObjectStore::State::Emptied ObjectStore::State::empty_window() {
  std::vector<Number> leaving;
  while (budget > 0) {
    // Records that were moved leave their old buffers.
    parts.heap.reclaim();
    leaving.clear();
    const size_t before = budget;
    if (!gather_window(leaving)) return Emptied::kBlocked;
    if (budget == 0) break;
    if (leaving.empty() && budget == before) {
      if (parts.heap.is_free(*window)) return Emptied::kYes;
      // A reader holds what is no object any more, or never was one.
      bar({window->first * kChunkBytes}, window->chunks * kChunkBytes);
      return Emptied::kBlocked;
    }
    if (!leaving.empty() && evict(leaving).departed == 0) {
      bar({window->first * kChunkBytes}, window->chunks * kChunkBytes);
      return Emptied::kBlocked;
    }
  }
  return Emptied::kNotYet;
}

// Which objects are to leave, at most as many as may; records are moved at once. False: something must stay.
bool ObjectStore::State::gather_window(std::vector<Number>& leaving) {
  std::vector<Offset> buffers;
  for (uint64_t chunk = window->first; chunk < window->first + window->chunks; ++chunk) {
    if (parts.heap.is_free({.first = chunk, .chunks = 1})) continue;
    buffers.clear();
    parts.heap.occupants(chunk, buffers);
    for (const Offset buffer : buffers) {
      if (leaving.size() >= budget) return true;
      if (empty_buffer(buffer, chunk * kChunkBytes, leaving)) continue;
      bar({chunk * kChunkBytes}, 1);
      return false;
    }
  }
  return true;
}

bool ObjectStore::State::empty_buffer(Offset buffer, uint64_t chunk_at, std::vector<Number>& leaving) {
  Number number = index.find(buffer);
  if (number == ObjectIndex::kNone) {
    // Records are small: none reaches into the next chunk.
    if (buffer.value < chunk_at) return true;
    const auto key = parts.table.key_in(buffer);
    if (!key || parts.table.standing(*key).slot.buffer() != buffer) return false;
    // Where one found no room, none moves to where that one stays, or they would change places for ever.
    can_move_records = can_move_records && move_record(*key);
    if (can_move_records) return true;
    // Its object goes.
    number = find(KeyKind::kSealed, key->bytes.subspan(1));
    if (number == ObjectIndex::kNone || key->bytes[0] != static_cast<std::byte>(KeyKind::kSealed))
      return false;
  } else if (buffer.value + Heap::footprint(parts_of(buffer).total_bytes()) <= chunk_at) {
    return true;
  }
  if (index.standing(number) != Standing::kLoose) return false;
  if (parts.heap.pins_seen().contains(index.object(number))) return false;
  // One that reaches through several chunks is met in each.
  if (leaving.empty() || leaving.back() != number) leaving.push_back(number);
  return true;
}

// The same record in another place: it has a new version, and readers in between look again.
bool ObjectStore::State::move_record(const kv::Table::HashedKey& key) {
  const auto entry = parts.table.find(key);
  if (!entry) return false;
  const uint64_t bytes_free = parts.heap.stats().bytes_free;
  const std::optional<Offset> room = parts.heap.allocate(entry->buffer_bytes);
  const bool is_refused = room && parts.heap.stats().bytes_free < bytes_free && !can_do_without_chunk();
  if (room) parts.heap.release(*room, entry->buffer_bytes);
  if (is_refused) parts.heap.collect_free_chunks();
  if (!room || is_refused) return false;
  const std::vector<std::byte> record(entry->value.begin(), entry->value.end());
  if (!parts.table.put(key, record, {})) return false;
  if (budget > 0) --budget;
  return true;
}

Code ObjectStore::State::put_with_room(const ObjectKey& key, const ObjectRecord& record) {
  const uint64_t bytes =
      kv::Lengths{.value_bytes = sizeof(record), .key_bytes = static_cast<uint16_t>(key.bytes().size())}
          .total_bytes();
  while (true) {
    Code code = put(key, record);
    if (code != Code::kNoSpace) return code;
    code = make_room(bytes);
    if (code != Code::kOk) return code;
  }
}

}  // namespace refract::object
