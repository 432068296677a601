// SPDX-License-Identifier: Apache-2.0
// Writes of which it is known what became of them behind a kill of the server, too, and that keep their order
// (docs/design/077-numbered-writes.md): AsyncClient::operate().
#pragma once

#include <array>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>

#include "refract/base/api.h"
#include "refract/base/result.h"
#include "refract/client/types.h"
#include "refract/runtime/task.h"

namespace refract {

class AsyncClient;

namespace client {
class AsyncCalls;
class OperateCall;
struct NumberedOutcome;
}  // namespace client

struct KeyOperation {
  enum class Kind : uint8_t {
    kPut,
    kErase,
    kFunction,   // The owner computes the value: one of kv/functions, with `value` as its arguments.
    kCondition,  // Changes nothing: whether the condition holds.
  };

  Kind kind = Kind::kPut;
  // Of a put, and of a condition, at most one of the conditions. An erasure has if_version alone.
  bool if_absent = false;   // Else kExists.
  bool if_present = false;  // Else kNotFound.
  // Of a put: the entry's time to live stays. Not beside the next two. Where the value fits no message, the
  // client reads that and puts on its version, again where it has changed: then the last try is what stands
  // in its tag's order.
  bool keeps_ttl = false;
  uint8_t function = 0;  // kv::functions::Function
  // Those of one tag are executed in the order in which they were begun, as far as they are of one shard. 0:
  // in any.
  uint32_t tag = 0;
  uint64_t if_version = 0;  // Else kVersionMismatch (kNotFound).
  uint64_t ttl_ns = 0;      // Of a put, at most one of these. 0: the entry stays.
  uint64_t expires_wall_ns = 0;
  // Of a put of any length that values have, on whose way its time runs, too; of a function what fits a
  // message.
  Bytes value = {};
  // Of a put, in place of `value`: what was built in it, which stays as it is, likewise.
  const Reservation* built_in = nullptr;
};

// What became of it. Beside the codes of a put and an erase: kInvalidArgument and kTooLarge of a function,
// whose answer says which error; kUnsupported: the server is of another release, whose functions may differ,
// and the client has to read, compute and commit instead. Then those of its tag that were begun behind it are
// kUnsupported, too, so that it may do so before them; likewise behind one that is kTooLarge for a message.
// kDeadlineExceeded, kUnavailable: its time was over, and it has not been executed and will not be;
// kUnavailable also where the owner has given up a long value that it held for half a minute.
// kIndeterminate: that is not known.
struct Operated {
  static constexpr size_t kAnswerBytesMax = 32;

  Code code = Code::kOk;
  uint8_t answer_bytes = 0;
  uint64_t version = 0;  // The change's; 0: nothing has changed. Of a condition that holds: the entry's.
  std::array<std::byte, kAnswerBytesMax> bytes = {};

  // Of a function; of an erasure the version erased, 8 bytes.
  [[nodiscard]] std::span<const std::byte> answer() const noexcept {
    return std::span(bytes).first(answer_bytes);
  }
};

// One operation whose end is told by a call of over(): for callers that have very many of them under way, and
// no coroutine for each. It may begin again when it is over.
//
// Threads: that of its client, which outlives it, and does not go in the turn in which it was over.
class REFRACT_API OperationCall {
 public:
  OperationCall() = default;
  OperationCall(const OperationCall&) = delete;
  OperationCall& operator=(const OperationCall&) = delete;

  // kOk: over() is called later, not inside; key and value live until then. Another code: it is not under
  // way, and has not been executed. kUnavailable: the key's node was never reached, for which operate()
  // waits. REQUIRES: it is not under way.
  [[nodiscard]] Code begin(AsyncClient& client, Bytes key, const KeyOperation& operation);
  [[nodiscard]] bool is_under_way() const noexcept { return call_ != nullptr; }
  // Its caller does not want it any more, which is as if its time was over. True: it is not under way, has
  // not been executed and will not be. False: over() tells what became of it, soon where there is a server.
  // REQUIRES: it is under way.
  [[nodiscard]] bool give_up() noexcept;

 protected:
  // One that is under way is withdrawn, and what became of it is not told.
  ~OperationCall() {
    if (call_ != nullptr) [[unlikely]]
      leave();
  }
  // May begin and give up others, and this one.
  virtual void over(const Operated& outcome) noexcept = 0;

 private:
  friend class Operating;
  friend class client::AsyncCalls;
  friend class client::OperateCall;
  [[nodiscard]] Code begin_at_shard(client::AsyncCalls& calls, Bytes key, const KeyOperation& operation,
                                    uint64_t begun_ns);
  void was_told(const client::NumberedOutcome& outcome) noexcept;
  void leave() noexcept;

  client::OperateCall* call_ = nullptr;  // As AsyncClient::Get's.
  alignas(8) std::byte call_room_[256];
};

// `co_await` gives an Operated. Key and value live until then, or until it goes: then it is withdrawn, and
// what became of it is not told.
class [[nodiscard]] REFRACT_API Operating final : private OperationCall {
 public:
  Operating(const Operating&) = delete;
  Operating& operator=(const Operating&) = delete;
  ~Operating() = default;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<> waiter);
  [[nodiscard]] Operated await_resume();

 private:
  friend class AsyncClient;
  friend class client::AsyncCalls;
  Operating(client::AsyncCalls& calls, Bytes key, const KeyOperation& operation) noexcept
      : calls_(calls), key_(key), operation_(operation) {}
  // False: it is over.
  [[nodiscard]] bool continue_by(runtime::Task<Operated> slow);
  [[nodiscard]] bool is_to_be_read_first() const noexcept;
  void over(const Operated& outcome) noexcept override;

  client::AsyncCalls& calls_;
  Bytes key_;
  KeyOperation operation_;
  uint64_t begun_ns_ = 0;  // 0: not begun.
  std::coroutine_handle<> waiter_;
  Operated outcome_;
  runtime::Task<Operated> slow_;
};

}  // namespace refract
