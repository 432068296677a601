// SPDX-License-Identifier: Apache-2.0
// Which bytes of an object have not been asked for yet, while several holders give them.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace refract::object {

class PieceQueue {
 public:
  struct Piece {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  explicit PieceQueue(uint64_t bytes) noexcept : bytes_(bytes) {}

  // The next piece of at most `bytes_max`, which is not 0. Of 0 bytes: none is left.
  [[nodiscard]] Piece take(uint64_t bytes_max) {
    if (!returned_.empty()) {
      Piece& last = returned_.back();
      const Piece piece{.offset = last.offset, .bytes = std::min(last.bytes, bytes_max)};
      last.offset += piece.bytes;
      last.bytes -= piece.bytes;
      if (last.bytes == 0) returned_.pop_back();
      return piece;
    }
    const Piece piece{.offset = next_, .bytes = std::min(bytes_ - next_, bytes_max)};
    next_ += piece.bytes;
    return piece;
  }
  // Taken, and not brought.
  void give_back(Piece piece) {
    if (piece.bytes > 0) returned_.push_back(piece);
  }
  // Brought: done() is true when all are.
  void brought(uint64_t bytes) noexcept { brought_ += bytes; }
  // What was brought is not what it should be.
  void reject(Piece piece) {
    brought_ -= piece.bytes;
    give_back(piece);
  }

  [[nodiscard]] bool is_empty() const noexcept { return returned_.empty() && next_ == bytes_; }
  [[nodiscard]] bool is_done() const noexcept { return brought_ == bytes_; }

 private:
  const uint64_t bytes_;
  uint64_t next_ = 0;  // Behind the last byte that was taken for the first time.
  uint64_t brought_ = 0;
  std::vector<Piece> returned_;
};

}  // namespace refract::object
