// SPDX-License-Identifier: Apache-2.0
#include "tests/transactions/reach.h"

#include <string>

#include "refract/base/units.h"

namespace refract::campaign {
namespace {

constexpr uint64_t kHeld_ns = 30'000;  // A view.

}  // namespace

Reach::Reach(TransactionStage& stage, sim::Host& host, const Options& options)
    : stage_(stage), host_(host), options_(options) {
  begin_life();
}

Reach::~Reach() = default;

// Another memory stands in the place of the one before, which stays for those that have mapped it.
void Reach::begin_life() {
  if (is_current()) return;
  life_ = stage_.process.life();
  reader_.reset();
  memory_.reset();
  keeper_ = &stage_.process.keeper(options_.index);
  pins_ = PinWriter(keeper_->add_pin_table());
  loads_ = stage_.world.make_reader(host_, keeper_->memory(),
                                    {.stall_chance = options_.stall_chance, .stall_ns = 100'000});
  map();
}

// Maps what the space has now.
void Reach::map() {
  reader_.reset();
  const std::byte* const image = keeper_->memory().image();
  memory_.emplace(loads_->memory(), image, &pins_, looks_, stage_.run.mutation);
  memory_->reach(options_.has_own_words ? &own_words_ : options_.words);
  const Clock* const clock = stage_.process.clock_of(options_.index);
  reader_.emplace(*memory_, clock != nullptr ? *clock : host_.clock());
}

void Reach::look_after() {
  // What was connected to before may be there again with another memory.
  if (session_ && !is_current()) session_->close();
  const bool is_closed = session_ && session_->state() == rpc::Session::State::kClosed;
  // Callers that were suspended have been told by the next turn.
  const bool is_quiet = !session_ || (is_closed && was_closed_);
  was_closed_ = is_closed;
  if (is_quiet) {
    const Reported<fabric::Channel*> channel =
        options_.domain->connect(TransactionStage::shard_name(options_.index));
    if (!channel) return;
    if (session_) ++stage_.outcome.reopened;
    session_.reset();
    begin_life();
    session_.emplace(**channel, host_.shard());
    was_closed_ = false;
  }
  if (calls_) return;
  client_.emplace(*session_, host_.shard(), kv::RpcClientOptions{.timeout_ns = kTimeout_ns});
  chains_.emplace(*client_, host_.shard(), kv::ChainClientOptions{.timeout_ns = kTimeout_ns, .slots = 8});
  remote_.emplace(*client_, host_.shard(),
                  kv::RemoteClientOptions{.timeout_ns = kTimeout_ns,
                                          .location_bytes = 2'000,
                                          .batch = 5,
                                          .clock_error_ns = 2 * kWallError_ns + 20'000});
  calls_.emplace(*session_, host_.shard());
}

// If the space has grown: perhaps more than once while the read stalled.
bool Reach::map_again(Code code) {
  const bool has_grown = memory_->bytes() < keeper_->memory().bytes();
  if (code != Code::kCorrupt || !has_grown) return false;
  map();
  return true;
}

kv::Found Reach::read_directly(std::span<const std::byte> key, std::string& value) {
  if (!is_current()) return {.code = Code::kInvalidated};
  const uint64_t hash = reader_->hash(key);
  const auto sink = [&](uint64_t bytes) {
    value.resize(bytes);
    return reinterpret_cast<std::byte*>(value.data());
  };
  const uint64_t began_ns = stage_.now_ns();
  kv::Found found;
  do {
    memory_->begin_read();
    found = reader_->get(key, hash, sink);
  } while (map_again(found.code));
  ++stage_.outcome.direct;
  if (stage_.now_ns() != began_ns) ++stage_.outcome.stalled;
  if (found.code == Code::kInvalidated) ++stage_.outcome.asked;
  return found;
}

kv::Found Reach::view(std::span<const std::byte> key, std::string& value) {
  if (!is_current()) return {.code = Code::kInvalidated};
  kv::DirectReader<WatchedMemory>::Pinned pinned;
  do {
    memory_->begin_read();
    pinned = reader_->pin(key, reader_->hash(key));
  } while (map_again(pinned.found.code));
  ++stage_.outcome.views;
  if (pinned.found.code != Code::kOk) return pinned.found;
  value.resize(pinned.found.value_bytes);
  memory_->copy(value.data(), pinned.value, value.size());
  stage_.world.stall(host_, kHeld_ns);
  std::string later(value.size(), '\0');
  memory_->copy(later.data(), pinned.value, later.size());
  if (later != value) stage_.complain("a view changed from '" + value + "' to '" + later + "'");
  reader_->unpin(pinned.pin);
  return pinned.found;
}

bool Reach::scan_directly(Listed& listed) {
  uint64_t cursor = 0;
  if (!is_current()) return false;
  do {
    memory_->begin_read();
    const auto visit = [&](std::span<const std::byte> key, uint64_t version, uint64_t) {
      listed.emplace_back(std::string(reinterpret_cast<const char*>(key.data()), key.size()), version);
    };
    const auto page = reader_->scan(cursor, 100, visit);
    if (map_again(page.code)) continue;
    if (page.code == Code::kInvalidated) return false;
    if (page.code != Code::kOk) {
      stage_.complain("a direct scan gave '" + std::string(info(page.code).text) + "'");
      return false;
    }
    cursor = page.next;
  } while (cursor != 0 && !stage_.is_over());
  return true;
}

}  // namespace refract::campaign
