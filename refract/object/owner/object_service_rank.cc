// SPDX-License-Identifier: Apache-2.0
// In how much time each node could have some objects, where nodes share theirs: elsewhere.h says how it is
// found out, object_rank_wire.h how it is told.
#include <algorithm>
#include <utility>

#include "refract/object/owner/object_service_state.h"

namespace refract::object {

using kv::wire::take;

namespace {

constexpr uint64_t kRankWaitMax_ns = 60 * kSecond_ns;

template <typename T>
void append_value(std::vector<std::byte>& bytes, const T& value) {
  const auto added = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), added.begin(), added.end());
}

}  // namespace

void ObjectService::State::rank(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::RankRequest>(body);
  if (!request || std::ranges::any_of(request->reserved, [](uint8_t byte) { return byte != 0; })) {
    return answer(from, Code::kMalformed);
  }
  if (request->count == 0 || request->count > wire::kRankIdsMax) return answer(from, Code::kInvalidArgument);
  std::vector<std::string> ids;
  ids.reserve(request->count);
  for (size_t i = 0; i < request->count; ++i) {
    const auto length = take<uint8_t>(body);
    if (!length) return answer(from, Code::kMalformed);
    TakenId id;
    const Code code = id.take(body, *length);
    if (code != Code::kOk) return answer(from, code);
    ids.emplace_back(id.text());
  }
  if (!body.empty()) return answer(from, Code::kMalformed);
  // A client that has gone is not worked for without end.
  const uint64_t until_ns =
      moment_after(parts.shard.now_ns(), std::min(request->timeout_ns, kRankWaitMax_ns));
  parts.elsewhere->rank(std::move(ids), until_ns,
                        [this, from](const Elsewhere::Ranked& ranked) { tell_rank(from, ranked); });
}

void ObjectService::State::tell_rank(const rpc::Responder& from, const Elsewhere::Ranked& ranked) {
  if (ranked.code != Code::kOk) return answer(from, told(ranked.code));
  const Session* const session = find(from.session);
  const size_t room = session == nullptr ? 0 : session->payload_bytes_max;
  std::vector<std::byte> bytes;
  for (const Code code : ranked.ids) append_value(bytes, static_cast<uint16_t>(told(code)));
  wire::RankReply reply{.ids = static_cast<uint16_t>(ranked.ids.size()),
                        .told = 0,
                        .nodes = static_cast<uint16_t>(ranked.members.size()),
                        .reserved = {}};
  for (const Elsewhere::RankedMember& member : ranked.members) {
    if (sizeof(reply) + bytes.size() + sizeof(wire::RankedNode) + member.name.size() > room) break;
    append_value(bytes, wire::RankedNode{.time_ns = member.time_ns,
                                         .missing_bytes = member.missing_bytes,
                                         .missing = member.missing,
                                         .unreachable = member.unreachable,
                                         .code = static_cast<uint16_t>(told(member.code)),
                                         .is_guessed = static_cast<uint8_t>(member.is_guessed ? 1 : 0),
                                         .name_bytes = static_cast<uint8_t>(member.name.size()),
                                         .reserved = {}});
    const auto name = bytes_of(std::string_view(member.name));
    bytes.insert(bytes.end(), name.begin(), name.end());
    ++reply.told;
  }
  answer(from, reply, bytes);
}

}  // namespace refract::object
