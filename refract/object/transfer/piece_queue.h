// SPDX-License-Identifier: Apache-2.0
// Which bytes of an object have not been asked for yet, while several holders give them, and up to where all
// have come.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

namespace refract::object {

class PieceQueue {
 public:
  struct Piece {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  explicit PieceQueue(uint64_t bytes) noexcept : bytes_(bytes) {}

  // The next piece of at most `bytes_max`, which is not 0, in front of `end`. Of 0 bytes: none is left there.
  [[nodiscard]] Piece take(uint64_t bytes_max, uint64_t end = UINT64_MAX) {
    const auto first = std::ranges::min_element(returned_, {}, &Piece::offset);
    if (first != returned_.end() && first->offset < end) {
      const Piece piece{.offset = first->offset,
                        .bytes = std::min({first->bytes, bytes_max, end - first->offset})};
      first->offset += piece.bytes;
      first->bytes -= piece.bytes;
      if (first->bytes == 0) returned_.erase(first);
      return piece;
    }
    const Piece piece{.offset = next_,
                      .bytes = std::min(std::max(std::min(bytes_, end), next_) - next_, bytes_max)};
    next_ += piece.bytes;
    return piece;
  }
  // Taken, and not brought.
  void give_back(Piece piece) {
    if (piece.bytes > 0) returned_.push_back(piece);
  }
  // Brought: is_done() is true when all are.
  void brought(Piece piece) {
    brought_ += piece.bytes;
    if (piece.offset != whole_) {
      ahead_.emplace(piece.offset, piece.bytes);
      return;
    }
    whole_ += piece.bytes;
    for (auto next = ahead_.find(whole_); next != ahead_.end(); next = ahead_.find(whole_)) {
      whole_ += next->second;
      ahead_.erase(next);
    }
  }
  // What was brought is not what it should be.
  void reject(Piece piece) {
    brought_ -= piece.bytes;
    give_back(piece);
  }

  [[nodiscard]] bool is_empty() const noexcept { return returned_.empty() && next_ == bytes_; }
  [[nodiscard]] bool is_done() const noexcept { return brought_ == bytes_; }
  // All bytes in front of it have been brought. REQUIRES: none was rejected.
  [[nodiscard]] uint64_t whole() const noexcept { return whole_; }

 private:
  const uint64_t bytes_;
  uint64_t next_ = 0;  // Behind the last byte that was taken for the first time.
  uint64_t brought_ = 0;
  uint64_t whole_ = 0;
  std::map<uint64_t, uint64_t> ahead_;  // Brought behind a gap: lengths, by offset.
  std::vector<Piece> returned_;
};

}  // namespace refract::object
