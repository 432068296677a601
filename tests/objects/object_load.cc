// SPDX-License-Identifier: Apache-2.0
#include "tests/objects/object_load.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "tests/process/sealed.h"

#include "refract/base/prng.h"

namespace refract::test {
namespace {

std::string id_of(int maker, int which) {
  return fmt::format("maker-{}-object-{}", maker, which);
}

class ObjectLoad {
 public:
  ObjectLoad(Objects& objects, ObjectLedger& ledger, int maker)
      : objects_(objects),
        stop_(ledger.stop),
        own_(ledger.makers[maker]),
        maker_(maker),
        prng_(static_cast<uint64_t>(maker) + 11) {}

  [[nodiscard]] int run() {
    while (!stop_.load() && trouble_.empty()) {
      step(static_cast<int>(prng_.below(kObjectIds)));
      own_.operations.fetch_add(1);
    }
    if (trouble_.empty()) return 0;
    (void)std::fprintf(stderr, "maker %d: %s\n", maker_, trouble_.c_str());
    return 1;
  }

 private:
  void step(int which) {
    const uint64_t before = own_.sealed[which].load();
    const std::string id = id_of(maker_, which);
    const uint64_t dice = prng_.below(10);
    if (before != 0 && dice < 4) return read(id, before);
    if (before != 0) return remove(which, id);
    if (dice == 0) return abandon(id);
    if (dice < 3) return put_some();
    make(which, id, dice < 7);
  }

  [[nodiscard]] uint64_t next_bytes() {
    const uint64_t dice = prng_.below(20);
    const uint64_t most = dice == 0 ? kLoadBodyBytesMax : dice < 4 ? 300'000 : 4'000;
    return kSealedBytesMin + prng_.below(most);
  }

  void make(int which, const std::string& id, bool at_once) {
    const std::string body = sealed_value(id, ++number_, next_bytes());
    Code code = Code::kOk;
    if (at_once) {
      code = objects_.put(id, body).code();
    } else {
      auto made = objects_.create(id, body.size());
      code = made.code();
      if (made) code = fill_and_seal(*made, body);
    }
    if (code != Code::kOk) return complain("make", id, code);
    own_.sealed[which].store(number_);
  }
  [[nodiscard]] Code fill_and_seal(NewObject& made, const std::string& body) {
    const uint64_t first = body.size() / 2;
    std::memcpy(made.body().data(), body.data(), first);
    if (prng_.below(2) == 0) (void)made.filled(first);
    std::memcpy(made.body().data() + first, body.data() + first, body.size() - first);
    const auto sealed = made.seal();
    if (sealed && number_of(*sealed) != number_) return Code::kCorrupt;
    return sealed.code();
  }
  void abandon(const std::string& id) {
    auto made = objects_.create(id, next_bytes());
    if (!made) return complain("create", id, made.code());
    const Code code = made->abandon();
    if (code != Code::kOk) complain("abandon", id, code);
  }
  void put_some() {
    std::vector<std::string> ids;
    std::vector<std::string> bodies;
    std::vector<int> which;
    for (int i = 0; i < kObjectIds; ++i) {
      if (own_.sealed[i].load() != 0 || prng_.below(2) == 0) continue;
      which.push_back(i);
      ids.push_back(id_of(maker_, i));
      bodies.push_back(sealed_value(ids.back(), ++number_, kSealedBytesMin + prng_.below(2'000)));
    }
    std::vector<PutObject> puts;
    for (size_t i = 0; i < ids.size(); ++i) puts.push_back({.id = ids[i], .body = bodies[i]});
    objects_.put_many(puts);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!puts[i].result) return complain("put_many", ids[i], puts[i].result.code());
      own_.sealed[which[i]].store(*number_in(ids[i], bodies[i]));
    }
  }
  void read(const std::string& id, uint64_t number) {
    const auto object = objects_.get(id);
    if (!object) return complain("get", id, object.code());
    if (number_of(*object) != number) complain("get of other bytes", id, Code::kCorrupt);
  }
  // kIndeterminate: it is gone, and the answer was lost.
  void remove(int which, const std::string& id) {
    const Code code = objects_.remove(id).code();
    if (code != Code::kOk && code != Code::kIndeterminate) return complain("remove", id, code);
    if (const Code gone = objects_.get(id).code(); gone != Code::kNotFound) {
      return complain("get of what was removed", id, gone);
    }
    own_.sealed[which].store(0);
  }
  void complain(const char* what, const std::string& id, Code code) {
    trouble_ = fmt::format("{} {}: {}; {}", what, id, text(code), objects_.trouble().to_string());
  }

  Objects& objects_;
  const std::atomic<bool>& stop_;
  ObjectLedger::Of& own_;
  const int maker_;
  Prng prng_;
  uint64_t number_ = 0;
  std::string trouble_;
};

}  // namespace

SharedObjectLedger::SharedObjectLedger() {
  void* memory =
      ::mmap(nullptr, sizeof(ObjectLedger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  ledger_ = new (memory) ObjectLedger{};
}

SharedObjectLedger::~SharedObjectLedger() {
  (void)::munmap(ledger_, sizeof(ObjectLedger));
}

uint64_t SharedObjectLedger::operations() const {
  uint64_t count = 0;
  for (const ObjectLedger::Of& maker : ledger_->makers) count += maker.operations.load();
  return count;
}

int run_object_load(const Node& node, const ObjectShape& shape, ObjectLedger& ledger, int maker) {
  ObjectClient opened = open_objects(node, shape);
  return ObjectLoad(opened.objects, ledger, maker).run();
}

std::string differences_of(Objects& objects, const ObjectLedger& ledger, int maker) {
  std::string differences;
  for (int which = 0; which < kObjectIds; ++which) {
    const uint64_t expected = ledger.makers[maker].sealed[which].load();
    const auto object = objects.get(id_of(maker, which));
    const bool is_right =
        expected == 0 ? object.code() == Code::kNotFound : object && number_of(*object) == expected;
    if (!is_right) differences += fmt::format("{}: {}\n", id_of(maker, which), text(object.code()));
  }
  return differences;
}

}  // namespace refract::test
