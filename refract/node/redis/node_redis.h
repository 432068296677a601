// SPDX-License-Identifier: Apache-2.0
// The two connections of a node to the Redis that has its directory (object/redis/redis_line.h).
//
// Nothing here waits: a host that is given in numbers is connected to directly, a name is looked up by a
// thread of its own. What fails or ends is begun again behind a pause: 20 ms at first, doubled up to 2 s,
// half of it by chance. Both connections are asked for their run, and each second whether they are there.
//
// The password is sent as it is, and stands in no sentence; neither does what Redis says to it.
//
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/fabric/tcp/name_lookup.h"
#include "refract/fabric/tcp/secret.h"
#include "refract/fabric/tcp/socket.h"
#include "refract/memory/host/descriptor.h"
#include "refract/node/config/redis_address.h"
#include "refract/node/redis/resp_reader.h"
#include "refract/object/redis/redis_line.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::node {

class NodeRedis final : public object::RedisLine, public runtime::Poller {
 public:
  struct Options {
    uint64_t connect_timeout_ns = 3 * kSecond_ns;  // Until both stand.
    uint64_t call_timeout_ns = 4 * kSecond_ns;     // Less than a stream may be silent.
    uint64_t pause_first_ns = 20 * kMillisecond_ns;
    uint64_t pause_longest_ns = 2 * kSecond_ns;
    bool is_quiet = false;  // The log is told nothing.
  };

  // The shard and the password, which may be null, outlive this. Until open() is called, this costs nothing.
  NodeRedis(runtime::Shard& shard, RedisAddress address, const fabric::tcp::Secret* password)
      : NodeRedis(shard, std::move(address), password, Options{}) {}
  NodeRedis(runtime::Shard& shard, RedisAddress address, const fabric::tcp::Secret* password,
            const Options& options);
  NodeRedis(const NodeRedis&) = delete;
  NodeRedis& operator=(const NodeRedis&) = delete;
  // The watcher is not told. REQUIRES: no call is suspended.
  ~NodeRedis() override;

  void open(const std::string& channel, Watcher& watcher) override;
  void drop(const Report& why) noexcept override;
  [[nodiscard]] runtime::Task<object::RedisReply> call(std::vector<std::string> arguments) override;
  [[nodiscard]] std::string place() const override { return to_text(address_); }
  [[nodiscard]] Report trouble() const override;

  size_t poll() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  [[nodiscard]] std::string_view name() const noexcept override { return "redis"; }

  // How often it could not be reached, or was lost.
  [[nodiscard]] uint64_t failures() const noexcept { return counts_.failures; }

  struct Counts {
    uint64_t calls = 0;
    uint64_t opened = 0;  // Times that both connections stood.
    uint64_t news = 0;
    uint64_t failures = 0;
  };
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

 private:
  enum class Stage : uint8_t {
    kPause,    // Until due_ns_.
    kLookup,   // Of the host's name.
    kConnect,  // Both, and what is said before commands: until due_ns_.
    kUp,
  };
  enum class Greeting : uint8_t { kAuth, kSelect, kInfo, kSubscribe };
  struct Wire {
    Descriptor socket;
    RespReader reader;
    std::string out;
    bool is_connected = false;
    bool waits_to_write = false;
    std::deque<Greeting> greetings;  // Whose replies are to come.
    std::string run;
    uint64_t heard_ns = 0;
  };

  [[nodiscard]] bool has_work() const noexcept;
  [[nodiscard]] size_t look_at_sockets();
  [[nodiscard]] size_t look_at_time();
  void begin();
  void take_lookup();
  void try_place();
  [[nodiscard]] Reported<> connect(Wire& wire);
  void greet(Wire& wire, bool is_news);
  [[nodiscard]] Reported<> look_at(Wire& wire, uint32_t events);
  [[nodiscard]] Reported<> read(Wire& wire);
  [[nodiscard]] Reported<> flush(Wire& wire);
  [[nodiscard]] Reported<> take(Wire& wire, object::RedisReply& reply);
  [[nodiscard]] Reported<> greeted(Wire& wire, const object::RedisReply& reply);
  void stand();
  void ask_news_whether_it_is_there();
  void fail(const Report& why);
  void close();
  void pause(const Report& why);
  void set_alarm(uint64_t moment_ns);

  runtime::Shard& shard_;
  const RedisAddress address_;
  const fabric::tcp::Secret* const password_;
  const Options options_;
  Prng prng_;
  Watcher* watcher_ = nullptr;  // Null: open() has not been called, and the shard does not poll this.
  std::string channel_;
  Stage stage_ = Stage::kPause;
  uint64_t due_ns_ = 0;
  uint64_t pause_ns_ = 0;
  uint64_t up_ns_ = 0;
  uint64_t next_look_ns_ = 0;
  std::optional<fabric::tcp::NameLookup> lookup_;
  std::vector<fabric::tcp::SocketAddress> places_;
  size_t place_ = 0;
  Descriptor epoll_;
  std::array<std::unique_ptr<Wire>, 2> wires_;      // Of commands, of news. Null: there are none.
  std::vector<std::unique_ptr<Wire>> ended_wires_;  // Which this may be in the middle of.
  std::deque<runtime::Token> waiting_;              // Calls, in the order of their replies.
  object::RedisReply reply_;                        // To the call that is completed now.
  std::optional<Report> dropped_;                   // Since the last poll.
  Report trouble_;
  std::string told_;  // The last trouble in the log.
  Counts counts_;
  runtime::Task<> alarm_;
};

}  // namespace refract::node
