// SPDX-License-Identifier: Apache-2.0
#include "tests/network/callers.h"

#include <fmt/format.h>

#include <utility>

#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/clock.h"
#include "refract/base/testing/linearizability/checker.h"
#include "refract/base/testing/linearizability/picture.h"

namespace refract::test {
namespace {

// The answers that mean "not now": nothing was changed.
bool is_transient(Code code) {
  return code == Code::kDeadlineExceeded || code == Code::kUnavailable || code == Code::kOverloaded;
}

uint64_t now_ns() {
  return system_clock().now_ns();
}

}  // namespace

size_t Scene::begin(uint32_t caller, linearizability::Operation call, size_t key) {
  const std::scoped_lock lock(mutex_);
  call.client = caller;
  call.key = recorder_.key(key_of(key));
  return recorder_.begin(call, now_ns());
}

void Scene::end(size_t index, linearizability::Recorder::Return result) {
  const std::scoped_lock lock(mutex_);
  result.now_ns = now_ns();
  recorder_.end(index, result);
}

uint32_t Scene::add_caller(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  return recorder_.client(name);
}

void Scene::count(Code code) {
  const std::scoped_lock lock(mutex_);
  ++codes_[static_cast<uint8_t>(code)];
}

uint64_t Scene::count_of(Code code) const {
  const std::scoped_lock lock(mutex_);
  return codes_[static_cast<uint8_t>(code)];
}

void Scene::complain(const std::string& wrong) {
  const std::scoped_lock lock(mutex_);
  if (complaint_.empty()) complaint_ = wrong;
}

std::string Scene::complaint() const {
  const std::scoped_lock lock(mutex_);
  return complaint_;
}

std::string Scene::codes() const {
  const std::scoped_lock lock(mutex_);
  std::string text;
  for (size_t code = 0; code < codes_.size(); ++code) {
    if (codes_[code] == 0) continue;
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", info(static_cast<Code>(code)).text, codes_[code]);
  }
  return text;
}

std::string Scene::contradiction(bool has_one_shard) const {
  const std::scoped_lock lock(mutex_);
  const linearizability::History& history = recorder_.history();
  const linearizability::Judgement judgement = linearizability::check(history);
  if (judgement.violation) return linearizability::draw_text(history, *judgement.violation);
  if (!judgement.undecided.empty()) return fmt::format("{} keys are undecided", judgement.undecided.size());
  if (has_one_shard) {
    if (const auto violation = linearizability::check_versions(history)) return violation->sentence;
  }
  return {};
}

size_t Scene::operations() const {
  const std::scoped_lock lock(mutex_);
  return recorder_.history().operations.size();
}

Caller::Caller(Scene& scene, CallerOptions options)
    : scene_(scene),
      options_(std::move(options)),
      number_(scene.add_caller(options_.name)),
      prng_(options_.seed) {
  auto client = Client::connect(options_.address, options_.client);
  if (!client) {
    scene_.complain(options_.name + " cannot connect: " + client.error().to_string());
    return;
  }
  client_ = std::make_unique<Client>(std::move(*client));
  thread_ = std::thread([this] { run(); });
}

void Caller::stop() {
  stop_.store(true);
  if (thread_.joinable()) thread_.join();
}

void Caller::run() {
  while (!stop_.load() && scene_.complaint().empty()) step();
}

void Caller::step() {
  const uint64_t die = prng_.below(100);
  const size_t key = prng_.below(Scene::kKeys);
  if (die < 35) {
    get(key);
  } else if (die < 42) {
    exists(key);
  } else if (die < 80) {
    put(key);
  } else if (die < 90) {
    erase(key);
  } else if (die < 95) {
    get_many();
  } else {
    put_many();
  }
}

// Of a call of so many messages, one after the other, each has the whole timeout.
template <typename Call>
auto Caller::timed(const Call& call, size_t messages) {
  const uint64_t begun_ns = now_ns();
  auto result = call();
  const uint64_t took_ns = now_ns() - begun_ns;
  if (took_ns > options_.client.timeout_ns * messages + kDeadlineSlack_ns) {
    scene_.complain(fmt::format("a call of {} took {} ms with a deadline of {} ms", options_.name,
                                took_ns / 1'000'000, options_.client.timeout_ns / 1'000'000));
  }
  return result;
}

void Caller::note(Code code) {
  scene_.count(code);
  operations_.fetch_add(1);
  if (!is_transient(code) && code != Code::kIndeterminate) answered_.fetch_add(1);
  if (options_.is_patient && is_transient(code)) {
    scene_.complain(fmt::format("{}, which is patient, was answered with {}; {}", options_.name,
                                info(code).text, client_->trouble().to_string()));
  }
}

void Caller::get(size_t key) {
  const size_t record = scene_.begin(number_, {.kind = Kind::kGet}, key);
  std::string value;
  const auto got = timed([&] { return client_->get(Scene::key_of(key), value); }, 8);
  end_get(record, key, got, &value);
}

void Caller::exists(size_t key) {
  const size_t record = scene_.begin(number_, {.kind = Kind::kGet}, key);
  end_get(record, key, timed([&] { return client_->exists(Scene::key_of(key)); }), nullptr);
}

// `value` null: it was not looked at.
void Caller::end_get(size_t record, size_t key, const Result<Got>& got, const std::string* value) {
  note(got.code());
  if (got) {
    const auto number = value == nullptr ? 0 : number_in(Scene::key_of(key), *value);
    if (!number) {
      scene_.complain(fmt::format("{} got a broken value of {} B", options_.name, value->size()));
      return;
    }
    versions_[key] = got->version;
    scene_.end(record, {.outcome = Outcome::kDone, .value = *number, .version = got->version});
  } else if (got.code() == Code::kNotFound) {
    versions_[key] = 0;
    scene_.end(record, {.outcome = Outcome::kAbsent});
  } else if (is_transient(got.code())) {
    scene_.end(record, {.outcome = Outcome::kRefused});
  } else {
    scene_.complain(fmt::format("{}: a get was answered with {}", options_.name, info(got.code()).text));
  }
}

uint64_t Caller::draw_bytes() {
  if (prng_.below(25) == 0) return kSealedBytesMin + prng_.below(options_.large_bytes);
  return kSealedBytesMin + prng_.below(400);
}

Caller::Write Caller::begin_put(size_t key, const PutOptions& options) {
  const uint64_t number = scene_.new_number();
  const std::string name = Scene::key_of(key);
  const size_t record = scene_.begin(
      number_,
      {.kind = Kind::kPut, .if_absent = options.if_absent, .if_version = options.if_version, .value = number},
      key);
  return {.record = record,
          .key = key,
          .name = name,
          .value = sealed_value(name, number, draw_bytes()),
          .options = options};
}

template <typename Call>
Result<uint64_t> Caller::insist(const Call& call, bool& may_have_happened) {
  Result<uint64_t> result = call();
  for (int attempt = 0; attempt < 100; ++attempt) {
    may_have_happened |= result.code() == Code::kIndeterminate;
    if (!may_have_happened) break;
    if (result.code() != Code::kIndeterminate && !is_transient(result.code())) break;
    scene_.count(result.code());
    sleep_ms(10);
    result = call();
  }
  return result;
}

void Caller::put(size_t key) {
  PutOptions options;
  const uint64_t die = prng_.below(4);
  if (die == 0) options.if_absent = true;
  if (die == 1) options.if_version = versions_[key];  // 0: any.
  const auto request = client_->new_request();
  if (request) options.request = *request;
  const Write write = begin_put(key, options);
  bool may_have_happened = false;
  const auto result =
      insist([&] { return timed([&] { return client_->put(write.name, write.value, options); }, 8); },
             may_have_happened);
  end_write(write, result, may_have_happened);
}

void Caller::erase(size_t key) {
  const uint64_t if_version = prng_.below(2) == 0 ? versions_[key] : 0;
  const auto request = client_->new_request();
  const Write write{.record = scene_.begin(number_, {.kind = Kind::kErase, .if_version = if_version}, key),
                    .key = key,
                    .name = Scene::key_of(key),
                    .value = {},
                    .options = {}};
  bool may_have_happened = false;
  const auto result = insist(
      [&] {
        return timed([&] { return client_->erase(write.name, if_version, request.value_or(RequestId{})); });
      },
      may_have_happened);
  end_write(write, result, may_have_happened);
}

void Caller::end_write(const Write& write, Result<uint64_t> result, bool may_have_happened) {
  note(result.code());
  versions_[write.key] = result.value_or(0);
  switch (result.code()) {
    case Code::kOk:
      return scene_.end(write.record, {.outcome = Outcome::kDone, .version = *result});
    case Code::kExists:
      return scene_.end(write.record, {.outcome = Outcome::kExists});
    case Code::kVersionMismatch:
      return scene_.end(write.record, {.outcome = Outcome::kMismatch});
    case Code::kNotFound:
      return scene_.end(write.record, {.outcome = Outcome::kAbsent});
    case Code::kIndeterminate:
      return scene_.end(write.record, {.outcome = Outcome::kUnknown});
    default:
      break;
  }
  if (is_transient(result.code())) {
    const Outcome outcome = may_have_happened ? Outcome::kUnknown : Outcome::kRefused;
    return scene_.end(write.record, {.outcome = outcome});
  }
  scene_.complain(fmt::format("{}: a write was answered with {}", options_.name, info(result.code()).text));
}

void Caller::get_many() {
  std::vector<std::string> names;
  std::vector<size_t> records;
  std::vector<GetItem> items;
  for (size_t key = 0; key < Scene::kKeys; key += 3) names.push_back(Scene::key_of(key));
  for (size_t i = 0; i < names.size(); ++i) {
    records.push_back(scene_.begin(number_, {.kind = Kind::kGet}, 3 * i));
    items.push_back({.key = names[i]});
  }
  (void)timed(
      [&] {
        client_->multi_get(items);
        return true;
      },
      8 * items.size());
  for (size_t i = 0; i < items.size(); ++i) end_get(records[i], 3 * i, items[i].result, &items[i].value);
}

void Caller::put_many() {
  std::vector<Write> writes;
  for (size_t key = prng_.below(3); key < Scene::kKeys; key += 3) writes.push_back(begin_put(key, {}));
  std::vector<PutItem> items;
  for (const Write& write : writes) items.push_back({.key = write.name, .value = write.value});
  (void)timed(
      [&] {
        client_->multi_put(items);
        return true;
      },
      8 * items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    end_write(writes[i], items[i].result, /*may_have_happened=*/false);
  }
}

void Caller::read_all() {
  for (size_t key = 0; key < Scene::kKeys; ++key) get(key);
}

bool make_progress(const Scene& scene, const std::vector<std::unique_ptr<Caller>>& callers,
                   uint64_t answers) {
  std::vector<uint64_t> goals;
  for (const auto& caller : callers) goals.push_back(caller->answered() + answers);
  return becomes_true([&] {
           if (!scene.complaint().empty()) return true;
           for (size_t i = 0; i < callers.size(); ++i) {
             if (callers[i]->answered() < goals[i]) return false;
           }
           return true;
         }) &&
         scene.complaint().empty();
}

}  // namespace refract::test
