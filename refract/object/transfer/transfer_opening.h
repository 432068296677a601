// SPDX-License-Identifier: Apache-2.0
// How a transfer is opened: what the puller asks of a giver first (TRANSFER, or FOLLOW where the giver may
// have a part only), and what an answer to that may say.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "refract/base/result.h"
#include "refract/object/calls/call_front.h"
#include "refract/object/transfer/object_transfer.h"
#include "refract/object/transfer/piece_queue.h"
#include "refract/object/transfer/transfer_wire.h"

namespace refract::object {

struct TransferOpening {
  const TransferOrder& order;  // Outlives it.
  wire::TransferBy by = wire::TransferBy::kMessages;
  bool is_followed = false;
  uint32_t wait_ms = 0;          // So long a FOLLOW may wait for what has not begun to come to the giver.
  PieceQueue::Piece first = {};  // The answer brings it, as far as it is there. By READs: none.

  // What the answer says, checked: nothing in it leads out of the object.
  struct Opened {
    uint64_t transfer = 0;  // 0: nothing is kept there, and nothing is left to be asked for.
    uint64_t ready = 0;     // From the first byte on, so many can be asked for.
    uint64_t digest = 0;    // Of `came`, if digests are wanted.
    std::vector<wire::TransferPiece> pieces =
        {};                                // By READs: where all of it lies, in the order of its bytes.
    std::span<const std::byte> came = {};  // The first of `first`, in the answer.
  };

  [[nodiscard]] wire::TransferMethod method() const noexcept {
    return is_followed ? wire::TransferMethod::kFollow : wire::TransferMethod::kTransfer;
  }
  // An answer's head takes so many bytes of its message.
  [[nodiscard]] static size_t head_bytes(bool is_followed) noexcept {
    return is_followed ? sizeof(wire::FollowReply) : sizeof(wire::TransferReply);
  }
  // The call's body.
  [[nodiscard]] CallFront front() const;
  // kMalformed.
  [[nodiscard]] Result<Opened> take(std::span<const std::byte> answer) const;

 private:
  [[nodiscard]] Code take_reply(const wire::TransferReply& reply, std::span<const std::byte> rest,
                                Opened& opened) const;
  [[nodiscard]] Code take_pieces(std::span<const std::byte> bytes, uint32_t count, Opened& opened) const;
};

}  // namespace refract::object
