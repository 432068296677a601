// SPDX-License-Identifier: Apache-2.0
// Any bytes as a state and a row of a directory in Redis: they are refused, or all that a home does with them
// ends, and what is written then is read again.
#include <cstdint>
#include <string>

#include "refract/base/check.h"
#include "refract/object/redis/home_rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace refract;          // NOLINT(google-build-using-namespace)
  using namespace refract::object;  // NOLINT(google-build-using-namespace)
  if (size < 4) return 0;
  const size_t members = 1 + data[0] % 4;
  const auto member = static_cast<MemberIndex>(data[1] % members);
  const uint8_t choice = data[2];
  const std::string bytes(reinterpret_cast<const char*>(data) + 3, size - 3);
  HomeRows rows;
  std::string row = bytes;
  // A sound state in half of the cases, so that rows are reached.
  if (choice % 2 == 0) {
    const size_t state_bytes = sizeof(wire::StateHead) + members * sizeof(wire::StreamState);
    row = bytes.size() > state_bytes ? bytes.substr(state_bytes) : std::string();
    if (!rows.take_state(bytes.substr(0, state_bytes), choice)) return 0;
    if (member >= rows.members()) return 0;
  } else {
    rows.begin(members, {.run = "run"}, 1);
    for (size_t i = 0; i < members; ++i) rows.open_stream(static_cast<MemberIndex>(i), {i, choice});
    if (choice % 4 == 1) rows.table.end_report(member);
  }
  if (!rows.take_row("id", row)) return 0;
  const ObjectParts parts{.body_bytes = 1, .metadata_bytes = 0, .id_bytes = 2};
  const HomeTable::Found found = rows.table.look_up("id");
  (void)rows.conflicts();
  if (choice & 8) (void)rows.table.claims(member, "id", 7, (choice & 16) != 0);
  if (choice & 32) (void)rows.table.holds(member, "id", 7, parts);
  if (choice & 64) rows.table.comes(member, "id", 0, parts);
  if (choice & 128) rows.table.end_report(member);
  // Of a birth that the row has, where it has one.
  const uint64_t birth_of_copies = found.birth != 0 ? found.birth : 7;
  if (data[0] & 16) (void)rows.table.wish("id", birth_of_copies, static_cast<uint8_t>(1 + data[0] % 3));
  (void)rows.table.bound("id", birth_of_copies);
  if (data[0] & 32) (void)rows.table.release(member, "id", birth_of_copies);
  for (const auto& [id, birth] : rows.table.losers()) rows.table.bury(id, birth);
  (void)rows.table.acknowledge(member, "id", 7);
  (void)rows.lingering_delta();
  HomeRows again;
  REFRACT_CHECK(again.take_state(rows.next_state(), 0));
  REFRACT_CHECK(again.take_row("id", rows.row("id")));
  return 0;
}
