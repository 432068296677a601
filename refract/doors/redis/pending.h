// SPDX-License-Identifier: Apache-2.0
// A command of a connection that is not over: its words, what it asks of a key's owner, and its reply.
//
// Threads: that of its door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/result.h"
#include "refract/client/numbered/operation.h"
#include "refract/client/types.h"
#include "refract/doors/redis/commands.h"
#include "refract/doors/redis/long_word.h"
#include "refract/doors/redis/replies.h"
#include "refract/doors/redis/reply.h"

namespace refract::doors::redis {

// The operation of a command.
class PendingCall final : public OperationCall {
 public:
  [[nodiscard]] Code begin(Store& store, Pending& command);

 private:
  void over(const Operated& outcome) noexcept override;

  Pending* command_ = nullptr;
};

// A command that is not over.
struct Pending {
  const Row* row = nullptr;
  Kind kind = Kind::kLocal;
  CommandTallies* tallies = nullptr;  // Null: its end is not counted.
  Session* session = nullptr;
  Protocol protocol = Protocol::kResp2;
  std::string bytes = {};  // Of all words that are not long.
  std::vector<LongWord> long_words = {};
  std::vector<std::string_view> words = {};  // In these.
  size_t words_bytes = 0;                    // Memory of all of them, and of this.
  std::unique_ptr<Taken> taken;              // By WATCH and EXEC: exec/multi.h.
  Replies answer = {};
  uint64_t begun_ns = 0;  // 0: it is not timed.
  // Of a write of one key: KeyWrite.
  KeyOperation operation = {};
  std::string arguments = {};  // Of its function, where these are no word.
  PendingCall call = {};
  bool is_by_itself = false;  // It goes without the call.
  bool came_back = false;     // The owner has left it to its client: it begins again when it is the first.
  bool has_begun = false;
  bool is_over = false;
  bool breaks = false;   // What became of it is not known, so the connection ends instead of a reply.
  bool is_mute = false;  // The client does not want its reply.

  [[nodiscard]] Reply reply() noexcept { return {answer, protocol}; }
  void take(const std::vector<std::string_view>& came, std::vector<LongWord> long_ones);
  // Its words are not needed any more.
  void drop_words();
  // As a new one, but for memory that it has.
  void reset();
  // The memory that a long word lies in, if the node's server reads it there. Null: it does not.
  [[nodiscard]] const Reservation* reserved(Bytes value) const noexcept {
    for (const LongWord& word : long_words) {
      if (word.text().data() == value.text().data()) return word.reservation();
    }
    return nullptr;
  }
};

}  // namespace refract::doors::redis
