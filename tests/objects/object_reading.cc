// SPDX-License-Identifier: Apache-2.0
// What a worker of a campaign fetches, and how that is judged.
#include <fmt/format.h>

#include <span>
#include <utility>

#include "tests/objects/object_worker.h"

#include "refract/base/units.h"

namespace refract::campaign {

using object::ObjectParts;
using runtime::Task;

namespace {

constexpr uint64_t kAwait_ns = 300'000;

[[nodiscard]] BirthFacts facts_of(const object::wire::ObjectReply& reply) {
  return {.birth = reply.birth, .body_bytes = reply.body_bytes, .metadata_bytes = reply.metadata_bytes};
}
class Room final : public object::ObjectCalls::Room {
 public:
  [[nodiscard]] std::byte* room(const ObjectParts& parts) override {
    bytes_.assign(parts.filled_bytes(), std::byte{0xee});
    return bytes_.data();
  }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

Task<> ObjectWorker::fetch(std::string id) {
  const uint64_t begun_ns = stage_.now_ns();
  Room room;
  const Result<object::wire::ObjectReply> reply =
      co_await calls_->fetch(std::as_bytes(std::span(id)), 0, room);
  if (reply) {
    ++stage_.outcome.fetched;
    stage_.complain(stage_.births.judge_found(id, facts_of(*reply), begun_ns));
    const Births::Wrong wrong = Births::judge_bytes(facts_of(*reply), room.bytes());
    if (wrong) stage_.complain(fmt::format("fetched as {}: {}", id, *wrong));
  } else if (reply.code() == Code::kNotFound) {
    ++stage_.outcome.missing;
    stage_.complain(stage_.births.judge_missing(id, begun_ns, stage_.now_ns()));
  } else {
    note_refusal(reply.code(), "a fetch");
  }
}

Task<> ObjectWorker::await(std::string id) {
  const uint64_t begun_ns = stage_.now_ns();
  const Result<object::wire::ObjectReply> reply =
      co_await calls_->await(std::as_bytes(std::span(id)), prng_.below(kAwait_ns));
  if (reply) {
    stage_.complain(stage_.births.judge_found(id, facts_of(*reply), begun_ns));
  } else if (reply.code() == Code::kNotFound) {
    stage_.complain(stage_.births.judge_missing(id, begun_ns, stage_.now_ns()));
  } else {
    note_refusal(reply.code(), "an await");
  }
}

Task<> ObjectWorker::list() {
  const uint64_t begun_ns = stage_.now_ns();
  std::vector<std::string> seen;
  uint64_t cursor = 0;
  do {
    const Result<object::ObjectCalls::Page> page = co_await calls_->list(cursor);
    if (!page) co_return note_refusal(page.code(), "a list");
    for (const object::ObjectCalls::Listed& one : page->objects) {
      if (one.object.is_sealed == 0) continue;
      seen.push_back(one.id);
      stage_.complain(stage_.births.judge_found(one.id,
                                                {.birth = one.object.birth,
                                                 .body_bytes = one.object.body_bytes,
                                                 .metadata_bytes = one.object.metadata_bytes},
                                                begun_ns));
    }
    cursor = page->next;
  } while (cursor != 0);
  for (int number = 0; number < stage_.run.ids; ++number) {
    const std::string id = fmt::format("object-{}", number);
    if (std::ranges::find(seen, id) != seen.end()) continue;
    stage_.complain(stage_.births.judge_missing(id, begun_ns, stage_.now_ns()));
  }
}

}  // namespace refract::campaign
