// SPDX-License-Identifier: Apache-2.0
// What the client's side and the owner of objects promise together (object_calls.h), as one test suite over
// all ways to reach an owner. A way is a row:
//
//   INSTANTIATE_TEST_SUITE_P(Sim, ObjectConformance, testing::Values(Way{"sim", make_sim_way}), name_of_way);
//
// The claims are in conformance_test.cc, the rows in conformance_ways_test.cc.
//
// Threads: one.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "refract/base/testing/needed.h"
#include "refract/kv/calls/lender.h"
#include "refract/memory/host/shared_buffer.h"
#include "refract/object/calls/object_calls.h"
#include "refract/object/testing/test_objects.h"
#include "refract/rpc/session.h"
#include "refract/runtime/shard.h"

namespace refract::object {

// One client of an owner that has no objects, and whose limit is kLimit.
class ObjectWay {
 public:
  static constexpr uint64_t kLimit = 24 * kMiB;
  static constexpr uint64_t kChunks = 48;

  ObjectWay() = default;
  ObjectWay(const ObjectWay&) = delete;
  ObjectWay& operator=(const ObjectWay&) = delete;
  virtual ~ObjectWay() = default;

  // Body, padding and metadata, in copies of their own.
  struct Got {
    wire::ObjectReply object{};
    std::vector<std::byte> bytes;
  };
  [[nodiscard]] virtual Result<Got> get(std::string_view id);

  [[nodiscard]] virtual ObjectCalls& calls() = 0;  // Ready for use.
  [[nodiscard]] virtual runtime::Shard& shard() = 0;
  // How long a message may be: lengths around it are worth trying.
  [[nodiscard]] virtual size_t message_bytes_max() = 0;
  // Whether what is filled has to lie in a file for the owner to READ it.
  [[nodiscard]] virtual bool fills_files() { return false; }
  [[nodiscard]] virtual test::Owner& owner() = 0;
};

inline Result<ObjectWay::Got> ObjectWay::get(std::string_view id) {
  class Kept final : public ObjectCalls::Room {
   public:
    std::byte* room(const ObjectParts& parts) override {
      bytes.assign(parts.filled_bytes(), std::byte{0xee});
      return bytes.data();
    }
    std::vector<std::byte> bytes;
  } kept;
  const Result<wire::ObjectReply> reply =
      runtime::block_on(shard(), calls().fetch(test::as_bytes(id), 0, kept));
  if (!reply) return fail(reply.code());
  return Got{.object = *reply, .bytes = std::move(kept.bytes)};
}

// Memory for an owner in this process.
class OwnersMemory {
 public:
  explicit OwnersMemory(const Clock& clock) : pages_(ObjectWay::kChunks * kChunkBytes / sizeof(Page)) {
    test::format_space(base(), ObjectWay::kChunks, ObjectWay::kChunks, clock);
  }
  [[nodiscard]] std::byte* base() noexcept { return static_cast<std::byte*>(pages_.data()->bytes); }
  [[nodiscard]] test::OwnerOptions options() noexcept {
    return {.base = base(), .chunks = ObjectWay::kChunks, .limit = ObjectWay::kLimit, .growth = nullptr};
  }

 private:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> pages_;
};

struct Way {
  std::string name;  // Of letters and digits: part of the tests' names.
  std::function<std::unique_ptr<ObjectWay>()> make;
};

// For gtest, which would print the bytes of the object.
inline void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name;
}

[[nodiscard]] inline std::string name_of_way(const testing::TestParamInfo<Way>& way) {
  return way.param.name;
}

// A session that is open and the calls over it, both ends of which this thread moves.
class OpenCalls {
 public:
  static constexpr uint64_t kPatience_ns = 60 * kSecond_ns;

  // `lends`: whether the owner may READ what is filled.
  OpenCalls(fabric::Domain& domain, const std::string& address, runtime::Shard& shard, bool lends)
      : lender_(domain),
        channel_(refract::test::needed(domain.connect(address))),
        session_(*channel_, shard),
        calls_(session_, shard,
               {.timeout_ns = kPatience_ns, .lender = lends ? &lender_ : nullptr, .is_given_up = {}}) {
    EXPECT_TRUE(shard.run_until([this] { return session_.state() == rpc::Session::State::kOpen; },
                                shard.refresh_now() + kPatience_ns));
  }

  [[nodiscard]] ObjectCalls& calls() noexcept { return calls_; }
  [[nodiscard]] const fabric::Channel& channel() const noexcept { return *channel_; }

 private:
  kv::Lender lender_;
  fabric::Channel* channel_;
  rpc::Session session_;
  ObjectCalls calls_;
};

class ObjectConformance : public testing::TestWithParam<Way> {
 protected:
  // What is being made, with its memory: body, padding and metadata.
  struct Made {
    Made() = default;
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;
    ~Made() {
      if (file) file->retire();
    }
    std::string id;
    std::vector<std::byte> own;
    SharedBufferHold file;
    Making making;
  };
  // The id is not copied anywhere else, so it does not move.
  [[nodiscard]] std::unique_ptr<Made> made(std::string_view id, const test::Lengths& lengths) {
    auto one = std::make_unique<Made>();
    one->id = id;
    one->making.id = test::as_bytes(one->id);
    one->making.claim = ++last_claim_;
    one->making.parts = {.body_bytes = lengths.body,
                         .metadata_bytes = lengths.metadata,
                         .id_bytes = static_cast<uint16_t>(id.size())};
    const uint64_t bytes = lengths.filled();
    if (bytes == 0) return one;
    if (way->fills_files()) {
      one->file = refract::test::needed(SharedBuffer::make(bytes));
      one->making.shared = one->file.get();
      one->making.bytes = one->file->bytes().data();
    } else {
      one->own.resize(bytes);
      one->making.bytes = one->own.data();
    }
    return one;
  }
  // What an object of these lengths and this number has in its body and metadata.
  [[nodiscard]] static std::string content(uint64_t bytes, uint64_t number);
  static void fill(const Made& made, uint64_t number);
  [[nodiscard]] Code create(Made& made, uint64_t room_timeout_ns = 0) {
    return run(way->calls().create(made.making, room_timeout_ns));
  }
  [[nodiscard]] Code seal(Made& made) { return run(way->calls().seal(made.making)); }
  [[nodiscard]] Code make(std::string_view id, const test::Lengths& lengths, uint64_t number);
  // The claim is a new one.
  [[nodiscard]] Code put(std::string_view id, std::string_view body, std::string_view metadata = {}) {
    return run(way->calls().put(put_of(id, body, metadata), 0));
  }
  [[nodiscard]] ObjectCalls::Put put_of(std::string_view id, std::string_view body,
                                        std::string_view metadata = {}) {
    return {.id = test::as_bytes(id),
            .body = test::as_bytes(body),
            .metadata = test::as_bytes(metadata),
            .claim = ++last_claim_};
  }
  [[nodiscard]] Code remove(std::string_view id, uint64_t birth = 0) {
    return run(way->calls().remove(test::as_bytes(id), birth)).code();
  }
  // Nothing, or what differs from an object of these lengths and this number.
  [[nodiscard]] std::string trouble_of(std::string_view id, const test::Lengths& lengths, uint64_t number);
  // Nothing is held, kept, or under way, and what is left is explained.
  void expect_nothing_is_left();

  template <typename T>
  [[nodiscard]] T run(runtime::Task<T> task) {
    return runtime::block_on(way->shard(), std::move(task));
  }

  std::unique_ptr<ObjectWay> way = GetParam().make();

 private:
  uint64_t last_claim_ = 0;
};

}  // namespace refract::object
