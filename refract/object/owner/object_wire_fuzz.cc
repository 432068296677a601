// SPDX-License-Identifier: Apache-2.0
// Arbitrary calls to an owner of objects. Every call is answered by a code of the contract or waits within
// its bounds, the store stays sound, and what sessions held is given back with them. The first byte says
// which world: one with room, or one that is full of what is held.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "refract/base/check.h"
#include "refract/object/testing/test_object_service.h"

namespace {

using refract::Code;
using namespace refract::object;  // NOLINT(google-build-using-namespace)

constexpr uint64_t kClaim = 7;

struct World {
  explicit World(bool is_full)
      : served({.chunks = 6, .chunks_max = 6, .limit = is_full ? 200'000U : 1'000'000U}) {
    const test::Served::Peer peer = served.connect();
    const auto call = [&](wire::Method method, std::string_view body) {
      return served.call(peer, method, body).code;
    };
    REFRACT_CHECK(call(wire::Method::kPut, test::put_body("apple", kClaim, "red", "m1")) == Code::kOk);
    REFRACT_CHECK(call(wire::Method::kKeep, test::id_body("apple", 0, 1)) == Code::kOk);
    large.resize(is_full ? 199'000 : 5000, 'x');
    REFRACT_CHECK(call(wire::Method::kCreate, test::create_body("big", kClaim, {.body = large.size()})) ==
                  Code::kOk);
    const std::string seal = test::fill_body("big", kClaim, large.size(), served.lend(large));
    REFRACT_CHECK(call(wire::Method::kSeal, seal) == Code::kOk);
    if (is_full) served.owner->readers.pin(served.owner->store.find(test::as_bytes("big"))->object);
  }
  test::Served served;
  std::string large;
};

bool is_of_the_contract(Code code) {
  constexpr std::array kCodes = {Code::kOk,
                                 Code::kNotFound,
                                 Code::kExists,
                                 Code::kVersionMismatch,
                                 Code::kTooLarge,
                                 Code::kNoSpace,
                                 Code::kOverloaded,
                                 Code::kInvalidArgument,
                                 Code::kInvalidated,
                                 Code::kUnsupported,
                                 Code::kMalformed,
                                 Code::kAccessDenied,
                                 Code::kIndeterminate,
                                 Code::kDeadlineExceeded};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

// The input as calls: the method's low byte, two bytes of length, body. In a body of filled or seal, a source
// of all ones becomes memory that may be READ; in fetch_done and notices, a handle or cursor of 1 the latest
// one, and they cannot be guessed.
class Caller {
 public:
  explicit Caller(test::Served& served)
      : served_(served), peer_(served.connect()), place_(served.lend(memory_)) {}

  void run(std::span<const std::byte> input) {
    std::array<uint64_t, 64> started{};
    size_t count = 0;
    while (input.size() >= 3 && count < started.size()) {
      const auto method = static_cast<wire::Method>(wire::kMethodsBegin + static_cast<uint16_t>(input[0]));
      const size_t wanted = static_cast<size_t>(input[1]) | static_cast<size_t>(input[2]) << 8;
      input = input.subspan(3);
      const size_t bytes = std::min({wanted, input.size(), peer_->payload_bytes_max()});
      std::string body(reinterpret_cast<const char*>(input.data()), bytes);
      input = input.subspan(bytes);
      complete(method, body);
      const uint64_t id = served_.start_call(peer_, method, body);
      if (!peer_->done(id)) {
        started[count++] = id;
        continue;
      }
      take(method, peer_->finish(id));
    }
    served_.pass(2 * refract::kSecond_ns);
    // Whatever waits still does so within its bounds; it ends with the session.
    for (size_t i = 0; i < count; ++i) (void)peer_->finish(started[i]);
    served_.close(peer_);
    served_.take_back(place_);
  }

 private:
  void complete(wire::Method method, std::string& body) const {
    const bool fills = method == wire::Method::kFilled || method == wire::Method::kSeal;
    wire::Place source{};
    if (fills && body.size() >= sizeof(wire::FillRequest)) {
      char* const at = body.data() + offsetof(wire::FillRequest, source);
      std::memcpy(&source, at, sizeof(source));
      if (source.address == UINT64_MAX && source.key == UINT64_MAX) std::memcpy(at, &place_, sizeof(place_));
    }
    const bool names = method == wire::Method::kFetchDone || method == wire::Method::kNotices ||
                       method == wire::Method::kList;
    uint64_t first = 0;
    if (names && body.size() >= sizeof(first)) {
      std::memcpy(&first, body.data(), sizeof(first));
      if (first == 1) std::memcpy(body.data(), &latest_, sizeof(latest_));
    }
  }
  void take(wire::Method method, const refract::runtime::OpResult& result) {
    REFRACT_CHECK(is_of_the_contract(result.code));
    std::span<const std::byte> bytes = result.bytes;
    if (result.code != Code::kOk) return;
    if (method == wire::Method::kFetch) latest_ = refract::kv::wire::take<wire::FetchReply>(bytes)->fetch;
    if (method == wire::Method::kNotices) latest_ = refract::kv::wire::take<wire::NoticesReply>(bytes)->next;
    if (method == wire::Method::kList) latest_ = refract::kv::wire::take<wire::ListReply>(bytes)->next;
  }

  test::Served& served_;
  test::Served::Peer peer_;
  std::string memory_ = std::string(8192, 'y');
  wire::Place place_;
  uint64_t latest_ = 0;
};

// What is there at first; an input that has changed it gets the next one a new world.
bool is_as_made(test::Served& served) {
  const wire::StatReply stat = served.stat();
  return served.object("apple") == "red|m1" && served.owner->store.find(test::as_bytes("big")).has_value() &&
         stat.objects == 2 && stat.creations == 0 && stat.departed == 0 && stat.kept_bytes == 5;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  if (bytes == 0) return 0;
  static std::array<std::unique_ptr<World>, 2> worlds;
  std::unique_ptr<World>& world = worlds[data[0] & 1];
  if (world == nullptr) world = std::make_unique<World>((data[0] & 1) != 0);
  test::Served& served = world->served;
  Caller(served).run(std::as_bytes(std::span(data, bytes)).subspan(1));
  // Creations of the session wait for their creator.
  served.pass(ObjectService::kClaim_ns + refract::kSecond_ns);
  REFRACT_CHECK(served.owner->is_sound());
  REFRACT_CHECK(served.owner->fetches.count() == 0);
  REFRACT_CHECK(served.owner->windows.open_count() == 0);
  const ObjectService::Counts counts = served.owner->service->counts();
  REFRACT_CHECK(counts.creations == 0 && counts.waiting_for_room == 0 && counts.waiting_for_objects == 0);
  REFRACT_CHECK(served.stat().creation_bytes == 0);
  if (!is_as_made(served)) world = nullptr;
  return 0;
}
