// SPDX-License-Identifier: Apache-2.0
#include "refract/object/transfer/transfer_opening.h"

#include <algorithm>
#include <utility>

#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_pointer.h"

namespace refract::object {

CallFront TransferOpening::front() const {
  const wire::FollowRequest request{
      .transfer = {.birth = order.birth,
                   .body_bytes = order.parts.body_bytes,
                   .offset = first.offset,
                   .metadata_bytes = order.parts.metadata_bytes,
                   .bytes = static_cast<uint32_t>(first.bytes),
                   .id_bytes = static_cast<uint16_t>(order.id.size()),
                   .by = by,
                   .wants_digest = static_cast<uint8_t>(order.is_checked ? 1 : 0),
                   .reserved = {}},
      .plan = order.plan,
      .wait_ms = wait_ms,
      .reserved = 0};
  const auto asked = is_followed ? bytes_of(request) : bytes_of(request.transfer);
  return CallFront({asked, order.id});
}

Result<TransferOpening::Opened> TransferOpening::take(std::span<const std::byte> answer) const {
  const uint64_t filled_bytes = order.parts.filled_bytes();
  Opened opened;
  opened.ready = filled_bytes;
  Code code = Code::kMalformed;
  if (is_followed) {
    const auto reply = kv::wire::take<wire::FollowReply>(answer);
    if (!reply || reply->ready > filled_bytes) return fail(Code::kMalformed);
    opened.ready = reply->ready;
    code = take_reply(reply->transfer, answer, opened);
  } else if (const auto reply = kv::wire::take<wire::TransferReply>(answer)) {
    code = take_reply(*reply, answer, opened);
  }
  if (code != Code::kOk) return fail(code);
  return opened;
}

Code TransferOpening::take_reply(const wire::TransferReply& reply, std::span<const std::byte> rest,
                                 Opened& opened) const {
  if (reply.reserved != 0) return Code::kMalformed;
  opened.transfer = reply.transfer;
  opened.digest = reply.digest;
  if (by == wire::TransferBy::kReads) {
    return reply.transfer == 0 ? Code::kMalformed : take_pieces(rest, reply.pieces, opened);
  }
  // What is not there yet is asked for later.
  const uint64_t bytes_there = std::max(opened.ready, first.offset) - first.offset;
  const uint64_t came_bytes = std::min(first.bytes, bytes_there);
  // Nothing is kept only where nothing is left to be asked for.
  const bool is_whole = came_bytes == order.parts.filled_bytes();
  if (reply.pieces != 0 || rest.size() != came_bytes || (reply.transfer == 0 && !is_whole)) {
    return Code::kMalformed;
  }
  opened.came = rest;
  return Code::kOk;
}

Code TransferOpening::take_pieces(std::span<const std::byte> bytes, uint32_t count, Opened& opened) const {
  if (count == 0 || bytes.size() != size_t{count} * sizeof(wire::TransferPiece)) return Code::kMalformed;
  const uint64_t filled_bytes = order.parts.filled_bytes();
  uint64_t end = 0;
  while (!bytes.empty()) {
    const auto piece = kv::wire::take<wire::TransferPiece>(bytes);
    // A length that fits what is left of the object overflows nothing.
    if (!piece || piece->offset != end || piece->bytes == 0 || piece->bytes > filled_bytes - end ||
        piece->bytes > RemotePointer::kOffsetMask - RemotePointer{piece->address}.offset()) {
      return Code::kMalformed;
    }
    end += piece->bytes;
    opened.pieces.push_back(*piece);
  }
  return end == filled_bytes ? Code::kOk : Code::kMalformed;
}

}  // namespace refract::object
