// SPDX-License-Identifier: Apache-2.0
// One object that is to be brought to several nodes, where nodes share theirs: elsewhere.h says what is asked
// of them, object_broadcast_wire.h how it is told.
#include <algorithm>
#include <utility>

#include "refract/memory/remote_visible.h"
#include "refract/object/owner/object_service_state.h"
#include "refract/object/owner/reply_page.h"

namespace refract::object {

using kv::wire::take;

namespace {

// What is brought is of use, whether its client waits or has gone.
constexpr uint64_t kBroadcastWaitMax_ns = 3600 * kSecond_ns;

// Each behind its length; nothing: a length is none. One that is named twice is there once.
[[nodiscard]] std::optional<std::vector<std::string>> take_node_names(std::span<const std::byte> bytes,
                                                                      size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    const auto length = take<uint8_t>(bytes);
    if (!length || *length == 0 || *length > bytes.size()) return std::nullopt;
    std::string name(*length, '\0');
    copy_possibly_torn(name.data(), bytes.data(), name.size());
    bytes = bytes.subspan(name.size());
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  if (!bytes.empty()) return std::nullopt;
  return names;
}

}  // namespace

void ObjectService::State::broadcast(const rpc::Responder& from, std::span<const std::byte> body) {
  const auto request = take<wire::BroadcastRequest>(body);
  if (!request || std::ranges::any_of(request->reserved, [](uint8_t byte) { return byte != 0; })) {
    return answer(from, Code::kMalformed);
  }
  TakenId id;
  const Code code = id.take(body, request->id_bytes);
  if (code != Code::kOk) return answer(from, code);
  auto names = take_node_names(body, request->count);
  if (!names) return answer(from, Code::kMalformed);
  const uint64_t until_ns =
      moment_after(parts.shard.now_ns(), std::min(request->timeout_ns, kBroadcastWaitMax_ns));
  parts.elsewhere->broadcast(
      id.text(), std::move(*names), until_ns,
      [this, from](const Elsewhere::Broadcasted& done) { tell_broadcast(from, done); });
}

void ObjectService::State::tell_broadcast(const rpc::Responder& from, const Elsewhere::Broadcasted& done) {
  // Of what was wrongly named the names are told.
  const bool has_names = done.code == Code::kOk || done.code == Code::kInvalidArgument;
  if (!has_names) return answer(from, told(done.code));
  using Node = Elsewhere::BroadcastNode;
  std::vector<const Node*> nodes;
  size_t bytes_wanted = sizeof(wire::BroadcastReply);
  size_t missed = 0;
  for (const Node& node : done.nodes) {
    nodes.push_back(&node);
    missed += node.code == Code::kOk ? 0 : 1;
    bytes_wanted += sizeof(wire::BroadcastNode) + node.name.size();
  }
  const Session* const session = find(from.session);
  const size_t room = session == nullptr ? 0 : session->payload_bytes_max;
  if (bytes_wanted > room) {
    // In their order all the same.
    std::ranges::sort(nodes, {}, [](const Node* node) { return std::pair(node->code == Code::kOk, node); });
  }
  ReplyPage page(room - std::min(room, sizeof(wire::BroadcastReply)));
  for (const Node* node : nodes) {
    const wire::BroadcastNode entry{.code = static_cast<uint16_t>(told(node->code)),
                                    .name_bytes = static_cast<uint8_t>(node->name.size()),
                                    .reserved = 0};
    if (!page.add(entry, node->name)) break;
  }
  const wire::BroadcastReply reply{.told = static_cast<uint16_t>(page.count()),
                                   .nodes = static_cast<uint16_t>(nodes.size()),
                                   .missed = static_cast<uint16_t>(missed),
                                   .reserved = {}};
  answer(from, done.code, std::as_bytes(std::span(&reply, 1)), page.bytes());
}

}  // namespace refract::object
