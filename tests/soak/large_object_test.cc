// SPDX-License-Identifier: Apache-2.0
// An object of more than 4 GiB: no length, offset or count on its way has 32 bits.
//
//   REFRACT_LARGE_OBJECT=1 lasting_objects_test --gtest_filter='LargeObject*'   a minute, and 14 GiB of
//   memory
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "tests/cluster/node_set.h"
#include "tests/cluster/shared_nodes.h"
#include "tests/objects/object_node.h"

#include "refract/base/units.h"

namespace refract::test {
namespace {

// The last piece is no whole one of anything.
constexpr uint64_t kBodyBytes = 4 * kGiB + kMiB + 4'104;
constexpr uint64_t kToldBytes = 512 * kMiB;
// Three times the object: its maker's memory or a reader's copy, and two nodes'; and what the machine needs.
constexpr uint64_t kNeededBytes = 14 * kGiB;

uint64_t available_bytes() {
  const std::string info = read_whole("/proc/meminfo");
  const size_t at = info.find("MemAvailable:");
  return at == std::string::npos ? 0 : std::strtoull(info.c_str() + at + 13, nullptr, 10) * kKiB;
}

// Each word says where it belongs.
uint64_t word_at(uint64_t index) {
  return index * 0x9e37'79b9'7f4a'7c15;
}
void fill(std::span<std::byte> bytes, uint64_t from) {
  for (uint64_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    const uint64_t word = word_at((from + at) / sizeof(uint64_t));
    std::memcpy(bytes.data() + at, &word, sizeof(word));
  }
}
// The place of the first word that is wrong; nothing: all are right.
std::string trouble_of(const Object& object) {
  if (object.body().size() != kBodyBytes) return "it has " + std::to_string(object.body().size()) + " bytes";
  if (Bytes(object.metadata()).text() != "layers: 12") return "other metadata";
  for (uint64_t at = 0; at < kBodyBytes; at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, object.body().data() + at, sizeof(word));
    if (word != word_at(at / sizeof(uint64_t))) return "another word at " + std::to_string(at);
  }
  return {};
}

TEST(LargeObject, is_whole_on_its_node_on_another_one_and_over_a_network) {
  if (std::getenv("REFRACT_LARGE_OBJECT") == nullptr) {
    GTEST_SKIP() << "it takes a minute: REFRACT_LARGE_OBJECT=1 runs it";
  }
  if (available_bytes() < kNeededBytes) GTEST_SKIP() << "it takes 14 GiB of free memory";
  const TemporaryFolder folder;
  NodeSet nodes({"a", "b"}, {.arguments = {"--objects-limit", "5GiB", "--cluster-secret-file",
                                           write_secret(folder, "secret", SharedNodes::kSecret)}});
  for (size_t i = 0; i < nodes.size(); ++i) ASSERT_TRUE(nodes.node(i).is_up()) << nodes.node(i).errors();
  nodes.write_list(nodes.true_list(2));
  nodes.hang_up();
  ObjectClient a = open_objects(nodes.node(0));
  ObjectClient b = open_objects(nodes.node(1));
  for (ObjectClient* one : {&a, &b})
    ASSERT_EQ(code_when(one->objects, "weights", Code::kNotFound), Code::kNotFound);
  uint64_t birth = 0;
  {
    const std::string_view metadata = "layers: 12";
    auto made = a.objects.create("weights", kBodyBytes, 10);
    ASSERT_TRUE(made) << a.objects.trouble().to_string();
    for (uint64_t at = 0; at < kBodyBytes; at += kToldBytes) {
      const uint64_t bytes = std::min(kToldBytes, kBodyBytes - at);
      fill(made->body().subspan(at, bytes), at);
      ASSERT_EQ(made->filled(at + bytes), Code::kOk) << at;
    }
    std::memcpy(made->metadata().data(), metadata.data(), metadata.size());
    const auto sealed = made->seal();
    ASSERT_TRUE(sealed) << a.objects.trouble().to_string();
    birth = sealed->birth();
    EXPECT_FALSE(sealed->is_copy());
    EXPECT_EQ(trouble_of(*sealed), "");
  }
  EXPECT_EQ(a.objects.stat().value().used, kBodyBytes + 10);
  {
    const auto copy = b.objects.get("weights", 100'000);
    ASSERT_TRUE(copy) << text(copy.code()) << ", " << b.objects.trouble().to_string();
    EXPECT_EQ(copy->birth(), birth);
    EXPECT_EQ(trouble_of(*copy), "") << "pulled by the other node";
  }
  EXPECT_EQ(b.objects.evict(1).value_or(0), kBodyBytes + 10);
  {
    ObjectClient far = open_objects(nodes.node(0), {.is_tcp = true});
    const auto copy = far.objects.get("weights");
    ASSERT_TRUE(copy) << text(copy.code()) << ", " << far.objects.trouble().to_string();
    EXPECT_TRUE(copy->is_copy());
    EXPECT_EQ(trouble_of(*copy), "") << "over TCP";
  }
  EXPECT_EQ(a.objects.remove("weights", birth).value_or(99), 0U) << "holders";
  EXPECT_EQ(leak_after_removing_all(a.objects), "");
}

}  // namespace
}  // namespace refract::test
