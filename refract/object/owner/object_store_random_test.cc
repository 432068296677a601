// SPDX-License-Identifier: Apache-2.0
// Random calls, beside a model that knows what was made and who holds it; everything is compared after every
// step.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "refract/base/prng.h"
#include "refract/object/testing/test_store.h"

namespace refract::object {
namespace {

using test::id_of;
using test::StoreWorld;

struct Made {
  uint64_t birth = 0;
  ObjectParts parts;
  Offset object;
  bool is_sealed = false;
  bool is_kept = false;
};

class Campaign : public ObjectStore::Listener {
 public:
  Campaign(uint64_t seed, const test::StoreOptions& options) : prng(seed), world(options) {
    world.store().tell(this);
  }

  void sealed(std::span<const std::byte> id, const Object& object) override {
    const std::string name = test::text_of(id);
    // What comes whole may not have been a creation.
    if (name == putting) ids.try_emplace(name, Made{object.birth, object.parts, object.object});
    const Made& made = ids.at(name);
    EXPECT_EQ(object.birth, made.birth);
    EXPECT_EQ(object.object.value, made.object.value);
  }
  void deleted(std::span<const std::byte> id, const Object& object) override {
    const std::string name = test::text_of(id);
    const auto at = ids.find(name);
    ASSERT_NE(at, ids.end()) << name;
    EXPECT_TRUE(at->second.is_sealed) << name;
    EXPECT_EQ(object.birth, at->second.birth);
    if (name != deleting) {
      ++evicted;
      EXPECT_FALSE(at->second.is_kept) << name;
      EXPECT_FALSE(world.readers.holds(object.object)) << name;
    }
    ids.erase(at);
  }

  void step() {
    const std::string id = "id " + std::to_string(prng.below(120));
    const auto at = ids.find(id);
    const uint64_t birth = at == ids.end() ? ++last_birth : at->second.birth;
    switch (prng.below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return create(id, birth);
      case 4:
        return put(id, birth);
      case 5:
      case 6:
      case 7:
      case 8:
        return seal(id, birth);
      case 9:
      case 10:
        return erase(id, at);
      case 11:
        return keep(id, at);
      case 12:
      case 13:
        return hold(at);
      case 14:
        return let_go();
      case 15:
      case 16:
        return seal(id, birth);
      case 17:
        world.store().evict(prng.below(300 * kKiB));
        return;
      case 18:
        return end(id, at);
      default:
        world.store().release_departed();
    }
    if (prng.below(10) == 0) restart();
  }

