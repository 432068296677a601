// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/object_worker.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "refract/base/units.h"

namespace refract::campaign {

using object::ObjectParts;
using runtime::Task;

namespace {

constexpr uint64_t kTimeout_ns = 10 * kMillisecond_ns;
constexpr uint64_t kRoomTimeout_ns = 2 * kMillisecond_ns;
constexpr uint64_t kStall_ns = 600'000;
// Among what step() draws.
constexpr uint64_t kMake = 0;
constexpr uint64_t kFetch = 85;
constexpr int kTries = 20;
constexpr uint64_t kLargeBytesMax = 20 * kKiB;
constexpr uint64_t kMiddleBytesMax = 5 * kKiB;  // More than a message has.
constexpr uint64_t kSmallBytesMax = 600;

}  // namespace

void ObjectStage::complain(const Births::Wrong& wrong) {
  if (!wrong || is_over()) return;
  outcome.wrong = fmt::format("seed {} at {} us: {}", run.seed, now_ns() / 1000, *wrong);
}

ObjectWorker::ObjectWorker(ObjectStage& stage, sim::Host& host, fabric::Domain& domain,
                           const Options& options)
    : stage_(stage),
      host_(host),
      domain_(domain),
      options_(options),
      prng_(stage.world.prng().next()),
      holder_(stage, host,
              stage.world.make_reader(host, stage.memory.visible(),
                                      {.stall_chance = options.stall_chance, .stall_ns = kStall_ns})),
      lender_(domain) {}

Task<bool> ObjectWorker::connect() {
  while (!stage_.is_over()) {
    if (session_ != nullptr && session_->state() == rpc::Session::State::kOpen) {
      if (calls_ == nullptr) {
        kv::Lender* const lender = options_.lends ? &lender_ : nullptr;
        calls_ = std::make_unique<object::ObjectCalls>(
            *session_, host_.shard(),
            object::ObjectCallsOptions{.timeout_ns = kTimeout_ns, .lender = lender});
      }
      co_return true;
    }
    if (session_ == nullptr || session_->state() == rpc::Session::State::kClosed) {
      co_await disconnect();
      const Reported<fabric::Channel*> channel = domain_.connect("owner");
      if (channel) session_ = std::make_unique<rpc::Session>(**channel, host_.shard());
    }
    co_await host_.shard().sleep_for(20'000);
  }
  co_return false;
}

Task<> ObjectWorker::disconnect() {
  // It may be the session that runs this task.
  co_await host_.shard().sleep_for(0);
  calls_.reset();
  session_.reset();
}

Task<> ObjectWorker::work() {
  for (int i = 0; i < options_.operations && !stage_.is_over(); ++i) {
    const bool connected = co_await connect();
    if (!connected) break;
    co_await step();
    if (prng_.chance(0.7)) holder_.let_one_go();
    for (uint64_t reads = prng_.below(3); reads > 0 && !stage_.is_over(); --reads)
      (void)holder_.hold(any_id());
    if (prng_.chance(0.2)) co_await host_.shard().sleep_for(prng_.below(100'000));
  }
  holder_.let_all_go();
  co_await disconnect();
  --stage_.workers_left;
}

Task<> ObjectWorker::step() {
  uint64_t draw = prng_.below(100);
  if (options_.is_far && prng_.chance(0.7)) draw = prng_.chance(0.5) ? kMake : kFetch;
  if (draw < 24) {
    co_await make();
  } else if (draw < 36) {
    co_await put();
  } else if (draw < 64) {
    co_await remove(id_that_is(true));
    // What was given back is another object's at once.
    if (prng_.chance(0.8)) co_await make();
  } else if (draw < 68) {
    std::string id = any_id();
    if (!holder_.hold(id)) co_await fetch(std::move(id));
  } else if (draw < 86) {
    co_await fetch(id_that_is(true));
  } else if (draw < 90) {
    co_await await(any_id());
  } else if (draw < 93) {
    co_await list();
  } else if (draw < 95) {
    co_await keep();
  } else if (draw < 98) {
    co_await evict();
  } else {
    holder_.let_one_go();
  }
}

std::string ObjectWorker::any_id() {
  return campaign::any_id(prng_, stage_.run);
}

std::string ObjectWorker::id_that_is(bool there) {
  constexpr int kLooks = 3;
  std::string id = any_id();
  for (int looks = 0; looks < kLooks; ++looks) {
    object::ObjectRecord record{};
    if ((holder_.look(id, record) == Code::kOk) == there) break;
    id = any_id();
  }
  return id;
}

std::unique_ptr<ObjectWorker::Filled> ObjectWorker::draw_object(uint64_t body_bytes_max) {
  auto filled = std::make_unique<Filled>();
  filled->id = prng_.chance(0.2) ? any_id() : id_that_is(false);
  filled->making.id = std::as_bytes(std::span(filled->id));
  filled->making.claim = prng_.next();
  const uint64_t smaller_by = prng_.below(prng_.chance(0.7) ? 64 : body_bytes_max);
  filled->making.parts = {.body_bytes = prng_.chance(0.1) ? 0 : body_bytes_max - smaller_by,
                          .metadata_bytes = prng_.chance(0.5) ? 0 : static_cast<uint32_t>(prng_.below(100)),
                          .id_bytes = static_cast<uint16_t>(filled->id.size())};
  const ObjectParts& parts = filled->making.parts;
  filled->facts = {.birth = filled->making.birth(),
                   .body_bytes = parts.body_bytes,
                   .metadata_bytes = parts.metadata_bytes};
  filled->bytes.resize(parts.filled_bytes());
  if (!filled->bytes.empty()) filled->making.bytes = filled->bytes.data();
  filled->crashes = stage_.owner.crash_count();
  return filled;
}

bool ObjectWorker::is_unanswered(Code code) const noexcept {
  return code == Code::kUnavailable || code == Code::kIndeterminate;
}

// Of calls that were right: all else is a mistake of the owner's or of its caller's.
void ObjectWorker::note_refusal(Code code, const char* what) {
  switch (code) {
    case Code::kExists:
      ++stage_.outcome.refused;
      return;
    case Code::kNoSpace:
      ++stage_.outcome.no_space;
      return;
    case Code::kIndeterminate:
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kOverloaded:
    case Code::kAccessDenied:
      ++stage_.outcome.unknown;
      return;
    case Code::kNotFound:
    case Code::kVersionMismatch:
      return;
    default:
      stage_.complain(fmt::format("{} was answered '{}'", what, info(code).text));
  }
}

// A call that comes again may happen after all: until it is aborted, or where it has made an object.
Task<> ObjectWorker::refused(Filled& filled) {
  const uint64_t birth = filled.facts.birth;
  stage_.complain(stage_.births.judge_refused(birth, stage_.now_ns()));
  if (options_.is_doubled) {
    const Code ended = co_await end(filled);
    if (is_unanswered(ended)) co_return;
    const Result<object::wire::ObjectReply> there = co_await calls_->await(filled.making.id, 0);
    if (there ? there->birth == birth : there.code() != Code::kNotFound) co_return;
  }
  stage_.births.gone(birth, stage_.now_ns());
}

Task<Code> ObjectWorker::create(Filled& filled) {
  Code code = Code::kUnavailable;
  for (int attempt = 0; attempt < kTries && is_unanswered(code) && !stage_.is_over(); ++attempt) {
    const bool connected = co_await connect();
    if (!connected) break;
    code = co_await calls_->create(filled.making, kRoomTimeout_ns);
  }
  co_return code;
}

Task<Code> ObjectWorker::seal(Filled& filled) {
  Code code = Code::kUnavailable;
  for (int attempt = 0; attempt < kTries && is_unanswered(code) && !stage_.is_over(); ++attempt) {
    const bool connected = co_await connect();
    if (!connected) break;
    rpc::Session* const session = session_.get();
    code = co_await calls_->seal(filled.making);
    // The owner's own word that it cannot be known.
    if (code == Code::kIndeterminate && session->state() == rpc::Session::State::kOpen) break;
  }
  co_return code;
}

Task<Code> ObjectWorker::end(Filled& filled) {
  Code code = Code::kUnavailable;
  for (int attempt = 0; attempt < kTries && is_unanswered(code) && !stage_.is_over(); ++attempt) {
    const bool connected = co_await connect();
    if (!connected) break;
    code = co_await calls_->end_creation(filled.making);
  }
  if (code == Code::kOk) ++stage_.outcome.aborted;
  co_return code;
}

Task<> ObjectWorker::abort(Filled& filled) {
  const Code code = co_await end(filled);
  if (code == Code::kOk || code == Code::kNotFound) stage_.births.gone(filled.facts.birth, stage_.now_ns());
}

// Most are of one size class of the heap, so that what one gives back is soon another's.
uint64_t ObjectWorker::any_large() {
  if (prng_.chance(0.7)) return kMiddleBytesMax;
  return prng_.chance(0.5) ? kLargeBytesMax : kSmallBytesMax;
}

Task<> ObjectWorker::make() {
  const std::unique_ptr<Filled> filled = draw_object(any_large());
  const uint64_t birth = filled->facts.birth;
  stage_.births.begin({.id = filled->id, .facts = filled->facts, .begun_ns = stage_.now_ns()});
  const Code created = co_await create(*filled);
  if (created != Code::kOk) {
    note_refusal(created, "a create");
    if (created == Code::kExists) {
      co_await refused(*filled);
    } else {
      // It may be a creation all the same.
      co_await abort(*filled);
    }
    stage_.births.end(birth, stage_.now_ns());
    co_return;
  }
  const size_t half = filled->bytes.size() / 2;
  Births::fill(filled->facts, filled->bytes);
  if (prng_.chance(0.7) && calls_ != nullptr) (void)co_await calls_->filled(filled->making, half);
  if (prng_.chance(0.5)) co_await host_.shard().sleep_for(prng_.below(100'000));
  const uint64_t fate = prng_.below(100);
  const uint64_t aborts_percent = options_.is_far ? 60 : 10;
  if (fate < aborts_percent) {
    co_await abort(*filled);
  } else if (fate < aborts_percent + 3) {
    // A creator that leaves without a word.
    co_await disconnect();
    ++stage_.outcome.left;
  } else {
    const Code sealed = co_await seal(*filled);
    if (sealed == Code::kOk) {
      ++stage_.outcome.sealed;
      if (filled->making.is_written) ++stage_.outcome.written;
      if (filled->crashes != stage_.owner.crash_count()) ++stage_.outcome.sealed_over_crash;
      stage_.complain(stage_.births.sealed(birth, stage_.now_ns()));
    } else {
      note_refusal(sealed, "a seal");
      co_await abort(*filled);
    }
  }
  stage_.births.end(birth, stage_.now_ns());
}

Task<> ObjectWorker::put() {
  const std::unique_ptr<Filled> filled = draw_object(kSmallBytesMax);
  const uint64_t birth = filled->facts.birth;
  Births::fill(filled->facts, filled->bytes);
  const ObjectParts& parts = filled->making.parts;
  const std::span<const std::byte> bytes = filled->bytes;
  const object::ObjectCalls::Put put{.id = filled->making.id,
                                     .body = bytes.first(parts.body_bytes),
                                     .metadata = bytes.subspan(parts.metadata_at() - ObjectParts::body_at()),
                                     .claim = filled->making.claim};
  stage_.births.begin(
      {.id = filled->id, .facts = filled->facts, .is_put = true, .begun_ns = stage_.now_ns()});
  Code code = Code::kUnavailable;
  for (int attempt = 0; attempt < kTries && is_unanswered(code) && !stage_.is_over(); ++attempt) {
    const bool connected = co_await connect();
    if (!connected) break;
    rpc::Session* const session = session_.get();
    code = co_await calls_->put(put, kRoomTimeout_ns);
    if (code == Code::kIndeterminate && session->state() == rpc::Session::State::kOpen) break;
  }
  if (code == Code::kOk) {
    ++stage_.outcome.put;
    stage_.complain(stage_.births.sealed(birth, stage_.now_ns()));
  } else {
    note_refusal(code, "a put");
    if (code == Code::kExists) co_await refused(*filled);
  }
  stage_.births.end(birth, stage_.now_ns());
}

Task<> ObjectWorker::remove(std::string id) {
  object::ObjectRecord record{};
  const Code looked = holder_.look(id, record);
  if (looked != Code::kOk) co_return;
  const uint64_t birth = record.birth;
  stage_.births.begin_delete(id, birth, stage_.now_ns());
  const auto removed = co_await calls_->remove(std::as_bytes(std::span(id)), birth);
  if (!removed) co_return note_refusal(removed.code(), "a delete");
  stage_.births.deleted(birth, stage_.now_ns());
  ++stage_.outcome.deleted;
}

Task<> ObjectWorker::keep() {
  const std::string id = any_id();
  const Code code = co_await calls_->keep(std::as_bytes(std::span(id)), prng_.chance(0.3));
  if (code != Code::kOk) note_refusal(code, "a keep");
}

Task<> ObjectWorker::evict() {
  if (!stage_.run.evicts) co_return;
  const Result<uint64_t> bytes = co_await calls_->evict(prng_.below(8 * kKiB));
  if (!bytes) note_refusal(bytes.code(), "an evict");
}

Task<> ObjectWorker::clear() {
  for (int number = 0; number < stage_.run.ids && !stage_.is_over(); ++number) {
    const std::string id = fmt::format("object-{}", number);
    const bool is_settled = holder_.hold(id);
    if (!is_settled) stage_.complain("a direct get gave up although nothing changes");
    holder_.let_all_go();
    const bool connected = co_await connect();
    if (!connected) break;
    co_await fetch(id);
    co_await remove(id);
  }
  co_await list();
  co_await disconnect();
  --stage_.workers_left;
}

}  // namespace refract::campaign
