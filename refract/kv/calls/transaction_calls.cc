// SPDX-License-Identifier: Apache-2.0
#include "refract/kv/calls/transaction_calls.h"

#include <algorithm>
#include <array>

#include "refract/base/units.h"
#include "refract/kv/calls/batch_body.h"
#include "refract/kv/calls/rpc_client_parts.h"
#include "refract/kv/layout/wire.h"
#include "refract/memory/remote_visible.h"

namespace refract::kv {

using runtime::OpResult;
using runtime::Task;
using TransactionMethod = wire::TransactionMethod;

namespace {

constexpr uint64_t kStagingPause_ns = 50 * kMicrosecond_ns;
constexpr uint64_t kSettleTimeout_ns = kSecond_ns;
// More are asked for when there are fewer.
constexpr size_t kWordsFew = 8;

}  // namespace

std::optional<TransactionName> WordPool::take() {
  if (words_.empty()) return std::nullopt;
  const Word word = words_.front();
  words_.pop_front();
  return TransactionName{.place = word.place, .number = word.next};
}

void WordPool::give_back(const TransactionName& name) {
  const uint64_t next = name.number + 1;
  if (next >> kNumbersShift != name.number >> kNumbersShift) return bring_back(name);
  words_.push_back({.place = name.place, .next = next});
}

void WordPool::add(const wire::GivenWord& word) {
  words_.push_back({.place = {word.place}, .next = word.first});
}

std::vector<DecisionPlace> WordPool::take_ended(size_t most) {
  const auto count = static_cast<ptrdiff_t>(std::min(most, ended_.size()));
  std::vector<DecisionPlace> taken(ended_.begin(), ended_.begin() + count);
  ended_.erase(ended_.begin(), ended_.begin() + count);
  return taken;
}

void WordPool::clear() noexcept {
  words_.clear();
  ended_.clear();
}

TransactionCalls::~TransactionCalls() {
  for (const Leaving& one : leaving_) {
    if (one.id != 0) (void)session_.finish(one.id);
  }
}

Task<Result<TransactionName>> TransactionCalls::begin(uint64_t deadline_ns, bool is_far) {
  look_at_session();
  WordPool& pool = is_far ? far_words_ : words_;
  if (pool.count() < kWordsFew) ask_for_words(is_far);
  if (const auto name = pool.take()) co_return *name;
  const std::vector<DecisionPlace> ended = pool.take_ended(wire::kWordsPerCall);
  const wire::WordsRequest request{.words = wire::kWordsPerCall,
                                   .is_far = is_far ? uint16_t{1} : uint16_t{0},
                                   .brought_back = static_cast<uint32_t>(ended.size())};
  const OpResult result = co_await session_.call({.method = static_cast<uint16_t>(TransactionMethod::kWords),
                                                  .head = std::as_bytes(std::span(&request, 1)),
                                                  .tail = std::as_bytes(std::span(ended))},
                                                 deadline_ns);
  if (result.code != Code::kOk) co_return fail(unsent(result.code));
  if (words_opened_ns_ != session_.opened_ns()) co_return fail(Code::kUnavailable);
  take_words(result.bytes, pool);
  const auto name = pool.take();
  if (!name) co_return fail(Code::kOverloaded);
  co_return *name;
}

Task<Code> TransactionCalls::look_at_home(uint64_t deadline_ns) {
  look_at_session();
  const wire::WordsRequest request{.words = 0, .is_far = 0, .brought_back = 0};
  const OpResult result = co_await session_.call({.method = static_cast<uint16_t>(TransactionMethod::kWords),
                                                  .head = std::as_bytes(std::span(&request, 1)),
                                                  .tail = {}},
                                                 deadline_ns);
  if (result.code != Code::kOk) co_return unsent(result.code);
  take_words(result.bytes, words_);
  co_return Code::kOk;
}

// What an earlier session was given is not this one's.
void TransactionCalls::look_at_session() {
  if (words_opened_ns_ == session_.opened_ns()) return;
  words_.clear();
  far_words_.clear();
  words_opened_ns_ = session_.opened_ns();
  is_asking_for_words_ = {};
}

void TransactionCalls::end(const TransactionName& name, bool is_refused, uint64_t opened_ns, bool is_far) {
  look_at_session();
  if (opened_ns != words_opened_ns_) return;
  WordPool& pool = is_far ? far_words_ : words_;
  if (is_refused) {
    pool.give_back(name);
  } else {
    pool.bring_back(name);
  }
}

void TransactionCalls::take_words(std::span<const std::byte> bytes, WordPool& words) {
  const auto reply = wire::take<wire::WordsReply>(bytes);
  if (!reply) return;
  home_ = {.generation = reply->generation, .wall_ns = reply->wall_ns, .seen_ns = shard_.refresh_now()};
  while (const auto word = wire::take<wire::GivenWord>(bytes)) {
    if (word->count != 0) words.add(*word);
  }
}

// Before there are none, so that no transaction waits for them.
void TransactionCalls::ask_for_words(bool is_far) {
  WordPool& pool = is_far ? far_words_ : words_;
  bool& is_asking = is_asking_for_words_[is_far ? 1 : 0];
  if (is_asking || pool.count() == 0) return;
  const std::vector<DecisionPlace> ended = pool.take_ended(wire::kWordsPerCall);
  const wire::WordsRequest request{.words = wire::kWordsPerCall,
                                   .is_far = is_far ? uint16_t{1} : uint16_t{0},
                                   .brought_back = static_cast<uint32_t>(ended.size())};
  const uint32_t place = free_place();
  leaving_[place] = {.id = 0, .is_for_words = true, .is_far = is_far};
  leaving_[place].id = session_.start({.method = static_cast<uint16_t>(TransactionMethod::kWords),
                                       .head = std::as_bytes(std::span(&request, 1)),
                                       .tail = std::as_bytes(std::span(ended))},
                                      *this, place);
  is_asking = leaving_[place].id != 0;
  if (is_asking) return;
  for (const DecisionPlace one : ended) pool.bring_back({.place = one, .number = 0});
}

// Only one body is on its way; others wait.
class TransactionCalls::Staging {
 public:
  explicit Staging(TransactionCalls& calls) noexcept : calls_(calls) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging() {
    if (is_taken_) calls_.is_staging_ = false;
  }
  [[nodiscard]] bool take() noexcept {
    if (calls_.is_staging_) return false;
    calls_.is_staging_ = is_taken_ = true;
    return true;
  }