  struct Bytes {
    uint64_t body = 0;
    uint32_t metadata = 0;
  };
  // Those that it has, or any.
  Bytes bytes_of(const std::string& id) {
    const auto at = ids.find(id);
    if (at != ids.end()) return {at->second.parts.body_bytes, at->second.parts.metadata_bytes};
    const uint64_t body = prng.below(4) == 0 ? prng.below(2 * kMiB) : prng.below(3000) * prng.below(60);
    return {body, static_cast<uint32_t>(prng.below(100))};
  }
  // Also of what is a creation, or sealed.
  void put(const std::string& id, uint64_t birth) {
    const Bytes bytes = bytes_of(id);
    putting = id;
    const Result<Object> made = world.put(id, birth, bytes.body, bytes.metadata);
    putting.clear();
    if (made) {
      ASSERT_TRUE(ids.contains(id)) << "nothing was told of it";
      ids.at(id).is_sealed = true;
      return;
    }
    EXPECT_EQ(made.code(), Code::kNoSpace);
    // A creation that could not be sealed ends.
    const auto at = ids.find(id);
    if (at != ids.end() && !at->second.is_sealed) ids.erase(at);
  }
  void create(const std::string& id, uint64_t birth) {
    const auto at = ids.find(id);
    const Bytes bytes = bytes_of(id);
    const Result<Creation> made = world.create(id, birth, bytes.body, bytes.metadata);
    if (!made) {
      EXPECT_EQ(made.code(), Code::kNoSpace);
      return;
    }
    if (at != ids.end() && ids.contains(id)) {
      EXPECT_EQ(made->object.value, ids.at(id).object.value);
      EXPECT_EQ(made->is_sealed, ids.at(id).is_sealed);
      return;
    }
    world.fill(*made);
    ids[id] = {.birth = birth, .parts = made->parts, .object = made->object};
  }
  void seal(const std::string& id, uint64_t birth) {
    const bool is_there = ids.contains(id);
    const Result<Object> object = world.store().seal(id_of(id), birth);
    if (object) {
      ASSERT_TRUE(ids.contains(id));
      ids.at(id).is_sealed = true;
    } else {
      EXPECT_EQ(object.code(), is_there ? Code::kNoSpace : Code::kNotFound);
    }
  }
  using At = std::map<std::string, Made>::iterator;
  void erase(const std::string& id, At at) {
    const bool is_object = at != ids.end() && at->second.is_sealed;
    uint64_t holders = 0;
    for (const Held& one : held) holders += is_object && one.made.birth == at->second.birth ? 1 : 0;
    deleting = id;
    const Result<uint64_t> erased = world.store().erase(id_of(id), 0);
    deleting.clear();
    if (erased) {
      EXPECT_EQ(*erased, holders);
      EXPECT_FALSE(ids.contains(id));
    } else {
      EXPECT_TRUE(erased.code() == Code::kNoSpace || !is_object);
    }
  }
  void keep(const std::string& id, At at) {
    const bool is_kept = prng.below(3) == 0;
    if (at == ids.end() || !at->second.is_sealed) return;
    const Code code = world.store().keep(id_of(id), is_kept);
    EXPECT_TRUE(code == Code::kOk || code == Code::kNoSpace);
    if (code == Code::kOk) at->second.is_kept = is_kept;
  }
  void hold(At at) {
    if (at == ids.end() || !at->second.is_sealed || held.size() > 15) return;
    held.push_back({at->second});
    world.readers.hold(at->second.object);
  }
  void let_go() {
    if (held.empty()) return;
    const size_t which = prng.below(held.size());
    world.readers.let_go(held[which].made.object);
    held.erase(held.begin() + static_cast<ptrdiff_t>(which));
  }
  void end(const std::string& id, At at) {
    const Code code = world.store().end_creation(id_of(id), at == ids.end() ? 1 : at->second.birth);
    if (at != ids.end() && !at->second.is_sealed) {
      EXPECT_EQ(code, Code::kOk);
      ids.erase(at);
    } else {
      EXPECT_EQ(code, Code::kNotFound);
    }
  }
  void restart() {
    ASSERT_TRUE(world.restart());
    world.store().tell(this);
  }

  void compare() {
    ASSERT_EQ(world.damage(), "");
    ASSERT_LE(world.accounts().used(), world.accounts().limit);
    const std::map<std::string, Object> objects = world.objects();
    size_t sealed = 0;
    for (const auto& [id, made] : ids) {
      const auto at = objects.find(id);
      ASSERT_EQ(at != objects.end(), made.is_sealed) << id;
      if (!made.is_sealed) continue;
      ++sealed;
      EXPECT_EQ(at->second.birth, made.birth);
      EXPECT_EQ(at->second.is_kept, made.is_kept);
      EXPECT_EQ(at->second.object.value, made.object.value);
    }
    EXPECT_EQ(sealed, objects.size());
    for (const Held& one : held) {
      EXPECT_TRUE(world.has_its_bytes(one.made.object, one.made.birth, one.made.parts));
    }
  }

  struct Held {
    Made made;
  };
  Prng prng;
  StoreWorld world;
  std::map<std::string, Made> ids;
  std::vector<Held> held;
  std::string deleting;
  std::string putting;
  uint64_t evicted = 0;
  uint64_t last_birth = 1;
};

void run(uint64_t seed, const test::StoreOptions& options, uint64_t& evicted) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Campaign campaign(seed, options);
  for (int step = 0; step < 4000; ++step) {
    campaign.step();
    campaign.compare();
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "step " << step;
      return;
    }
  }
  evicted += campaign.evicted;
  campaign.held.clear();
  campaign.world.store().tell(nullptr);
  campaign.world.empty();
  EXPECT_EQ(campaign.world.accounts().used(), 0U);
  EXPECT_EQ(campaign.world.accounts().kept_bytes, 0U);
  EXPECT_EQ(campaign.world.damage(), "");
  EXPECT_LE(campaign.world.heap().stats().buffers_live, 1U);
}

TEST(ObjectStoreCampaign, the_limit_is_what_is_short) {
  uint64_t evicted = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    run(seed, {.chunks = 64, .chunks_max = 64, .limit = 6 * kMiB}, evicted);
  }
  EXPECT_GT(evicted, 1000U);
}

TEST(ObjectStoreCampaign, runs_of_memory_are_what_is_short) {
  uint64_t evicted = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    run(seed, {.chunks = 14, .chunks_max = 14, .limit = 64 * kMiB}, evicted);
  }
  EXPECT_GT(evicted, 1000U);
}

}  // namespace
}  // namespace refract::object
