// SPDX-License-Identifier: Apache-2.0
// The call by which a node is asked for the list of nodes; the frame around it is the rpc layer's.
// docs/formats/cluster.md has a worked example: the golden test.
//
// Little endian, no padding, reserved fields are 0. A list may be longer than a message, so it is told page
// by page: from one member on, as many as fit. Pages of different versions do not belong together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "refract/cluster/member_list.h"
#include "refract/cluster/members.h"

namespace refract::cluster::wire {

// Numbers travel and never change.
inline constexpr uint16_t kMethodsBegin = 0x500;
enum class Method : uint16_t {
  kMembers = 0x500,
};

// kInvalidArgument: the list has no member of this index. kUnsupported: the node has no list.
struct MembersRequest {
  uint32_t from;  // The index of the first member that is wanted.
  uint32_t reserved;
};
static_assert(sizeof(MembersRequest) == 8);

struct MembersReply {  // | members: MemberRecord | name | host, each.
  uint64_t version;
  uint32_t count;  // Of all members.
  uint32_t self;   // The index of the node that answers.
  uint32_t from;   // The index of the first member here.
  uint32_t here;   // How many follow: one at least.
};
static_assert(sizeof(MembersReply) == 24 && offsetof(MembersReply, from) == 16);

struct MemberRecord {
  uint16_t port;
  uint8_t name_bytes;
  uint8_t host_bytes;
};
static_assert(sizeof(MemberRecord) == 4);

// A page with one member fits, however long that is.
inline constexpr size_t kPageBytesMin =
    sizeof(MembersReply) + sizeof(MemberRecord) + kNameBytesMax + kHostBytesMax;
// The whole list fits, whichever it is.
inline constexpr size_t kPageBytesMax =
    sizeof(MembersReply) + kMembersMax * (sizeof(MemberRecord) + kNameBytesMax + kHostBytesMax);

// The reply that begins with member `from` and has at most so many bytes. REQUIRES: the list has such a
// member, and `bytes_max` is not below kPageBytesMin.
[[nodiscard]] std::vector<std::byte> encode_page(const Members& members, uint32_t from, size_t bytes_max);

struct Page {
  MembersReply head;
  std::vector<Member> members;
};
// Nothing: it makes no sense. The bytes may be changing: they are copied once, then checked. Of a page that
// has all members of a sound list, check() says so.
[[nodiscard]] std::optional<Page> decode_page(std::span<const std::byte> bytes);

}  // namespace refract::cluster::wire
