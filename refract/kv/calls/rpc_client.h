// SPDX-License-Identifier: Apache-2.0
// A table reached by calls to its owner: the `rpc` path.
//
// Coroutines for callers that have a shard; for the blocking client get_and_wait and put_and_wait, which take
// no coroutine while key and value fit one message. Values beyond that travel in pieces, several under way at
// once; or by one-sided requests, straight from and into the caller's memory, where the channel says that
// this is better. Then an operation that ends early (its deadline, its task dropped) while such a request is
// under way closes the session, because only a closed channel leaves the caller's memory alone.
//
// Outcomes: the contract's codes as the owner gave them. kUnavailable: the session is closed and nothing was
// changed. kDeadlineExceeded: likewise, no answer in time. kIndeterminate: a put or erase was sent, and
// whether it was executed is unknown. A busy owner (kOverloaded) is asked again until the deadline.
// kMalformed: the owner's answer made no sense.
//
// A deadline is a moment of the shard's clock; 0 stands for "timeout_ns from now", counted from each message
// of a large value. Keys and values given must live until the task has ended. The tasks use the client: drop
// them first.
//
// Threads: used only by its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/units.h"
#include "refract/kv/calls/rpc_types.h"
#include "refract/kv/layout/hashed_key.h"
#include "refract/kv/layout/wire.h"
#include "refract/rpc/session.h"
#include "refract/rpc/transfer_room.h"
#include "refract/runtime/shard.h"
#include "refract/runtime/task.h"

namespace refract::kv {

class Lender;

struct RpcClientOptions {
  uint64_t timeout_ns = 5 * kSecond_ns;
  size_t pipeline =
      16;  // Calls that one operation has under way at once; the session's credits bound them too.
  // A write with an identity whose answer got lost is sent again, until its deadline, when the session
  // reopens by itself.
  bool repeats_writes = true;
  // Of the domain whose channel the session has; outlives the client. Where the channel says that the peer's
  // READs need no CPU of this process, a put that fits no message is one call, and the owner READs the value.
  // Null: large values travel otherwise.
  Lender* lender = nullptr;
  uint64_t pull_bytes_min = 0;  // Shorter ones travel in pieces all the same.
};

class RpcClient final : private rpc::LateReplies {
 public:
  // Both outlive the client. Of several clients of one session the latest closes what late replies open.
  RpcClient(rpc::Session& session, runtime::Shard& shard, const RpcClientOptions& options = {});
  RpcClient(const RpcClient&) = delete;
  RpcClient& operator=(const RpcClient&) = delete;
  ~RpcClient();

