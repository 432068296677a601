// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/owner/service/pull_fetcher.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;

namespace {

struct Piece {
  fabric::RemoteSpan remote;
  std::span<std::byte> local;
};

// Not inlined: the request is aligned more than a coroutine's frame.
[[nodiscard, gnu::noinline]] bool try_post(fabric::Channel& channel, const Piece& piece,
                                           runtime::Token token) noexcept {
  const fabric::Request request = {.token = token,
                                   .local = {piece.local.data(), piece.local.size()},
                                   .remote = piece.remote,
                                   .op = fabric::Op::kRead};
  return channel.post({&request, 1}) == 1;
}

}  // namespace

// The READs of one pull that are under way, oldest first, and the room that they take.
class PullFetcher::Fetching {
 public:
  Fetching(PullFetcher& fetcher, Session& session, const Pull& pull) noexcept
      : fetcher_(fetcher), session_(session), pull_(pull) {}
  Fetching(const Fetching&) = delete;
  Fetching& operator=(const Fetching&) = delete;
  ~Fetching() {
    if (taken_of_all_ > 0) fetcher_.all_.give_back(taken_of_all_);
    // No pull of a session that is over may continue.
    if (taken_ > 0 && !session_.is_over) session_.room.give_back(taken_);
  }

  [[nodiscard]] Task<Code> post(uint64_t at, uint64_t bytes) {
    Code code = co_await enter(session_.room, bytes, taken_);
    if (code == Code::kOk) code = co_await enter(fetcher_.all_, bytes, taken_of_all_);
    if (code != Code::kOk) co_return code;
    const RemotePointer first = pull_.source.address;
    const Piece piece{.remote = {.address = RemotePointer::at(first.region(), first.offset() + at),
                                 .key = pull_.source.key},
                      .local = pull_.target.subspan(at, bytes)};
    // Without a deadline: (P1).
    runtime::Pending operation = fetcher_.shard_.ops().begin(kForever_ns);
    if (operation.token() == 0) co_return Code::kOverloaded;
    for (;;) {
      if (fetcher_.shard_.now_ns() >= pull_.give_up_ns) co_return Code::kDeadlineExceeded;
      fabric::Channel* const channel = fetcher_.channel_of(pull_.to.session);
      if (channel == nullptr) co_return Code::kUnavailable;
      if (try_post(*channel, piece, operation.token())) break;
      co_await fetcher_.shard_.sleep_for(0);
    }
    ++fetcher_.counts_.reads;
    under_way_.push_back({.operation = std::move(operation), .bytes = bytes});
    co_return Code::kOk;
  }

  // Waits for all, with the first failure among `code` and theirs.
  [[nodiscard]] Task<Code> finish_all(Code code) {
    while (!under_way_.empty()) {
      const Code one = co_await finish_one();
      code = code == Code::kOk ? one : code;
    }
    co_return code;
  }

 private:
  struct UnderWay {
    runtime::Pending operation;
    uint64_t bytes;
  };

  // No pull waits with bytes of its own under way, for which those in front of it may be waiting.
  [[nodiscard]] Task<Code> enter(rpc::TransferRoom& room, uint64_t bytes, uint64_t& taken) {
    bool has_room = room.try_take(bytes);
    while (!has_room && !under_way_.empty()) {
      const Code code = co_await finish_one();
      if (code != Code::kOk) co_return code;
      has_room = room.try_take(bytes);
    }
    if (!has_room) {
      const Code code = co_await room.take(bytes, pull_.give_up_ns);
      if (code != Code::kOk) co_return code;
    }
    taken += bytes;
    co_return Code::kOk;
  }

  [[nodiscard]] Task<Code> finish_one() {
    // Awaiting changes it, which the check does not see.
    runtime::Pending& oldest = under_way_.front().operation;  // NOLINT(misc-const-correctness)
    const OpResult result = co_await oldest;
    const uint64_t bytes = under_way_.front().bytes;
    under_way_.pop_front();
    taken_ -= bytes;
    taken_of_all_ -= bytes;
    session_.room.give_back(bytes);
    fetcher_.all_.give_back(bytes);
    co_return result.code;
  }

  PullFetcher& fetcher_;
  Session& session_;
  const Pull& pull_;
  std::deque<UnderWay> under_way_;
  uint64_t taken_ = 0;  // Of the session's room.
  uint64_t taken_of_all_ = 0;
};

PullFetcher::~PullFetcher() {
  server_ = nullptr;
  for (auto& [bits, session] : sessions_) session->is_over = true;
}

void PullFetcher::start(const Pull& pull) {
  std::unique_ptr<Session>& session = sessions_[pull.to.session.bits];
  if (session == nullptr) session = std::make_unique<Session>(shard_, kPiecesPerSession * piece_bytes_);
  std::erase_if(session->pulls, [](const auto& running) { return running->task.done(); });
  Running& running =
      *session->pulls.emplace_back(std::make_unique<Running>(Running{.pull = pull, .task = {}}));
  running.task = fetch(*session, running.pull);
  running.task.start();
}

void PullFetcher::end(rpc::SessionId session) noexcept {
  const auto found = sessions_.find(session.bits);
  if (found == sessions_.end()) return;
  // Its room in the line of all goes to others, which may run and come here, before this is over.
  const std::unique_ptr<Session> ended = std::move(found->second);
  sessions_.erase(found);
  ended->is_over = true;
  counts_.failed += static_cast<uint64_t>(
      std::ranges::count_if(ended->pulls, [](const auto& running) { return !running->task.done(); }));
}

fabric::Channel* PullFetcher::channel_of(rpc::SessionId session) const noexcept {
  return server_ == nullptr ? nullptr : server_->channel(session);
}

uint64_t PullFetcher::next_piece(rpc::SessionId session, uint64_t bytes_left) const noexcept {
  if (bytes_left <= piece_bytes_) return bytes_left;
  const fabric::Channel* const channel = channel_of(session);
  const uint64_t shared = channel == nullptr ? 0 : channel->capabilities().shared_read_bytes_min;
  return shared == 0 || bytes_left < shared ? piece_bytes_ : shared;
}

Task<> PullFetcher::fetch(Session& session, const Pull& pull) {
  Code code = Code::kOk;
  {
    Fetching fetching(*this, session, pull);
    for (uint64_t at = 0; code == Code::kOk && at < pull.target.size();) {
      const uint64_t bytes = next_piece(pull.to.session, pull.target.size() - at);
      code = co_await fetching.post(at, bytes);
      at += bytes;
    }
    code = co_await fetching.finish_all(code);
  }
  if (session.is_over) co_return;
  ++(code == Code::kOk ? counts_.values : counts_.failed);
  if (code == Code::kOk) counts_.bytes += pull.target.size();
  taker_.pulled(pull, code);
}

}  // namespace refract::kv
