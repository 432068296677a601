// SPDX-License-Identifier: Apache-2.0
// Two connections to one Redis, which stand and fall together: one for commands, one on which the messages of
// a channel come. What carries them is the node's matter (node/redis).
//
// Threads: only the shard's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/report.h"
#include "refract/runtime/task.h"

namespace refract::object {

struct RedisReply {
  enum class Kind : uint8_t {
    kNone,  // No answer came: the connection ended, or the time was over.
    kNil,
    kNumber,
    kText,
    kList,
    kError,  // `text` is what Redis says.
  };
  Kind kind = Kind::kNone;
  int64_t number = 0;
  std::string text;
  std::vector<RedisReply> items;

  [[nodiscard]] bool is_list_of(size_t count) const noexcept {
    return kind == Kind::kList && items.size() == count;
  }
};

class RedisLine {
 public:
  class Watcher {
   public:
    // Both stand, the channel is subscribed to, and both lead to the same run of a server.
    virtual void line_opened(const std::string& run) noexcept = 0;
    // Calls under way have ended, or end in this turn, with kNone.
    virtual void line_closed() noexcept = 0;
    virtual void line_news(std::string_view message) noexcept = 0;

   protected:
    ~Watcher() = default;
  };

  virtual ~RedisLine() = default;
  // From now on the connections are kept, with this channel, and begun again where they end, behind pauses.
  // A second call ends them first, without a word to the watcher, which outlives the line.
  virtual void open(const std::string& channel, Watcher& watcher) = 0;
  // Of no use any more, for this reason: they are begun again.
  virtual void drop(const Report& why) noexcept = 0;
  // A reply comes no later than so; a line that is late is dropped.
  [[nodiscard]] virtual runtime::Task<RedisReply> call(std::vector<std::string> arguments) = 0;

  // "redis://10.0.0.9:6379"
  [[nodiscard]] virtual std::string place() const = 0;
  // Why it does not stand; code kOk: it does.
  [[nodiscard]] virtual Report trouble() const = 0;
};

}  // namespace refract::object
