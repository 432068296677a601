// SPDX-License-Identifier: Apache-2.0
// Any bytes as a page of the list of nodes: it is refused, or, where it is a whole and sound list, encoding
// that gives the same bytes again.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "refract/base/check.h"
#include "refract/cluster/members_wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace refract::cluster;  // NOLINT(google-build-using-namespace)
  // In memory of exactly its length, so that the sanitizer sees a read behind it.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  const auto page = wire::decode_page(bytes);
  if (!page) return 0;
  REFRACT_CHECK(page->members.size() == page->head.here);
  REFRACT_CHECK(page->head.from + page->head.here <= page->head.count);
  const MemberList list{.version = page->head.version, .members = page->members};
  if (page->head.here != page->head.count || !check(list)) return 0;
  const auto members = Members::create(list, list.members[page->head.self].name);
  REFRACT_CHECK(members.has_value());
  REFRACT_CHECK(std::ranges::equal(wire::encode_page(*members, 0, wire::kPageBytesMax), bytes));
  return 0;
}
