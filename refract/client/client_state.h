// SPDX-License-Identifier: Apache-2.0
// What a Client is behind its public header: a shard of its own, the connection to the node of now, and those
// to earlier nodes whose memory views still hold.
//
// Lives until the Client and all its views are gone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "refract/base/clock.h"
#include "refract/client/client.h"
#include "refract/client/connection.h"
#include "refract/client/forks.h"
#include "refract/runtime/shard.h"

namespace refract::client {

class ClientState {
 public:
  [[nodiscard]] static Reported<Client> connect(std::string_view address, const ClientOptions& options);

  ClientState(const ClientState&) = delete;
  ClientState& operator=(const ClientState&) = delete;

  // Of Client or a view; the last one ends everything.
  void release() noexcept;
  void give_back(View& view) noexcept;

  // Reads by `direct(Reader&) -> Code`, and where that cannot tell, by `ask(RpcClient&, deadline_ns) ->
  // Code`.
  template <typename Direct, typename Ask>
  [[nodiscard]] Code read(Direct&& direct, Ask&& ask) {
    if (guard_.is_child()) [[unlikely]]
      return Code::kForked;
    if (may_read_directly(1)) [[likely]] {
      const Code code = direct(*connection_->reader());
      if (code != Code::kInvalidated && code != Code::kCorrupt) [[likely]]
        return code;
    }
    return read_patiently(direct, ask);
  }

  // The reader, for one read that needs nothing looked after; counts it. Null: go through read().
  [[nodiscard]] Connection::Reader* reader_at_once() noexcept {
    if (guard_.is_child() || (direct_reads_ + 1) % kReadsPerLook == 0 || connection_->is_node_stopping())
        [[unlikely]] {
      return nullptr;
    }
    Connection::Reader* reader = connection_->reader();
    if (reader != nullptr) ++direct_reads_;
    return reader;
  }

  // The read that reader_at_once() counted goes through read(), which counts it too.
  void count_again() noexcept { --direct_reads_; }

  // `attempt(RpcClient&, deadline_ns) -> Result<T>`, where kUnavailable says that nothing was sent.
  template <typename T, typename Attempt>
  [[nodiscard]] Result<T> ask_server(Attempt&& attempt) {
    if (guard_.is_child()) [[unlikely]]
      return fail(Code::kForked);
    Patience patience;
    for (;;) {
      if (is_server_there()) [[likely]] {
        Result<T> result = attempt(connection_->rpc(), patience.deadline_ns);
        if (result.code() != Code::kUnavailable) [[likely]] {
          note(result.code());
          return result;
        }
      }
      if (!await_server(patience)) return fail(Code::kUnavailable);
    }
  }

  // Whether reads may be direct now; counts them. Looks after the node every now and then.
  [[nodiscard]] bool may_read_directly(uint64_t reads) noexcept {
    const uint64_t before = direct_reads_;
    if (connection_->reader() == nullptr) return false;
    direct_reads_ += reads;
    if (before / kReadsPerLook != direct_reads_ / kReadsPerLook || connection_->is_node_stopping())
        [[unlikely]] {
      look_at_node();
    }
    return connection_->reader() != nullptr;
  }
  // For what was copied under a pin: pins count only while there is a keeper that knows them.
  [[nodiscard]] bool is_node_still_there() noexcept {
    look_at_node();
    return connection_->reader() != nullptr;
  }

  // False once the node has ended, too: the next call finds out whether there is another.
  [[nodiscard]] bool route_is_direct() const noexcept { return connection_->reader() != nullptr; }
  [[nodiscard]] Result<View> view(Bytes key);
  [[nodiscard]] bool is_child() const noexcept { return guard_.is_child(); }
  [[nodiscard]] runtime::Shard& shard() noexcept { return shard_; }
  [[nodiscard]] Connection& connection() noexcept { return *connection_; }
  [[nodiscard]] Route route() const;
  [[nodiscard]] Report trouble() const { return trouble_; }
  [[nodiscard]] ClientCounters counters() const noexcept;

 private:
  // A killed keeper tells nobody; a look costs half a microsecond.
  static constexpr uint64_t kReadsPerLook = 256;

  struct Patience {
    uint64_t deadline_ns = 0;  // 0: time has not mattered yet.
    int losses = 0;            // Of the whole node.
    int waits = 0;
  };

  ClientState(std::string path, const ClientOptions& options);
  ~ClientState() = default;

  template <typename Direct, typename Ask>
  [[nodiscard]] Code read_patiently(Direct& direct, Ask& ask) {
    ++rereads_;
    Patience patience;
    int growth_waits = 0;
    for (;;) {
      if (connection_->reader() != nullptr) {
        const Code code = direct(*connection_->reader());
        if (code != Code::kInvalidated && code != Code::kCorrupt) return code;
        if (code == Code::kCorrupt) {
          if (await_growth(growth_waits++)) continue;
          return code;
        }
      }
      if (is_server_there()) {
        const Code code = ask(connection_->rpc(), patience.deadline_ns);
        if (code != Code::kUnavailable) {
          note(code);
          return code;
        }
      }
      if (!await_server(patience)) return Code::kUnavailable;
    }
  }

  [[nodiscard]] bool is_server_there() noexcept {
    if (connection_->state() == Connection::State::kUp && connection_->is_server_as_known()) [[likely]]
      return true;
    (void)shard_.poll_once();
    return connection_->state() == Connection::State::kUp;
  }
  void look_at_node() noexcept;
  // False: what there is to be mapped is mapped, for some time already.
  [[nodiscard]] bool await_growth(int waits);
  // Waits for the next server, or connects to the next node. False: none came in time; trouble() says more.
  [[nodiscard]] bool await_server(Patience& patience);
  // Connects, and then replaces what was there before.
  [[nodiscard]] bool establish(uint64_t deadline_ns);
  void note(Code code);
  void bury() noexcept;

  runtime::Shard shard_;
  std::string path_;
  ClientOptions options_;
  ForkGuard guard_;
  std::unique_ptr<Connection> connection_;
  std::vector<std::unique_ptr<Connection>> ended_;  // Still in use by views.
  size_t owners_ = 1;
  Report trouble_{Code::kOk, "", ""};
  uint64_t direct_reads_ = 0;
  uint64_t rereads_ = 0;
  uint64_t connections_ = 0;
  uint64_t messages_before_ = 0;  // Of earlier connections; likewise the next.
  uint64_t losses_before_ = 0;
};

}  // namespace refract::client
