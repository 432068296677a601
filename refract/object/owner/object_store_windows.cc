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

uint64_t chunks_for(uint64_t bytes) noexcept {
  return bytes > kSlabBytesMax ? round_up(bytes, kChunkBytes) / kChunkBytes : 1;
}

}  // namespace

void ObjectStore::State::bar(Offset at, uint64_t bytes) {
  const uint64_t last = (at.value + bytes - 1) / kChunkBytes;
  for (uint64_t chunk = at.value / kChunkBytes; chunk <= last && chunk < barred.size(); ++chunk) {
    barred[chunk] = true;
  }
}

void ObjectStore::State::bar_chunks() {
  barred.assign(parts.heap.end() / kChunkBytes, false);
  for (const Standing standing : {Standing::kCreation, Standing::kKept, Standing::kDeparted}) {
    for (Number number = index.oldest(standing); number != ObjectIndex::kNone; number = index.newer(number)) {
      bar(index.object(number), parts_of(index.object(number)).total_bytes());
    }
  }
  for (const uint64_t pin : parts.heap.look_at_pins().offsets()) {
    if (index.find({pin}) != ObjectIndex::kNone) bar({pin}, parts_of({pin}).total_bytes());
  }
  if (spare) bar(spare, 1);
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
  auto run = parts.heap.emptiest_run(chunks, 0, &barred);
  // What is free already is not given out because the table keeps some chunks: one more helps.
  if (run && chunks > 1 && parts.heap.is_free(*run)) run = parts.heap.emptiest_run(1, 0, &barred);
  if (!run) return false;
  parts.heap.withhold(*run);
  window = run;
  return true;
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
  while (true) {
    if (budget == 0) return Emptied::kNotYet;
    parts.heap.reclaim();
    leaving.clear();
    if (!gather_window(leaving)) return Emptied::kBlocked;
    if (!leaving.empty()) {
      if (evict(leaving).departed == 0) {
        bar({window->first * kChunkBytes}, window->chunks * kChunkBytes);
        return Emptied::kBlocked;
      }
      continue;
    }
    // Records that were moved leave their old buffers.
    parts.heap.reclaim();
    if (parts.heap.is_free(*window)) return Emptied::kYes;
    // A reader holds what is no object any more, or never was one.
    bar({window->first * kChunkBytes}, window->chunks * kChunkBytes);
    return Emptied::kBlocked;
  }
}

// Which objects are to leave, at most as many as may; records are moved at once. False: something must stay.
bool ObjectStore::State::gather_window(std::vector<Number>& leaving) {
  const uint64_t window_at = window->first * kChunkBytes;
  std::vector<Offset> buffers;
  for (uint64_t chunk = window->first; chunk < window->first + window->chunks; ++chunk) {
    if (leaving.size() >= budget) return true;
    if (parts.heap.is_free({.first = chunk, .chunks = 1})) continue;
    buffers.clear();
    parts.heap.occupants(chunk, buffers);
    for (const Offset buffer : buffers) {
      const Number number = index.find(buffer);
      if (number == ObjectIndex::kNone) {
        // In front of it lies no record: those are small.
        if (buffer.value < window_at || move_record(buffer)) continue;
        bar({chunk * kChunkBytes}, 1);
        return false;
      }
      if (buffer.value + Heap::footprint(parts_of(buffer).total_bytes()) <= chunk * kChunkBytes) continue;
      const bool can_go =
          index.standing(number) == Standing::kLoose && !parts.heap.pins_seen().contains(buffer);
      if (!can_go) {
        bar({chunk * kChunkBytes}, 1);
        return false;
      }
      // One that reaches through several chunks is met in each.
      if (leaving.empty() || leaving.back() != number) leaving.push_back(number);
    }
  }
  return true;
}

// The same record in another place: it has a new version, and readers in between look again.
bool ObjectStore::State::move_record(Offset buffer) {
  const auto key = parts.table.key_in(buffer);
  if (!key || parts.table.standing(*key).slot.buffer() != buffer) return false;
  const auto entry = parts.table.find(*key);
  if (!entry) return false;
  std::vector<std::byte> record(entry->value.begin(), entry->value.end());
  return parts.table.put(*key, record, {}).has_value();
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
