// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/formats/objects.md, byte for byte.
#include "refract/object/layout/object_wire.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/result.h"
#include "refract/base/testing/golden.h"
#include "refract/memory/remote_pointer.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/layout/object_key.h"
#include "refract/object/layout/object_layout.h"
#include "refract/object/layout/object_paths_wire.h"

namespace refract::object::wire {
namespace {

constexpr uint64_t kClaim = 0x1122'3344'5566'7788;
constexpr uint64_t kKey = 0x1122'3344'5566'7700;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// The bytes of some structs, or of texts, one behind the other.
class Bytes {
 public:
  template <typename T>
  Bytes& add(const T& value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes& text(std::string_view text) {
    bytes_.insert(bytes_.end(), bytes_of(text).begin(), bytes_of(text).end());
    return *this;
  }
  Bytes& pad(size_t alignment) {
    while (bytes_.size() % alignment != 0) bytes_.push_back(std::byte{0});
    return *this;
  }
  [[nodiscard]] const std::vector<std::byte>& all() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

void expect_page_shows(std::string_view heading, const Bytes& bytes) {
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/objects.md", heading);
  ASSERT_FALSE(lines.empty()) << heading;
  const golden::Line& last = lines.back();
  EXPECT_EQ(golden::image_of(lines, last.offset + last.bytes.size()), bytes.all()) << heading;
}

uint64_t birth() {
  return birth_of(bytes_of("apple"), kClaim);
}

ObjectReply apple(uint64_t body_bytes = 3) {
  return {
      .object_at = 0x40'0000, .birth = birth(), .body_bytes = body_bytes, .metadata_bytes = 2, .flags = 0};
}

std::string_view text_of(const ObjectKey& key) {
  return {reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size()};
}

const std::string kFilled("red\0\0\0\0\0m1", 10);

TEST(ObjectFormat, the_page_shows_a_record_and_an_object) {
  const ObjectKey key(KeyKind::kSealed, bytes_of("apple"));
  expect_page_shows("## A record in hex", Bytes()
                                              .text(text_of(key))
                                              .add(ObjectRecord{.object_at = 0x40'0000,
                                                                .birth = birth(),
                                                                .body_bytes = 3,
                                                                .metadata_bytes = 2,
                                                                .flags = ObjectRecord::kKept}));
  const ObjectKey tombstone = ObjectKey::tombstone(bytes_of("apple"), birth());
  expect_page_shows(
      "## A tombstone's record in hex",
      Bytes()
          .text(text_of(tombstone))
          .add(ObjectRecord{
              .object_at = 0, .birth = birth(), .body_bytes = 0, .metadata_bytes = 0, .flags = 0}));
  expect_page_shows("## An object in hex", Bytes()
                                               .add(ObjectHeader{.stamp = 0x10002,
                                                                 .mark = kObjectMark,
                                                                 .birth = birth(),
                                                                 .body_bytes = 3,
                                                                 .metadata_bytes = 2,
                                                                 .id_bytes = 5,
                                                                 .flags = ObjectHeader::kPulled,
                                                                 .copies = CopiesWord::of(3, 2).bits,
                                                                 .reserved_end = {}})
                                               .text(kFilled)
                                               .text("apple"));
  const ObjectParts parts{.body_bytes = 3, .metadata_bytes = 2, .id_bytes = 5};
  EXPECT_EQ(parts.metadata_at(), 72U);
  EXPECT_EQ(parts.filled_bytes(), kFilled.size());
  EXPECT_EQ(parts.total_bytes(), 128U);
}

TEST(ObjectFormat, the_page_shows_how_an_object_is_made) {
  const Place window{.address = RemotePointer::at(0x8001, 0).bits, .key = kKey};
  expect_page_shows("### create in hex", Bytes()
                                             .add(CreateRequest{.claim = kClaim,
                                                                .body_bytes = 3,
                                                                .timeout_ns = 1'000'000'000,
                                                                .metadata_bytes = 2,
                                                                .id_bytes = 5,
                                                                .wants_window = 1,
                                                                .reserved = 0})
                                             .text("apple"));
  expect_page_shows(
      "### Its answer in hex",
      Bytes().add(CreateReply{.object_at = 0x40'0000, .window = window, .is_sealed = 0, .reserved = {}}));
  constexpr uint64_t kMiB = 1 << 20;
  expect_page_shows(
      "### no_space in hex",
      Bytes().add(NoSpaceReply{
          .limit = 1024 * kMiB, .held = 600 * kMiB, .kept = 100 * kMiB, .in_creation = 64 * kMiB}));
  expect_page_shows(
      "### filled and seal in hex",
      Bytes()
          .add(FillRequest{.claim = kClaim,
                           .filled_bytes = 10,
                           .source = {.address = RemotePointer::at(0xc000, 0).bits, .key = kKey},
                           .timeout_ns = 1'000'000'000,
                           .id_bytes = 5,
                           .reserved = {}})
          .text("apple"));
  expect_page_shows("### The answer of seal and put in hex", Bytes().add(SealReply{0x40'0000}));
  expect_page_shows(
      "### abort, delete and keep in hex",
      Bytes().add(IdRequest{.birth = birth(), .id_bytes = 5, .flag = 1, .reserved = {}}).text("apple"));
  expect_page_shows("### The answer of delete in hex", Bytes().add(DeleteReply{2}));
  expect_page_shows("### The answer of delete where nodes b and c were missed in hex",
                    Bytes().add(DeleteReply{2}).text("\1b\1c"));
}

TEST(ObjectFormat, the_page_shows_objects_in_messages) {
  const PutRequest put{
      .claim = kClaim, .timeout_ns = 0, .body_bytes = 3, .metadata_bytes = 2, .id_bytes = 5, .reserved = {}};
  const PutRequest fig{
      .claim = 0x42, .timeout_ns = 0, .body_bytes = 0, .metadata_bytes = 0, .id_bytes = 3, .reserved = {}};
  expect_page_shows("### put in hex", Bytes().add(put).text("applered").text("m1"));
  expect_page_shows("### put_many of two in hex", Bytes()
                                                      .add(CountRequest{.count = 2, .reserved = 0})
                                                      .add(put)
                                                      .text("applered")
                                                      .text("m1")
                                                      .pad(8)
                                                      .add(fig)
                                                      .text("fig"));
  expect_page_shows("### Its answer, two codes, in hex",
                    Bytes().add(uint16_t{0}).add(static_cast<uint16_t>(Code::kExists)));
}

TEST(ObjectFormat, the_page_shows_how_an_object_is_read) {
  expect_page_shows(
      "### await and fetch in hex",
      Bytes()
          .add(AwaitRequest{.timeout_ns = kForever, .id_bytes = 5, .transfer = 0, .flags = 0, .reserved = {}})
          .text("apple"));
  expect_page_shows("### The answer of await in hex", Bytes().add(apple()));
  expect_page_shows("### The answer of fetch in hex",
                    Bytes().add(FetchReply{.object = apple(), .fetch = 0, .window = {}}).text(kFilled));
  const Place window{.address = RemotePointer::at(0x8002, 0).bits, .key = kKey};
  expect_page_shows("### The answer of fetch with a window in hex",
                    Bytes().add(FetchReply{.object = apple(1 << 30), .fetch = 7, .window = window}));
  expect_page_shows("### fetch_done in hex", Bytes().add(FetchDoneRequest{7}));
  expect_page_shows("### evict, and its answer, in hex", Bytes().add(EvictRequest{1 << 20}));
  expect_page_shows("### evict, and its answer, in hex", Bytes().add(EvictReply{1 << 20}));
}

TEST(ObjectFormat, the_page_shows_what_an_owner_tells_of_itself_and_of_other_nodes) {
  constexpr uint64_t k64KiB = 1 << 16;
  expect_page_shows("### paths in hex", Bytes().add(PathsRequest{.first = 0, .reserved = 0}));
  PathEntry path{.round_trip_ns = 40'000,
                 .bytes_per_s = 1'000'000'000,
                 .switch_bytes = 16 * 1024,
                 .message_ns = {50'000},
                 .read_ns = {100'000},
                 .name_bytes = 1,
                 .reserved = {}};
  expect_page_shows("### Its answer: one node, in hex",
                    Bytes().add(PathsReply{.count = 1, .next = 0}).add(path).text("b"));
  EXPECT_EQ(static_cast<uint16_t>(PathMethod::kPaths), 0x420);
  expect_page_shows("### The answer of stat in hex", Bytes().add(StatReply{.limit = 1 << 30,
                                                                           .used = 25 * k64KiB,
                                                                           .sealed_bytes = 16 * k64KiB,
                                                                           .creation_bytes = 6 * k64KiB,
                                                                           .departed_bytes = 3 * k64KiB,
                                                                           .held_bytes = 2 * k64KiB,
                                                                           .kept_bytes = k64KiB,
                                                                           .objects = 9,
                                                                           .creations = 8,
                                                                           .departed = 7,
                                                                           .held = 6,
                                                                           .sealed_ever = 0x15,
                                                                           .deleted_ever = 0x14,
                                                                           .evicted_ever = 0x13,
                                                                           .evicted_bytes_ever = 0x12000,
                                                                           .aborted_ever = 0x11,
                                                                           .shares = 1}));
  expect_page_shows(
      "### where in hex",
      Bytes().add(IdRequest{.birth = 0, .id_bytes = 5, .flag = 0, .reserved = {}}).text("apple"));
  expect_page_shows("### Its answer: nodes a and c, in hex", Bytes()
                                                                 .add(WhereReply{.birth = birth(),
                                                                                 .body_bytes = 3,
                                                                                 .metadata_bytes = 2,
                                                                                 .holders = 2,
                                                                                 .wanted = 3,
                                                                                 .counted = 2})
                                                                 .text("\1a\1c"));
  expect_page_shows(
      "### copies in hex",
      Bytes()
          .add(CopiesCall{
              .birth = birth(), .timeout_ns = 5 * kSecond_ns, .id_bytes = 5, .wanted = 3, .reserved = {}})
          .text("apple"));
  expect_page_shows("### Its answer: two of three, in hex",
                    Bytes().add(CopiesAnswer{.birth = birth(), .wanted = 3, .counted = 2, .reserved = {}}));
}

TEST(ObjectFormat, the_page_shows_how_nodes_are_ranked) {
  expect_page_shows(
      "### rank in hex",
      Bytes().add(RankRequest{.timeout_ns = kSecond_ns, .count = 2, .reserved = {}}).text("\5apple\3fig"));
  const RankedNode here{.time_ns = 0,
                        .missing_bytes = 0,
                        .missing = 0,
                        .unreachable = 0,
                        .code = 0,
                        .is_guessed = 0,
                        .name_bytes = 1,
                        .reserved = {}};
  RankedNode there = here;
  there.time_ns = 50'000;
  there.missing_bytes = 5;
  there.missing = 1;
  there.is_guessed = 1;
  expect_page_shows("### Its answer: a has it, and c not yet, in hex",
                    Bytes()
                        .add(RankReply{.ids = 2, .told = 2, .nodes = 2, .reserved = {}})
                        .add(uint16_t{0})
                        .add(static_cast<uint16_t>(Code::kNotFound))
                        .add(here)
                        .text("a")
                        .add(there)
                        .text("c"));
  EXPECT_EQ(static_cast<uint16_t>(Method::kRank), 0x411);
}

TEST(ObjectFormat, the_page_shows_how_an_object_is_brought_to_many_nodes) {
  expect_page_shows(
      "### broadcast to b and c in hex",
      Bytes()
          .add(BroadcastRequest{.timeout_ns = kSecond_ns, .id_bytes = 5, .count = 2, .reserved = {}})
          .text("apple\1b\1c"));
  BroadcastNode node{.code = 0, .name_bytes = 1, .reserved = 0};
  Bytes answer;
  answer.add(BroadcastReply{.told = 2, .nodes = 2, .missed = 1, .reserved = {}}).add(node).text("b");
  node.code = static_cast<uint16_t>(Code::kAway);
  expect_page_shows("### Its answer: b has it, and c is away, in hex", answer.add(node).text("c"));
  EXPECT_EQ(static_cast<uint16_t>(Method::kBroadcast), 0x412);
}

TEST(ObjectFormat, the_page_shows_lists_and_notices) {
  expect_page_shows("### list in hex", Bytes().add(ListRequest{0}));
  expect_page_shows("### Its answer, one object, in hex",
                    Bytes()
                        .add(ListReply{.next = 0x8000, .count = 1, .reserved = 0})
                        .add(ListedObject{.birth = birth(),
                                          .body_bytes = 3,
                                          .metadata_bytes = 2,
                                          .flags = ObjectRecord::kKept,
                                          .holders = 2,
                                          .id_bytes = 5,
                                          .is_sealed = 1,
                                          .reserved = 0})
                        .text("apple"));
  expect_page_shows("### notices in hex",
                    Bytes().add(NoticesRequest{.cursor = 0x10005, .timeout_ns = 1'000'000'000}));
  expect_page_shows("### Its answer, two notices, in hex",
                    Bytes()
                        .add(NoticesReply{.next = 0x10009, .count = 2, .is_lost = 0, .reserved = {}})
                        .add(Notice{.birth = birth(),
                                    .body_bytes = 3,
                                    .metadata_bytes = 2,
                                    .id_bytes = 5,
                                    .kind = NoticeKind::kSealed,
                                    .reserved = 0})
                        .text("apple")
                        .add(Notice{.birth = birth_of(bytes_of("fig"), 0x42),
                                    .body_bytes = 0,
                                    .metadata_bytes = 0,
                                    .id_bytes = 3,
                                    .kind = NoticeKind::kDeleted,
                                    .reserved = 0})
                        .text("fig"));
}

}  // namespace
}  // namespace refract::object::wire
