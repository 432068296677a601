// SPDX-License-Identifier: Apache-2.0
#include "refract/doors/exec/run_body.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "refract/doors/exec/look_together.h"
#include "refract/doors/redis/changing.h"
#include "refract/doors/redis/handlers.h"
#include "refract/kv/layout/contract.h"
#include "refract/txn/attempts.h"

namespace refract::doors::redis {

using runtime::Task;
using txn::Attempts;

namespace {

// So much is copied, and so many commands run, before others have their turn.
constexpr uint64_t kWorkOfTurn = uint64_t{1} << 20;
constexpr size_t kStepsOfTurn = 1024;
// A value lies in the batch, and in the message.
constexpr size_t kCopies = 3;

// One transaction with all its attempts.
class Run {
 public:
  Run(Store& store, const Transaction& transaction)
      : store_(store),
        transaction_(transaction),
        begun_ns_(store.shard.refresh_now()),
        attempts_(begun_ns_, transaction.timeout_ns, store.client->new_request().sequence ^ begun_ns_),
        room_(store) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  ~Run() = default;

  [[nodiscard]] Task<Ended> run();

 private:
  // Of one attempt.
  [[nodiscard]] Task<Ended> attempt();
  [[nodiscard]] Task<Code> read();
  [[nodiscard]] Task<Code> read_heads();
  [[nodiscard]] Task<Code> read_values();
  [[nodiscard]] Task<> pass();
  [[nodiscard]] Task<Ended> commit();
  [[nodiscard]] Task<Ended> commit(Batch& batch);
  // Those of the watched keys first; then what was read.
  [[nodiscard]] std::vector<Watch> conditions() const;
  // Whether what was read says already that a watched key has changed.
  [[nodiscard]] bool has_changed() const;
  [[nodiscard]] bool is_too_much(std::span<const Watch> conditions) const;
  [[nodiscard]] Task<std::optional<Code>> look_at_watched();
  [[nodiscard]] static Ended failed(Code code) { return {.ending = Ending::kFailed, .code = code}; }

  Store& store_;
  const Transaction& transaction_;
  const uint64_t begun_ns_;
  Attempts attempts_;
  ChangingRoom room_;
  Body body_;
  Replies replies_;
  std::vector<size_t> ends_;
};

void take(Body& body, Body::Entry& entry, const Result<Got>& got) {
  entry.version = got ? got->version : 0;
  entry.value_bytes = got ? got->value_bytes : 0;
  entry.expires_wall_ns = got ? got->expires_wall_ns : 0;
  body.is_read(entry);
}

bool is_told(const Result<Got>& got) noexcept {
  return got.has_value() || got.code() == Code::kNotFound;
}

// The heads of what lacks them, and the lengths of the values that are to be read.
Task<Code> Run::read_heads() {
  size_t bytes = 0;
  for (Body::Entry& entry : body_.entries()) {
    if (entry.known >= entry.needed) continue;
    Result<Got> got = store_.client->exists_at_once(entry.key);
    if (!is_told(got)) got = co_await store_.client->exists(entry.key);
    if (!is_told(got)) co_return got.code();
    if (entry.needed == Body::Depth::kHead) {
      take(body_, entry, got);
    } else if (got) {
      bytes += got->value_bytes;
    }
  }
  for (const Body::Entry& entry : body_.entries()) bytes += entry.value.size();
  if (bytes > Body::kBytesMax) co_return Code::kTooLarge;
  co_await room_.take(kCopies * transaction_.lent_bytes + kCopies * bytes);
  co_return Code::kOk;
}

Task<Code> Run::read_values() {
  std::vector<GetItem> items;
  std::vector<Body::Entry*> entries;
  entries.reserve(body_.entries().size());
  for (Body::Entry& entry : body_.entries()) {
    if (entry.known < entry.needed) entries.push_back(&entry);
  }
  items.reserve(entries.size());
  for (Body::Entry* const entry : entries) {
    items.push_back({.key = entry->key, .value = std::move(entry->value)});
  }
  if (items.empty()) co_return Code::kOk;
  co_await store_.client->multi_get(items);
  size_t bytes = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!is_told(items[i].result)) co_return items[i].result.code();
    take(body_, *entries[i], items[i].result);
    entries[i]->value = items[i].result ? std::move(items[i].value) : std::string();
    bytes += entries[i]->value.size();
  }
  co_return bytes > Body::kBytesMax ? Code::kTooLarge : Code::kOk;
}

Task<Code> Run::read() {
  const Code code = co_await read_heads();
  if (code != Code::kOk) co_return code;
  const Code read = co_await read_values();
  co_return read;
}

// All commands, each on what those before it have made.
Task<> Run::pass() {
  replies_ = {};
  ends_.clear();
  ends_.reserve(transaction_.steps.size());
  body_.begin(store_now_ns(store_));
  uint64_t worked = 0;
  for (size_t i = 0; i < transaction_.steps.size(); ++i) {
    const Step& step = transaction_.steps[i];
    if (step.row->in_body != nullptr) {
      BodyCall call{
          .body = body_, .row = *step.row, .words = step.words, .reply = {replies_, transaction_.protocol}};
      step.row->in_body(call);
    }
    ends_.push_back(replies_.text().size());
    if (body_.is_too_large() || replies_.text().size() > kRepliesMax) co_return;
    const bool is_long = body_.work() - worked > kWorkOfTurn || (i + 1) % kStepsOfTurn == 0;
    if (!is_long) continue;
    worked = body_.work();
    co_await store_.shard.sleep_for(0);
    if (store_.shard.refresh_now() > attempts_.deadline_ns()) co_return;
  }
}