 private:
  TransactionCalls& calls_;
  bool is_taken_ = false;
};

namespace {

// What stands in front of the body.
std::vector<std::byte> head_of(const wire::PartRequest& part, const TransactionCalls::Terms& terms) {
  const auto places = std::as_bytes(terms.far_places);
  std::vector<std::byte> head(sizeof(wire::FarDecideRequest) + places.size());
  size_t used = 0;
  const auto add = [&](std::span<const std::byte> bytes) {
    std::ranges::copy(bytes, head.begin() + static_cast<ptrdiff_t>(used));
    used += bytes.size();
  };
  const bool has_generation = terms.name.place.is_far() || !terms.far_places.empty();
  if (has_generation) add(std::as_bytes(std::span(&terms.generation, 1)));
  const std::array<uint32_t, 2> parts = {static_cast<uint32_t>(terms.far_places.size()), 0};
  if (!terms.far_places.empty()) add(std::as_bytes(std::span(parts)));
  add(std::as_bytes(std::span(&part, 1)));
  add(places);
  head.resize(used);
  return head;
}

}  // namespace

Task<Result<TransactionCalls::Held>> TransactionCalls::change(TransactionMethod method, RpcBatch& batch,
                                                              Terms terms) {
  if (const Code code = check_batch(batch); code != Code::kOk) co_return fail(code);
  const std::vector<std::byte> body = body_of_batch(batch);
  const bool is_far = terms.name.place.is_far();
  const auto places = std::as_bytes(terms.far_places);
  const size_t head_bytes = sizeof(wire::FarDecideRequest) + places.size();
  const bool fits = head_bytes + body.size() <= session_.payload_bytes_max();
  Staging staging(*this);
  if (!fits) {
    while (!staging.take()) {
      if (shard_.now_ns() >= terms.deadline_ns) co_return fail(Code::kUnavailable);
      co_await shard_.sleep_for(kStagingPause_ns);
    }
    const Code code = co_await stage(body, terms.deadline_ns);
    if (code != Code::kOk) co_return fail(code);
  }
  const uint64_t now_ns = shard_.refresh_now();
  const wire::PartRequest request{.place = terms.name.place.bits,
                                  .number = terms.name.number,
                                  .tried_ns = now_ns - std::min(now_ns, terms.begun_ns),
                                  .not_after_wall_ns = terms.not_after_wall_ns,
                                  .batch = {.conditions = static_cast<uint16_t>(batch.conditions.size()),
                                            .writes = static_cast<uint16_t>(batch.writes.size()),
                                            .staged_bytes = fits ? 0 : static_cast<uint32_t>(body.size()),
                                            .identity = {}}};
  const std::span<const std::byte> tail = fits ? body : std::span<const std::byte>();
  const std::vector<std::byte> head = head_of(request, terms);
  const TransactionMethod called = is_far           ? TransactionMethod::kPrepareFar
                                   : places.empty() ? method
                                                    : TransactionMethod::kDecideFar;
  const OpResult result = co_await session_.call(
      {.method = static_cast<uint16_t>(called), .head = head, .tail = tail}, terms.deadline_ns);
  if (result.code != Code::kOk) co_return fail(result.code);
  std::span<const std::byte> bytes = result.bytes;
  const auto reply = wire::take<wire::PartReply>(bytes);
  if (!reply) co_return fail(Code::kMalformed);
  const BatchAnswer answer = take_batch_reply(batch, reply->batch, bytes);
  if (answer.code != Code::kOk) co_return fail(answer.code);
  std::vector<std::byte> written(answer.bytes);
  if (!answer.here.empty()) copy_possibly_torn(written.data(), answer.here.data(), answer.here.size());
  if (answer.view != 0) {
    const Code code =
        co_await read_rest(answer.view, std::span(written).subspan(answer.here.size()), terms.deadline_ns);
    // It has happened, but what it made is lost.
    if (code != Code::kOk) co_return fail(Code::kIndeterminate);
  }
  take_written(batch, written);
  co_return Held{
      .looked_wall_ns = reply->looked_wall_ns, .expires_wall_ns = reply->expires_wall_ns, .sent_ns = now_ns};
}

Task<Code> TransactionCalls::stage(std::span<const std::byte> body, uint64_t deadline_ns) {
  const size_t piece_bytes = session_.payload_bytes_max() - sizeof(wire::BatchPieceRequest);
  for (size_t offset = 0; offset < body.size(); offset += piece_bytes) {
    const wire::BatchPieceRequest request{.offset = static_cast<uint32_t>(offset), .reserved = 0};
    const OpResult staged =
        co_await session_.call({.method = static_cast<uint16_t>(TransactionMethod::kPiece),
                                .head = std::as_bytes(std::span(&request, 1)),
                                .tail = body.subspan(offset, std::min(piece_bytes, body.size() - offset))},
                               deadline_ns);
    if (staged.code != Code::kOk) co_return unsent(staged.code);
  }
  co_return Code::kOk;
}

Task<Code> TransactionCalls::read_rest(uint64_t view, std::span<std::byte> written, uint64_t deadline_ns) {
  for (size_t offset = 0; offset < written.size();) {
    const wire::AnswerRequest request{.view = view, .offset = static_cast<uint32_t>(offset), .reserved = 0};
    const OpResult piece =
        co_await session_.call({.method = static_cast<uint16_t>(TransactionMethod::kAnswer),
                                .head = std::as_bytes(std::span(&request, 1)),
                                .tail = {}},
                               deadline_ns);
    if (piece.code != Code::kOk) co_return piece.code;
    if (piece.bytes.empty() || piece.bytes.size() > written.size() - offset) co_return Code::kMalformed;
    copy_possibly_torn(written.data() + offset, piece.bytes.data(), piece.bytes.size());
    offset += piece.bytes.size();
  }
  co_return Code::kOk;
}

Task<Code> TransactionCalls::ask_outcome(TransactionName name, uint64_t deadline_ns) {
  const wire::NameRequest request{.place = name.place.bits, .number = name.number};
  const OpResult result =
      co_await session_.call({.method = static_cast<uint16_t>(TransactionMethod::kOutcome),
                              .head = std::as_bytes(std::span(&request, 1)),
                              .tail = {}},
                             deadline_ns);
  co_return result.code;
}

Task<Result<std::vector<wire::OpenFarPart>>> TransactionCalls::open_far(uint64_t deadline_ns) {
  std::vector<wire::OpenFarPart> parts;
  for (;;) {
    const wire::OpenFarRequest request{.from = parts.size()};
    const OpResult result =
        co_await session_.call({.method = static_cast<uint16_t>(TransactionMethod::kOpenFar),
                                .head = std::as_bytes(std::span(&request, 1)),
                                .tail = {}},
                               deadline_ns);
    if (result.code != Code::kOk) co_return fail(unsent(result.code));
    std::span<const std::byte> body = result.bytes;
    const auto reply = wire::take<wire::OpenFarReply>(body);
    if (!reply || body.size() != reply->told * sizeof(wire::OpenFarPart)) co_return fail(Code::kMalformed);
    for (uint32_t i = 0; i < reply->told; ++i) parts.push_back(*wire::take<wire::OpenFarPart>(body));
    if (reply->told == 0 || parts.size() >= reply->parts) co_return std::move(parts);
  }
}

Task<Result<uint64_t>> TransactionCalls::give_up(uint32_t member, wire::Fate fate, uint64_t deadline_ns) {
  const wire::GiveUpRequest request{.member = member, .reserved = 0, .fate = static_cast<uint64_t>(fate)};
  const OpResult result = co_await session_.call({.method = static_cast<uint16_t>(TransactionMethod::kGiveUp),
                                                  .head = std::as_bytes(std::span(&request, 1)),
                                                  .tail = {}},
                                                 deadline_ns);
  if (result.code != Code::kOk) co_return fail(result.code);
  std::span<const std::byte> body = result.bytes;
  const auto reply = wire::take<wire::GiveUpReply>(body);
  if (!reply) co_return fail(Code::kMalformed);
  co_return reply->ended;
}

// Of a call that changes nothing that counts.
Code TransactionCalls::unsent(Code code) const noexcept {
  return code == Code::kIndeterminate ? Code::kUnavailable : code;
}

uint32_t TransactionCalls::free_place() {
  const auto free = std::ranges::find(leaving_, uint64_t{0}, &Leaving::id);
  if (free != leaving_.end()) return static_cast<uint32_t>(free - leaving_.begin());
  leaving_.emplace_back();
  return static_cast<uint32_t>(leaving_.size() - 1);
}

rpc::Call TransactionCalls::settling(const wire::FarSettleRequest& request) noexcept {
  const bool is_far = DecisionPlace{request.name.place}.is_far();
  const auto bytes = std::as_bytes(std::span(&request, 1));
  return {
      .method = static_cast<uint16_t>(is_far ? TransactionMethod::kSettleFar : TransactionMethod::kSettle),
      .head = is_far ? bytes : bytes.first(sizeof(wire::NameRequest)),
      .tail = {}};
}

void TransactionCalls::settle(const TransactionName& name, wire::Fate fate) {
  std::erase_if(later_, [](const Task<>& task) { return task.done(); });
  const wire::FarSettleRequest request{.name = {.place = name.place.bits, .number = name.number},
                                       .fate = static_cast<uint64_t>(fate)};
  const uint32_t place = free_place();
  leaving_[place].is_for_words = false;
  leaving_[place].id = session_.start(settling(request), *this, place);
  if (leaving_[place].id != 0 || session_.state() != rpc::Session::State::kOpen) return;
  later_.push_back(settle_later(request));
  later_.back().start();
}

// In turn with other callers.
Task<> TransactionCalls::settle_later(wire::FarSettleRequest request) {
  const OpResult settled = co_await session_.call(settling(request), shard_.now_ns() + kSettleTimeout_ns);
  static_cast<void>(settled);
}

void TransactionCalls::on_reply(uint32_t place, const OpResult& reply) noexcept {
  leaving_[place].id = 0;
  if (!leaving_[place].is_for_words) return;
  const bool is_far = leaving_[place].is_far;
  is_asking_for_words_[is_far ? 1 : 0] = false;
  if (reply.code != Code::kOk || words_opened_ns_ != session_.opened_ns()) return;
  take_words(reply.bytes, is_far ? far_words_ : words_);
}

}  // namespace refract::kv
