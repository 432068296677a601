// SPDX-License-Identifier: Apache-2.0
#include "refract/cluster/members_wire.h"

#include <cstring>
#include <string>

#include "refract/base/object_bytes.h"
#include "refract/memory/remote_visible.h"

namespace refract::cluster::wire {
namespace {

void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

size_t bytes_of(const Member& member) noexcept {
  return sizeof(MemberRecord) + member.name.size() + member.host.size();
}

// The next `count` bytes; nothing: there are fewer.
std::optional<std::span<const std::byte>> take_bytes(std::span<const std::byte>& bytes,
                                                     size_t count) noexcept {
  if (bytes.size() < count) return std::nullopt;
  const auto front = bytes.first(count);
  bytes = bytes.subspan(count);
  return front;
}

template <typename T>
std::optional<T> take(std::span<const std::byte>& bytes) noexcept {
  const auto front = take_bytes(bytes, sizeof(T));
  if (!front) return std::nullopt;
  T value;
  std::memcpy(&value, front->data(), sizeof(T));
  return value;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<Member> take_member(std::span<const std::byte>& bytes) {
  const auto record = take<MemberRecord>(bytes);
  if (!record) return std::nullopt;
  const auto name = take_bytes(bytes, record->name_bytes);
  const auto host = take_bytes(bytes, record->host_bytes);
  if (!name || !host) return std::nullopt;
  return Member{.name = text_of(*name), .host = text_of(*host), .port = record->port};
}

}  // namespace

std::vector<std::byte> encode_page(const Members& members, uint32_t from, size_t bytes_max) {
  const MemberList& list = members.list();
  MembersReply head{.version = list.version,
                    .count = static_cast<uint32_t>(list.members.size()),
                    .self = static_cast<uint32_t>(members.self()),
                    .from = from,
                    .here = 0};
  std::vector<std::byte> bytes(sizeof(head));
  for (const Member& member : std::span(list.members).subspan(from)) {
    if (bytes_of(member) > bytes_max - bytes.size()) break;
    append(bytes, object_bytes(MemberRecord{.port = member.port,
                                            .name_bytes = static_cast<uint8_t>(member.name.size()),
                                            .host_bytes = static_cast<uint8_t>(member.host.size())}));
    append(bytes, std::as_bytes(std::span(member.name)));
    append(bytes, std::as_bytes(std::span(member.host)));
    ++head.here;
  }
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

std::optional<Page> decode_page(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(MembersReply) || bytes.size() > kPageBytesMax) return std::nullopt;
  std::vector<std::byte> own(bytes.size());
  copy_possibly_torn(own.data(), bytes.data(), bytes.size());
  std::span<const std::byte> rest = own;
  Page page{.head = *take<MembersReply>(rest), .members = {}};
  const MembersReply& head = page.head;
  const bool is_sound = head.version > 0 && head.count > 0 && head.count <= kMembersMax &&
                        head.self < head.count && head.here > 0 && head.from < head.count &&
                        head.here <= head.count - head.from;
  if (!is_sound) return std::nullopt;
  for (uint32_t i = 0; i < head.here; ++i) {
    auto member = take_member(rest);
    if (!member) return std::nullopt;
    page.members.push_back(std::move(*member));
  }
  if (!rest.empty()) return std::nullopt;
  return page;
}

}  // namespace refract::cluster::wire
