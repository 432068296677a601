// SPDX-License-Identifier: Apache-2.0
// What a campaign's worker reads, on both paths, and how it is judged.
#include <fmt/format.h>

#include <utility>

#include "tests/campaign/kv_worker.h"

namespace refract::campaign {

using runtime::Task;

namespace {

constexpr size_t kViewsMax = 8;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

bool Worker::read_directly(const std::string& key) {
  const Model::Moment before = stage_.model.moment(key, stage_.now_ns());
  const uint64_t hash = reader_->hash(bytes_of(key));
  std::string value;
  const auto sink = [&](uint64_t bytes) {
    value.resize(bytes);
    return reinterpret_cast<std::byte*>(value.data());
  };
  kv::Found found;
  while (true) {
    memory_->begin_read();
    found = reader_->get(bytes_of(key), hash, sink);
    // Outside of what is mapped, if the space has grown: perhaps more than once while the read stalled.
    if (found.code != Code::kCorrupt || memory_->bytes() == stage_.keeper.memory().bytes()) break;
    map();
  }
  ++stage_.outcome.direct;
  if (stage_.now_ns() != before.at_ns) ++stage_.outcome.stalled;
  if (memory_->overtaken()) ++stage_.outcome.overtaken;
  if (found.code == Code::kInvalidated) return false;
  if (found.code != Code::kOk && found.code != Code::kNotFound) {
    stage_.complain(fmt::format("a direct get of {} gave '{}'", key.substr(0, 24), info(found.code).text));
    return true;
  }
  stage_.complain(stage_.model.judge(key, before,
                                     {.found = found.code == Code::kOk,
                                      .version = found.version,
                                      .value_bytes = found.value_bytes,
                                      .value = &value},
                                     stage_.now_ns()));
  return true;
}

void Worker::judge_got(const std::string& key, const Model::Moment& before, const Result<kv::Got>& got,
                       const std::string* value) {
  if (is_no_answer(got.code())) return;
  Answer answer;
  if (got) {
    answer = {.found = true, .version = got->version, .value_bytes = got->value_bytes, .value = value};
  } else if (got.code() != Code::kNotFound) {
    stage_.complain(fmt::format("a get of {} gave '{}'", key.substr(0, 24), info(got.code()).text));
    return;
  }
  stage_.complain(stage_.model.judge(key, before, answer, stage_.now_ns()));
}

Task<> Worker::get(std::string key) {
  const Model::Moment before = stage_.model.moment(key, stage_.now_ns());
  std::string value;
  kv::StringSink sink(value);
  Result<kv::Got> got = fail(Code::kUnavailable);
  if (prng_.chance(0.5)) {
    got = co_await chains_->get(bytes_of(key), sink);
  } else {
    got = co_await client_->get(bytes_of(key), sink);
  }
  judge_got(key, before, got, &value);
}

Task<> Worker::exists(std::string key) {
  const Model::Moment before = stage_.model.moment(key, stage_.now_ns());
  const Result<kv::Got> got = co_await client_->exists(bytes_of(key));
  judge_got(key, before, got, nullptr);
}

Task<> Worker::get_many() {
  constexpr size_t kKeys = 12;
  std::vector<std::string> keys(kKeys);
  std::vector<std::string> values(kKeys);
  std::vector<kv::StringSink> sinks;
  std::vector<Model::Moment> before;
  std::vector<kv::RpcClient::GetItem> items(kKeys);
  sinks.reserve(kKeys);
  for (size_t i = 0; i < kKeys; ++i) {
    keys[i] = any_key();
    before.push_back(stage_.model.moment(keys[i], stage_.now_ns()));
    sinks.emplace_back(values[i]);
    items[i].key = bytes_of(keys[i]);
    items[i].sink = &sinks[i];
  }
  co_await client_->multi_get(items);
  for (size_t i = 0; i < kKeys; ++i) judge_got(keys[i], before[i], items[i].result, &values[i]);
}

Worker::Listing Worker::begin_listing() const {
  Listing listing;
  for (const std::string& key : stage_.model.keys()) {
    listing.before.emplace(key, stage_.model.moment(key, stage_.now_ns()));
  }
  return listing;
}

void Worker::list(Listing& listing, const std::string& key, uint64_t version, uint64_t value_bytes) {
  ++stage_.outcome.listed;
  listing.seen[key] = true;
  // A key that was first written after the scan began has no moment yet: none is the right one for it.
  stage_.complain(stage_.model.judge(key, listing.before[key],
                                     {.found = true, .version = version, .value_bytes = value_bytes},
                                     stage_.now_ns()));
}

void Worker::end_listing(const Listing& listing) {
  for (const auto& [key, before] : listing.before) {
    if (listing.seen.contains(key) || !stage_.model.was_there_throughout(key, before, stage_.now_ns()))
      continue;
    stage_.complain(fmt::format("a scan missed {}, which was there throughout", key.substr(0, 24)));
  }
}

Task<> Worker::scan() {
  Listing listing = begin_listing();
  uint64_t cursor = 0;
  do {
    const Result<kv::RpcClient::Page> page = co_await client_->scan(cursor, 1 + prng_.below(40));
    if (!page) {
      if (!is_no_answer(page.code())) {
        stage_.complain(fmt::format("a scan gave '{}'", info(page.code()).text));
      }
      co_return;
    }
    for (const auto& entry : page->keys) list(listing, entry.key, entry.version, entry.value_bytes);
    cursor = page->next;
  } while (cursor != 0 && !stage_.is_over());
  end_listing(listing);
}

void Worker::scan_directly() {
  Listing listing = begin_listing();
  uint64_t cursor = 0;
  bool is_complete = false;
  while (!is_complete && !stage_.is_over()) {
    memory_->begin_read();
    const auto visit = [&](std::span<const std::byte> key, uint64_t version, uint64_t value_bytes) {
      list(listing, {reinterpret_cast<const char*>(key.data()), key.size()}, version, value_bytes);
    };
    const auto page = reader_->scan(cursor, 1 + prng_.below(40), visit);
    if (memory_->overtaken()) ++stage_.outcome.overtaken;
    if (page.code == Code::kCorrupt && memory_->bytes() < stage_.keeper.memory().bytes()) {
      map();
      continue;
    }
    if (page.code == Code::kInvalidated) return;
    if (page.code != Code::kOk) {
      return stage_.complain(fmt::format("a direct scan gave '{}'", info(page.code).text));
    }
    cursor = page.next;
    is_complete = cursor == 0;
  }
  if (is_complete) end_listing(listing);
}

std::string Worker::bytes_at(Offset at, size_t bytes) {
  std::string copy(bytes, '\0');
  memory_->copy(copy.data(), at, bytes);
  return copy;
}

void Worker::take_view() {
  if (views_.size() == kViewsMax) end_view();
  const std::string key = any_key();
  const Model::Moment before = stage_.model.moment(key, stage_.now_ns());
  memory_->begin_read();
  const auto pinned = reader_->pin(bytes_of(key), reader_->hash(bytes_of(key)));
  if (memory_->overtaken()) ++stage_.outcome.overtaken;
  if (pinned.found.code == Code::kCorrupt) return map();
  if (pinned.found.code == Code::kInvalidated) return;
  if (pinned.found.code != Code::kOk && pinned.found.code != Code::kNotFound) {
    return stage_.complain(
        fmt::format("a view of {} gave '{}'", key.substr(0, 24), info(pinned.found.code).text));
  }
  const uint64_t pinned_ns = stage_.now_ns();
  Answer answer{.found = pinned.found.code == Code::kOk,
                .version = pinned.found.version,
                .value_bytes = pinned.found.value_bytes};
  View view{
      .key = key, .pin = pinned.pin, .at = pinned.value, .bytes = {}, .crashes = stage_.server.crash_count()};
  if (answer.found) {
    view.bytes = bytes_at(pinned.value, pinned.found.value_bytes);
    answer.value = &view.bytes;
    views_.push_back(view);
  }
  stage_.complain(stage_.model.judge(key, before, answer, pinned_ns));
}

void Worker::end_view() {
  const size_t index = prng_.below(views_.size());
  const View view = std::exchange(views_[index], views_.back());
  views_.pop_back();
  const std::string bytes = bytes_at(view.at, view.bytes.size());
  ++stage_.outcome.views;
  if (stage_.server.crash_count() != view.crashes) ++stage_.outcome.views_over_crash;
  if (bytes != view.bytes) {
    stage_.complain(fmt::format("a view of {} changed from '{}' to '{}' while it was held{}",
                                view.key.substr(0, 24), view.bytes.substr(0, 60), bytes.substr(0, 60),
                                stage_.server.crash_count() != view.crashes ? ", over a crash" : ""));
  }
  reader_->unpin(view.pin);
}

Task<> Worker::read_all() {
  map();
  const bool connected = co_await connect();
  if (!connected) co_return;
  // Twice: what a batch wrote may be met behind what it should have written, too.
  for (int round = 0; round < 2; ++round) {
    for (const std::string& key : stage_.model.keys()) {
      // Of a crowded bucket readers leave the rest to the owner.
      const bool is_settled = read_directly(key) || stage_.run.crowded;
      if (!is_settled) stage_.complain("a direct get gave up although there is no writer");
      if (round == 0) co_await get(key);
      if (stage_.is_over()) break;
    }
  }
  scan_directly();
  const bool still_connected = co_await connect();
  if (still_connected) co_await scan();
  co_await disconnect();
  --stage_.workers_left;
}

}  // namespace refract::campaign