bool Run::has_changed() const {
  return std::ranges::any_of(transaction_.watched, [&](const Watch& watch) {
    const Body::Entry* const entry = body_.find(watch.key);
    return entry != nullptr && entry->is_used && body_.version_seen(*entry) != watch.version;
  });
}

std::vector<Watch> Run::conditions() const {
  std::vector<Watch> conditions;
  conditions.reserve(transaction_.watched.size() + body_.entries().size());
  conditions.assign(transaction_.watched.begin(), transaction_.watched.end());
  std::unordered_map<std::string_view, uint64_t> watched;
  for (const Watch& watch : transaction_.watched) watched.emplace(watch.key, watch.version);
  for (const Body::Entry& entry : body_.entries()) {
    if (entry.is_used && !watched.contains(entry.key)) {
      conditions.push_back({.key = entry.key, .version = body_.version_seen(entry)});
    }
  }
  return conditions;
}

Task<Ended> Run::commit(Batch& batch) {
  const Result<> done = co_await store_.client->commit(batch);
  if (done) co_return Ended();
  const bool is_of_watched = batch.failed() < transaction_.watched.size();
  const bool is_condition = done.code() != Code::kConflict && Attempts::is_conflict(done.code());
  if (is_condition && is_of_watched) co_return Ended{.ending = Ending::kNil};
  co_return failed(Attempts::is_conflict(done.code()) ? Code::kConflict : done.code());
}

// More than a batch may have: it would have copies of all.
bool Run::is_too_much(std::span<const Watch> conditions) const {
  size_t count = conditions.size();
  size_t bytes = 0;
  for (const Watch& condition : conditions) bytes += condition.key.size();
  for (const Body::Entry& entry : body_.entries()) {
    if (entry.wrote == Body::Wrote::kNothing) continue;
    ++count;
    bytes += entry.key.size() + (entry.wrote == Body::Wrote::kPut ? entry.new_value().size() : 0);
  }
  return count > kv::kBatchKeysMax || bytes > kv::kBatchBytesMax;
}

Task<Ended> Run::commit() {
  if (has_changed()) co_return Ended{.ending = Ending::kNil};
  const std::vector<Watch> conditions = this->conditions();
  if (is_too_much(conditions)) co_return failed(Code::kTooLarge);
  Batch batch;
  for (const Body::Entry& entry : body_.entries()) {
    if (entry.wrote == Body::Wrote::kNothing) continue;
    if (entry.wrote == Body::Wrote::kErased || body_.is_born_over(entry)) {
      // What was absent stays so, which is a condition.
      if (!entry.is_used || body_.version_seen(entry) != 0) batch.erase(entry.key);
    } else if (entry.new_expires_wall_ns == 0) {
      batch.put(entry.key, entry.new_value());
    } else {
      batch.put_if(entry.key, entry.new_value(), {.expires_wall_ns = entry.new_expires_wall_ns});
    }
  }
  if (batch.writes() == 0) {
    const bool is_of_one_moment = conditions.size() < 2 && transaction_.watched.empty();
    if (is_of_one_moment) co_return Ended();
    const Looked looked = co_await look_together(store_, conditions);
    if (looked.code == Code::kOk) co_return Ended();
    const bool is_nil = looked.code == Code::kConflict && looked.failed < transaction_.watched.size();
    if (is_nil) co_return Ended{.ending = Ending::kNil};
    co_return failed(looked.code);
  }
  for (const Watch& condition : conditions) {
    if (condition.version == 0) {
      batch.if_absent(condition.key);
    } else {
      batch.if_version(condition.key, condition.version);
    }
  }
  Ended ended = co_await commit(batch);
  co_return ended;
}

// The code of a failure, or whether one of them has changed. Nothing: all are as they were.
Task<std::optional<Code>> Run::look_at_watched() {
  for (const Watch& watch : transaction_.watched) {
    Result<Got> got = store_.client->exists_at_once(watch.key);
    if (!is_told(got)) got = co_await store_.client->exists(watch.key);
    if (!is_told(got)) co_return got.code();
    if ((got ? got->version : 0) != watch.version) co_return Code::kVersionMismatch;
  }
  co_return std::nullopt;
}

Task<Ended> Run::attempt() {
  body_.forget_reads();
  for (;;) {
    const Code code = co_await read();
    if (code != Code::kOk) co_return failed(code);
    co_await pass();
    if (!body_.lacks()) break;
  }
  if (body_.is_too_large()) co_return failed(Code::kTooLarge);
  if (replies_.text().size() > kRepliesMax) co_return Ended{.ending = Ending::kLongReplies};
  if (ends_.size() < transaction_.steps.size()) co_return failed(Code::kConflict);
  Ended ended = co_await commit();
  co_return ended;
}

Task<Ended> Run::run() {
  for (;;) {
    Ended ended = co_await attempt();
    if (ended.ending == Ending::kDone) {
      store_.counts.hits.fetch_add(body_.hits());
      store_.counts.misses.fetch_add(body_.misses());
      ended.replies = std::move(replies_.text());
      ended.ends = std::move(ends_);
    }
    if (ended.ending != Ending::kFailed || ended.code != Code::kConflict) co_return ended;
    const std::optional<uint64_t> pause_ns = attempts_.pause(store_.shard.refresh_now());
    if (!pause_ns) co_return ended;
    co_await store_.shard.sleep_for(*pause_ns);
    // Before the commands run again: it may be what has stood in the way.
    const std::optional<Code> changed = co_await look_at_watched();
    if (changed == Code::kVersionMismatch) co_return Ended{.ending = Ending::kNil};
    if (changed) co_return failed(*changed);
  }
}

}  // namespace

Task<Ended> run_transaction(Store& store, const Transaction& transaction) {
  Run run(store, transaction);
  Ended ended = co_await run.run();
  co_return ended;
}

}  // namespace refract::doors::redis
