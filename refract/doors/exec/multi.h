// SPDX-License-Identifier: Apache-2.0
// What a connection has of transactions: the keys that it watches, and the commands that it has queued.
//
// Both change when a command is taken, and not when it has its turn: what follows in the same pipeline is
// queued or not by that. So WATCH and EXEC take with them what they belong to, and find it as those before
// them in the pipeline have left it.
//
// Threads: that of the door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "refract/doors/redis/commands.h"

namespace refract::doors::redis {

// Keys, those of queue and WATCH together; and bytes of either of both.
inline constexpr size_t kTransactionKeysMax = 4096;
inline constexpr size_t kTransactionBytesMax = size_t{16} << 20;
// Names both.
[[nodiscard]] std::string too_much_for_transaction();

// Keys with the versions that WATCH has found.
struct Watched {
  std::unordered_map<std::string, uint64_t> versions;  // 0: it was absent.
  size_t bytes = 0;                                    // Of the keys.
  std::string wrong = {};                              // Not empty: why a WATCH has failed.
};

// Commands behind a MULTI.
class Queue {
 public:
  struct Command {
    const Row* row;
    std::string bytes;  // Of all words.
    std::vector<std::string_view> words;
  };

  // Takes copies. False: there would be too much; then it is refused, and what was queued is gone.
  [[nodiscard]] bool add(const Row& row, Words words);
  // EXEC will do nothing: a command was not queued, or was wrong.
  void refuse() noexcept;
  [[nodiscard]] bool is_refused() const noexcept { return is_refused_; }
  [[nodiscard]] const std::deque<Command>& commands() const noexcept { return commands_; }
  // Memory of all of it.
  [[nodiscard]] size_t bytes() const noexcept { return bytes_; }

 private:
  std::deque<Command> commands_;
  std::unordered_set<std::string_view> keys_;  // In their words.
  size_t bytes_ = 0;
  bool is_refused_ = false;
};

// What EXEC takes along, and of it WATCH the number.
struct Taken {
  uint64_t watched = 0;  // Which keys; 0: none.
  std::unique_ptr<Queue> queue = {};
};

// Of a connection.
class Multi {
 public:
  // The commands behind a MULTI; null: none is open.
  [[nodiscard]] Queue* queue() const noexcept { return queue_.get(); }
  // REQUIRES: none is open.
  void open() { queue_ = std::make_unique<Queue>(); }
  // The number under which a WATCH keeps its keys.
  [[nodiscard]] uint64_t watch();
  // What that number has. Null: the keys were forgotten meanwhile.
  [[nodiscard]] Watched* watched(uint64_t number) noexcept;
  void unwatch() noexcept;
  // Forgets both, but for what was taken along.
  void drop() noexcept;
  // REQUIRES: a MULTI is open, whose end this is. The keys stay until take_watched().
  [[nodiscard]] Taken take() noexcept;
  [[nodiscard]] Watched take_watched(uint64_t number) noexcept;
  [[nodiscard]] size_t held_bytes() const noexcept;

 private:
  std::unordered_map<uint64_t, Watched> watched_;  // By numbers: the present one, and those taken along.
  uint64_t number_ = 0;                            // The present one; 0: there is none.
  uint64_t last_number_ = 0;
  std::unique_ptr<Queue> queue_;
};

// How the connection has a command run that it has taken: inside of MULTI most are queued.
[[nodiscard]] const Row* row_to_run(const Session& session, const Row& row) noexcept;
// A command is refused when it is taken, so that EXEC will do nothing. What is said of it.
[[nodiscard]] std::string refused(Session& session, const Row* row, std::string why);
// Whether it is told while the node is loading, and waits for one that has loaded.
[[nodiscard]] bool waits_for_node(const Row& row) noexcept;
// What the command takes along; its bytes count as those of its words.
void take_along(Session& session, Pending& command);

}  // namespace refract::doors::redis
