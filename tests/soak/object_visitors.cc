// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/object_visitors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/process/node_process.h"
#include "tests/process/sealed.h"

#include "refract/base/prng.h"
#include "refract/base/units.h"
#include "refract/client/client.h"
#include "refract/client/objects.h"

namespace refract::test {
namespace {

// All visitors make, get and remove the same ones, through all nodes.
constexpr uint64_t kShared = 40;
constexpr uint64_t kSteps = 60;
constexpr size_t kHeldMax = 20;

class ObjectVisitor {
 public:
  ObjectVisitor(Objects& objects, Prng& prng) : objects_(objects), prng_(prng) {}

  // Nothing, or what was wrong.
  std::string visit() {
    for (uint64_t i = 0; i < kSteps && trouble_.empty(); ++i) step();
    return trouble_;
  }

 private:
  void step() {
    const std::string id = fmt::format("visited {}", prng_.below(kShared));
    const uint64_t dice = prng_.below(20);
    if (dice < 4) return look(objects_.put(id, sealed_value(id, prng_.next(), bytes())).code(), "put", id);
    if (dice < 7) return make(id);
    if (dice < 15) return get(id);
    if (dice < 18) return look(objects_.remove(id).code(), "remove", id);
    if (dice < 19) return look(objects_.list(0, Listing::kAll).code(), "list", id);
    if (!held_.empty()) held_.erase(held_.begin());
  }
  // Of each way from a node to another: what fits a message, and what is pulled in pieces.
  [[nodiscard]] uint64_t bytes() {
    const uint64_t dice = prng_.below(20);
    return kSealedBytesMin + prng_.below(dice == 0 ? 3'000'000 : dice < 6 ? 200'000 : 5'000);
  }
  // Some are left in the middle, by this or by the end of the process.
  void make(const std::string& id) {
    const std::string body = sealed_value(id, prng_.next(), bytes());
    auto made = objects_.create(id, body.size(), 0, {.room_timeout_ms = 100});
    if (!made) return look(made.code(), "create", id);
    const size_t first = body.size() / 2;
    std::memcpy(made->body().data(), body.data(), first);
    if (prng_.below(2) == 0) look(made->filled(first), "filled", id);
    if (prng_.below(5) == 0) return;
    std::memcpy(made->body().data() + first, body.data() + first, body.size() - first);
    const auto sealed = made->seal();
    look(sealed.code(), "seal", id);
  }
  void get(const std::string& id) {
    auto object = objects_.get(id, prng_.below(3) == 0 ? 20 : 0);
    if (!object) return look(object.code(), "get", id);
    const std::string_view body(reinterpret_cast<const char*>(object->body().data()), object->body().size());
    if (!number_in(id, body)) return look(Code::kCorrupt, "get", id);
    if (prng_.below(2) == 0) held_.push_back(std::move(*object));
    if (held_.size() > kHeldMax) held_.erase(held_.begin());
  }
  // What a call may come to beside programs that make and remove the same ones, and are killed.
  void look(Code code, const char* call, const std::string& id) {
    constexpr Code kExpected[] = {
        Code::kOk,         Code::kNotFound,        Code::kExists,        Code::kNoSpace,
        Code::kAway,       Code::kVersionMismatch, Code::kIndeterminate, Code::kUnavailable,
        Code::kOverloaded, Code::kDeadlineExceeded};
    if (std::ranges::find(kExpected, code) != std::end(kExpected)) return;
    trouble_ = fmt::format("{} of '{}' was answered with {}; {}", call, id, info(code).text,
                           objects_.trouble().to_string());
  }

  Objects& objects_;
  Prng& prng_;
  std::vector<Object> held_;
  std::string trouble_;
};

}  // namespace

int visit_objects(const ObjectVisit& visit) {
  Prng prng(visit.seed);
  for (;;) {
    auto client = Client::connect(visit.addresses[prng.below(std::size(visit.addresses))],
                                  {.timeout_ns = kPatience_ns});
    if (!client) {
      (void)std::fprintf(stderr, "visitor: %s\n", client.error().to_string().c_str());
      return 1;
    }
    auto objects = client->objects();
    const std::string trouble = objects ? ObjectVisitor(*objects, prng).visit() : objects.error().to_string();
    if (trouble.empty()) continue;
    (void)std::fprintf(stderr, "visitor: %s\n", trouble.c_str());
    return 1;
  }
}

}  // namespace refract::test