  [[nodiscard]] runtime::Task<Result<Got>> get(std::span<const std::byte> key, ValueSink& sink,
                                               uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Result<Got>> exists(std::span<const std::byte> key, uint64_t deadline_ns = 0);
  // The new version.
  [[nodiscard]] runtime::Task<Result<uint64_t>> put(std::span<const std::byte> key,
                                                    std::span<const std::byte> value,
                                                    RpcPutOptions options = {}, uint64_t deadline_ns = 0);
  // The handle of a draft that has the value, for wire::OperationKind::kCommit. Of the options only `shared`
  // counts, and `ttl_ns`, which says whether it will expire. It ends with the session.
  [[nodiscard]] runtime::Task<Result<uint64_t>> draft(std::span<const std::byte> key,
                                                      std::span<const std::byte> value,
                                                      RpcPutOptions options = {}, uint64_t deadline_ns = 0);
  void abandon(uint64_t draft) noexcept;
  // The version that was erased; `if_version` 0: any.
  [[nodiscard]] runtime::Task<Result<uint64_t>> erase(std::span<const std::byte> key, uint64_t if_version = 0,
                                                      uint64_t deadline_ns = 0, RpcAttempt attempt = {});

  struct ScannedKey {
    std::string key;
    uint64_t version = 0;
    uint64_t value_bytes = 0;
  };
  struct Page {
    std::vector<ScannedKey> keys;  // May be empty although more follows.
    uint64_t next = 0;             // The next page's cursor; 0: this was the last.
  };
  [[nodiscard]] runtime::Task<Result<Page>> scan(uint64_t cursor, uint64_t keys_min,
                                                 uint64_t deadline_ns = 0);

  // Many at once, in no particular order. Each item gets its own outcome.
  struct GetItem {
    std::span<const std::byte> key;
    ValueSink* sink = nullptr;
    Result<Got> result = fail(Code::kUnavailable);
    KeyHash hash = {};  // For ways that need one.
  };
  [[nodiscard]] runtime::Task<> multi_get(std::span<GetItem> items, uint64_t deadline_ns = 0);
  struct PutItem {
    std::span<const std::byte> key;
    std::span<const std::byte> value;
    RpcPutOptions options;
    Result<uint64_t> result = fail(Code::kUnavailable);
    KeyHash hash = {};  // For ways that need one.
  };
  [[nodiscard]] runtime::Task<> multi_put(std::span<PutItem> items, uint64_t deadline_ns = 0);

  // All changes of the batch, or none: a condition's code, kInvalidArgument (a key twice, an add to what is
  // no number), kTooLarge (kBatchKeysMax, kBatchBytesMax). The batch lives as long as the task.
  [[nodiscard]] runtime::Task<Result<>> change(RpcBatch& batch, uint64_t deadline_ns = 0,
                                               RpcAttempt attempt = {});

  [[nodiscard]] runtime::Task<Result<wire::StatReply>> stat(uint64_t deadline_ns = 0);
  [[nodiscard]] runtime::Task<Result<wire::PingReply>> ping(uint64_t nonce, uint64_t deadline_ns = 0);

  // Blocking forms: they drive the shard. REQUIRES: not called from inside a poll, and so from no task.
  [[nodiscard]] Result<Got> get_and_wait(std::span<const std::byte> key, ValueSink& sink,
                                         uint64_t deadline_ns = 0);
  [[nodiscard]] Result<uint64_t> put_and_wait(std::span<const std::byte> key,
                                              std::span<const std::byte> value,
                                              const RpcPutOptions& options = {}, uint64_t deadline_ns = 0,
                                              rpc::Meanwhile* meanwhile = nullptr);
  [[nodiscard]] Result<uint64_t> erase_and_wait(std::span<const std::byte> key, uint64_t if_version = 0,
                                                uint64_t deadline_ns = 0, const RpcAttempt& attempt = {});

  // For the shortest way of all: rpc_client_attempts.h.
  class GetAttempt;
  class PutAttempt;

  [[nodiscard]] rpc::Session& session() noexcept { return session_; }

  // The shard may go before the client from now on. REQUIRES: nothing is under way.
  void retire() noexcept { calls_watch_ = {}; }

 private:
  // Of uploads and views: a session has few places for them.
  [[nodiscard]] std::optional<rpc::Call> close_late(uint16_t method,
                                                    const runtime::OpResult& reply) noexcept override;

  class StagedPlace;
  class StagedBatch;
  class OpenHandle;
  class RetryBudget;
  class Posted;
  class TimedCall;
  struct Keyed;
  struct Writing;
  struct ViewRest;
  struct Upload;
  struct Transfer;
  class Attempt;
  class Group;
  class CallBatcher;
  class GetBatch;
  class ManyBatch;
  class PutManyBatch;
  class PutBatch;
  struct PutPlan;
  struct Left;
  struct GetJob;
  struct PutJob;

  [[nodiscard]] uint64_t deadline_or_default(uint64_t deadline_ns) const noexcept;
  // Sends and drives the shard until there is an answer. `deadline_ns` 0: within the options' timeout.
  [[nodiscard]] runtime::OpResult ask(const rpc::Call& call, uint64_t deadline_ns,
                                      rpc::Meanwhile* meanwhile = nullptr);
  [[nodiscard]] Code read_outcome(Code code) const noexcept;
  [[nodiscard]] runtime::Task<bool> may_repeat(Code code, RetryBudget& budget);
  [[nodiscard]] runtime::Task<bool> may_write_again(Code code, Writing& writing, RetryBudget& budget);
  [[nodiscard]] runtime::Task<bool> is_open_again(uint64_t deadline_ns);

  [[nodiscard]] runtime::Task<runtime::OpResult> call_keyed(Keyed call, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<runtime::OpResult> call_with_staged_key(Keyed call, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> change_once(RpcBatch& batch, std::span<const std::byte> body,
                                                Writing& writing, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> stage_batch(std::span<const std::byte> body, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> take_batch_answer(RpcBatch& batch, std::span<const std::byte> bytes,
                                                      Writing& writing, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> transfer(Transfer& job);
  [[nodiscard]] runtime::Task<> read_pieces(Transfer& job);
  [[nodiscard]] runtime::Task<> write_pieces(Transfer& job);
  [[nodiscard]] std::vector<uint32_t> sort_out(GetJob& job, bool goes_together) const;
  [[nodiscard]] runtime::Task<> get_items(GetJob& job);
  [[nodiscard]] bool may_share(const PutItem& item) const noexcept;
  [[nodiscard]] PutPlan plan_puts(std::span<PutItem> items, std::vector<uint32_t>& alone) const;
  [[nodiscard]] runtime::Task<> put_items(PutJob& job);
  [[nodiscard]] runtime::Task<Code> read_view(ViewRest rest, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> read_rest(ViewRest rest, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> read_window(ViewRest rest, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<Got>> get_once(std::span<const std::byte> key, ValueSink& sink,
                                                    uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<Page>> scan_once(uint64_t cursor, uint64_t keys_min,
                                                      uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put_once(Keyed call, std::span<const std::byte> value,
                                                         Writing& writing, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put_large(Keyed call, std::span<const std::byte> value,
                                                          Writing& writing, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put_pulled(Keyed call, std::span<const std::byte> value,
                                                           Writing& writing, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> draft_once(Keyed call, std::span<const std::byte> value,
                                                           uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<runtime::OpResult> have_pulled(Keyed call, std::span<const std::byte> value,
                                                             uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<Upload>> begin_upload(Keyed call, uint64_t value_bytes, Writing& writing,
                                                           uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> write_window(Posted& posted, Upload upload,
                                                 std::span<const std::byte> value, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Code> bring(Upload upload, std::span<const std::byte> value,
                                          uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put_pieces(Upload upload, std::span<const std::byte> value,
                                                           Writing& writing, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> put_window(Upload upload, std::span<const std::byte> value,
                                                           Writing& writing, uint64_t deadline_ns);
  [[nodiscard]] runtime::Task<Result<uint64_t>> commit(uint64_t upload, Writing& writing,
                                                       uint64_t deadline_ns);
  // Whether one-sided requests carry large values over this session.
  [[nodiscard]] uint32_t one_sided_bytes_min() const noexcept;
  // A sleep in the middle of a value's way, and the wake-up, would cost as much as the way.
  void stay_awake_while_moving(uint64_t bytes) noexcept;
  [[nodiscard]] bool may_be_pulled(uint64_t bytes, const SharedBuffer* shared) const noexcept;
  [[nodiscard]] bool prefers_one_sided() const noexcept { return one_sided_bytes_min() > 0; }

  // Gives up what is late, as long as there are attempts' calls under way.
  [[nodiscard]] runtime::Task<> watch_calls();

  rpc::Session& session_;
  runtime::Shard& shard_;
  RpcClientOptions options_;
  size_t body_bytes_max_;
  std::array<bool, wire::kStagedKeysPerSession> places_in_use_{};
  bool is_batch_staged_ = false;  // One at a time.
  rpc::TransferRoom reading_;
  rpc::TransferRoom writing_;
  rpc::TransferRoom pulled_;  // Of calls, not of bytes.
  bool is_pull_refused_ = false;
  uint64_t refused_opened_ns_ = 0;   // By the owner that this session had then.
  TimedCall* first_call_ = nullptr;  // Of attempts: the one whose time is over first.
  TimedCall* last_call_ = nullptr;
  runtime::Task<> calls_watch_;
  size_t attempt_count_ = 0;  // Under way.
  wire::Handle late_{};       // What close_late() closes.
  std::unique_ptr<CallBatcher> batcher_;
};

}  // namespace refract::kv
