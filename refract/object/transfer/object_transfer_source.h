// SPDX-License-Identifier: Apache-2.0
// One member that gives bytes of a transfer, as the puller has it: a part of object_transfer.cc.
//
// Threads: only the shard that owns the objects.
#pragma once

#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "refract/object/transfer/object_transfer.h"
#include "refract/object/transfer/transfer_opening.h"

namespace refract::object {

class ObjectTransfer::Source final : private rpc::ReplyTaker {
 public:
  // Messages under way: a share of the session's credits, so that other calls find some.
  static constexpr size_t kMessagesMax = 32;
  static constexpr size_t kReadsMax = 48;
  // As long as the path is not known.
  static constexpr size_t kMessagesFirst = 8;
  static constexpr size_t kReadsFirst = 8;
  static constexpr int kFailuresMax = 3;
  // In place of a message's: the first of kProgressCalls.
  static constexpr uint32_t kProgressPlace = kMessagesMax;

  Source(ObjectTransfer& transfer, TransferSource given, bool is_followed)
      : transfer_(transfer), session_(*given.session), path_(*given.path), is_followed_(is_followed) {
    share.name = std::move(given.name);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() override;

  [[nodiscard]] bool is_running() const noexcept { return is_running_; }
  // May be asked, for the first time or again.
  [[nodiscard]] bool is_ready() const noexcept;
  [[nodiscard]] int attempts() const noexcept { return attempts_; }
  [[nodiscard]] uint64_t progress_ns() const noexcept { return progress_ns_; }
  [[nodiscard]] const PathMemory& path() const noexcept { return path_; }
  void start();
  // Nothing is awaited from it any more.
  void leave();
  // Nothing more is asked of it.
  void stop();
  // The object may go there.
  [[nodiscard]] runtime::Task<> say_done();
  void learn(uint64_t bytes, uint64_t ns) { path_.learn(share.by, bytes, ns); }

  TransferShare share;

 private:
  struct Message {
    PieceQueue::Piece piece;
    uint64_t call = 0;  // 0: none.
    uint64_t sent_ns = 0;
    uint64_t brought_before = 0;
  };
  struct Read {
    PieceQueue::Piece piece;
    uint64_t posted_ns = 0;
    uint64_t brought_before = 0;
    runtime::Pending operation;
  };

  [[nodiscard]] runtime::Task<> work();
  void choose_way();
  [[nodiscard]] runtime::Task<Code> open();
  [[nodiscard]] Code take_answer(const TransferOpening& opening, std::span<const std::byte> answer);
  [[nodiscard]] uint32_t wait_ms() const noexcept;
  // Until nothing is left to be taken.
  [[nodiscard]] runtime::Task<Code> receive();
  void ask_messages();
  // --- Of what is still coming to it: object_transfer_follow.cc ---
  [[nodiscard]] bool is_whole() const noexcept { return ready_ >= transfer_.order_.parts.filled_bytes(); }
  void ask_progress();
  void on_progress(uint32_t place, const runtime::OpResult& reply) noexcept;
  [[nodiscard]] bool has_nothing_to_do() const noexcept;
  void give_up_progress() noexcept;
  // Until a message or a READ has come, or more is ready.
  [[nodiscard]] runtime::Task<> wait_for_news();
  void wake() noexcept;
  [[nodiscard]] size_t messages_wanted() const noexcept;
  void on_reply(uint32_t place, const runtime::OpResult& reply) noexcept override;
  void give_up_messages();
  void note_brought(PieceQueue::Piece piece);
  [[nodiscard]] runtime::Task<Code> read();
  void post_reads();
  // False: nothing can be posted now.
  [[nodiscard]] bool post_one();
  [[nodiscard]] size_t reads_wanted() const noexcept;
  [[nodiscard]] uint64_t read_bytes() const noexcept;
  // Of an answer with a head of so many bytes.
  [[nodiscard]] uint64_t message_bytes(size_t head_bytes) const noexcept;
  [[nodiscard]] runtime::Task<> finish_one();
  [[nodiscard]] runtime::Task<Code> check();
  [[nodiscard]] runtime::Task<Code> check_piece(PieceQueue::Piece piece);
  void brought(PieceQueue::Piece piece, uint64_t since_ns, uint64_t brought_before);
  void fail(Code code) noexcept {
    if (code_ == Code::kOk) code_ = code;
  }
  [[nodiscard]] Code outcome_of(const runtime::OpResult& reply) const noexcept;
  [[nodiscard]] uint64_t give_up_ns() const noexcept;
  void stay_awake_for(uint64_t bytes) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return session_.state() == rpc::Session::State::kOpen; }
  void store(uint64_t offset, std::span<const std::byte> bytes) noexcept;
  [[nodiscard]] std::byte* room_at(uint64_t offset) const noexcept {
    return transfer_.order_.room.data() + offset;
  }

  ObjectTransfer& transfer_;
  rpc::Session& session_;
  PathMemory& path_;
  runtime::Task<> task_;
  const bool is_followed_;  // It may have a part only.
  bool is_running_ = false;
  bool is_left_ = false;
  bool has_fallen_back_ = false;  // From READs, which this member does not serve.
  int attempts_ = 0;
  int failures_ = 0;
  Code code_ = Code::kOk;
  uint64_t transfer_number_ = 0;  // 0: none is open there.
  uint64_t progress_ns_ = 0;
  uint64_t ready_ = 0;                                           // What can be asked of it.
  uint64_t news_ns_ = 0;                                         // When it had more than before.
  std::array<uint64_t, wire::kProgressCalls> progress_calls_{};  // Under way; 0: none.
  size_t progress_under_way_ = 0;
  uint64_t asked_ready_ = 0;  // So much the last of them waits for.
  std::vector<wire::TransferPiece> pieces_;
  std::array<Message, kMessagesMax> messages_;
  size_t messages_under_way_ = 0;
  runtime::Token waiter_ = 0;
  std::deque<Read> reads_;  // Under way, the oldest first.
  std::vector<PieceQueue::Piece> unchecked_;
};

}  // namespace refract::object
