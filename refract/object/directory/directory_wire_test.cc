// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/formats/directory.md, byte for byte.
#include "refract/object/directory/directory_wire.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "refract/base/hash.h"
#include "refract/base/result.h"
#include "refract/base/testing/golden.h"
#include "refract/cluster/member_list.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/layout/object_layout.h"

namespace refract::object::wire {
namespace {

constexpr uint64_t kList = 7;
constexpr uint64_t kStream = 3;

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
  Bytes& members(std::initializer_list<uint8_t> indices) {
    for (const uint8_t index : indices) bytes_.push_back(static_cast<std::byte>(index));
    return *this;
  }
  [[nodiscard]] const std::vector<std::byte>& all() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

void expect_page_shows(std::string_view heading, const Bytes& bytes) {
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/directory.md", heading);
  ASSERT_FALSE(lines.empty()) << heading;
  const golden::Line& last = lines.back();
  EXPECT_EQ(golden::image_of(lines, last.offset + last.bytes.size()), bytes.all()) << heading;
}

uint64_t apple() {
  return birth_of(bytes_of("apple"), 0x1122'3344'5566'7788);
}

Change apple_is(ChangeKind kind, uint64_t body_bytes = 0, uint32_t metadata_bytes = 0) {
  return {.birth = apple(),
          .body_bytes = body_bytes,
          .metadata_bytes = metadata_bytes,
          .copies = kind == ChangeKind::kHolds ? CopiesWord::of(3, 2).bits : 0,
          .id_bytes = 5,
          .kind = kind,
          .reserved = {}};
}

ChangesRequest page_of(uint32_t count, bool is_report) {
  const auto flag = static_cast<uint8_t>(is_report ? 1 : 0);
  return {.list_version = kList,
          .stream = kStream,
          .count = count,
          .is_report = flag,
          .is_last = flag,
          .reserved = {}};
}

TEST(DirectoryFormat, the_page_shows_who_the_caller_is) {
  const auto list = cluster::parse_member_list("version=7, c=10.0.0.3:7400, a=10.0.0.1:7400, b=10.0.0.2:7400",
                                               cluster::ListForm::kSetting);
  ASSERT_TRUE(list.has_value());
  const std::string text = cluster::to_text(*list);
  EXPECT_EQ(text, "version=7,a=10.0.0.1:7400,b=10.0.0.2:7400,c=10.0.0.3:7400");
  expect_page_shows("### hello in hex",
                    Bytes()
                        .add(HelloRequest{.list_version = kList,
                                          .list_digest = hash_key(bytes_of(text), 0),
                                          .identity = {0x1122'3344'5566'7788, 0x99aa'bbcc'ddee'ff00},
                                          .name_bytes = 1,
                                          .reserved = {}})
                        .text("a"));
  expect_page_shows(
      "### Its answer in hex",
      Bytes()
          .add(HelloReply{.list_version = kList, .stream = kStream, .name_bytes = 1, .reserved = {}})
          .text("b"));
}

TEST(DirectoryFormat, the_page_shows_pages_of_a_stream) {
  const Change fig{.birth = birth_of(bytes_of("fig"), 0x42),
                   .body_bytes = 0,
                   .metadata_bytes = 0,
                   .copies = 0,
                   .id_bytes = 3,
                   .kind = ChangeKind::kTombstone,
                   .reserved = {}};
  expect_page_shows("### changes: a report of two in hex", Bytes()
                                                               .add(page_of(2, true))
                                                               .add(fig)
                                                               .text("fig")
                                                               .add(apple_is(ChangeKind::kHolds, 3, 2))
                                                               .text("apple"));
  expect_page_shows("### changes: a claim in hex",
                    Bytes().add(page_of(1, false)).add(apple_is(ChangeKind::kClaims)).text("apple"));
  expect_page_shows("### changes: dropped, and held by two, in hex",
                    Bytes().add(page_of(1, false)).add(apple_is(ChangeKind::kDropped, 2)).text("apple"));
  expect_page_shows("### The codes of three changes in hex",
                    Bytes()
                        .add(static_cast<uint16_t>(Code::kOk))
                        .add(static_cast<uint16_t>(Code::kExists))
                        .add(static_cast<uint16_t>(Code::kCancelled)));
}

TEST(DirectoryFormat, the_page_shows_how_a_home_and_a_member_are_asked) {
  expect_page_shows(
      "### look_up in hex",
      Bytes()
          .add(LookUpRequest{
              .list_version = kList, .id_bytes = 5, .tells_later = 1, .pulls = 1, .reserved = {}})
          .text("apple"));
  expect_page_shows("### Its answer: a and b, and perhaps c, in hex",
                    Bytes()
                        .add(LookUpReply{.birth = apple(),
                                         .body_bytes = 3,
                                         .metadata_bytes = 2,
                                         .holders = 2,
                                         .doubtful = 1,
                                         .wanted = 2,
                                         .counted = 1})
                        .members({0, 1, 2}));
  expect_page_shows(
      "### ask in hex",
      Bytes().add(AskRequest{.list_version = kList, .id_bytes = 5, .reserved = {}}).text("apple"));
  expect_page_shows("### Its answer: not here, and passed on to c, in hex",
                    Bytes()
                        .add(AskReply{.birth = 0,
                                      .body_bytes = 0,
                                      .metadata_bytes = 0,
                                      .name_bytes = 1,
                                      .is_open = 1,
                                      .tombstones = 0})
                        .text("c"));
}

TEST(DirectoryFormat, the_page_shows_deletes) {
  expect_page_shows(
      "### remove, drop, forget and appeared in hex",
      Bytes()
          .add(NamedRequest{.list_version = kList, .birth = apple(), .id_bytes = 5, .reserved = {}})
          .text("apple"));
  expect_page_shows(
      "### The answer of remove, without c, in hex",
      Bytes().add(RemoveReply{.birth = apple(), .holders = 2, .missed = 1, .reserved = {}}).members({2}));
}

TEST(DirectoryFormat, the_page_shows_how_copies_are_bound) {
  expect_page_shows(
      "### copies in hex",
      Bytes()
          .add(CopiesRequest{
              .list_version = kList, .birth = apple(), .id_bytes = 5, .wanted = 2, .reserved = {}})
          .text("apple"));
  expect_page_shows("### Its answer: one of two, in hex",
                    Bytes().add(CopiesReply{.birth = apple(), .wanted = 2, .counted = 1, .reserved = {}}));
  expect_page_shows("### bind in hex", Bytes()
                                           .add(BindRequest{.list_version = kList,
                                                            .birth = apple(),
                                                            .word = CopiesWord::of(3, 2).bits,
                                                            .id_bytes = 5,
                                                            .may_pull = 1,
                                                            .reserved = 0})
                                           .text("apple"));
}

TEST(DirectoryFormat, the_page_shows_an_order_of_a_broadcast) {
  expect_page_shows("### bring in hex", Bytes()
                                            .add(BringRequest{.list_version = kList,
                                                              .birth = apple(),
                                                              .plan = 0x0102'0304'0506'0709,
                                                              .timeout_ms = 30'000,
                                                              .piece_bytes = 64 * 1024,
                                                              .id_bytes = 5,
                                                              .forebears = 2,
                                                              .reserved = {}})
                                            .text("apple")
                                            .text("\x03\x01"));
}

TEST(DirectoryFormat, the_page_shows_how_a_member_estimates) {
  expect_page_shows("### estimate in hex",
                    Bytes()
                        .add(EstimateRequest{.list_version = kList, .count = 1, .reserved = {}})
                        .add(WantedObject{.birth = apple(),
                                          .body_bytes = 3,
                                          .metadata_bytes = 2,
                                          .id_bytes = 5,
                                          .holders = 2,
                                          .reserved = 0})
                        .text("apple")
                        .members({0, 2}));
  expect_page_shows("### Its answer: in 50 us, at a guess, in hex",
                    Bytes().add(EstimateReply{.time_ns = 50'000,
                                              .missing_bytes = 5,
                                              .room_bytes = 1 << 30,
                                              .missing = 1,
                                              .unreachable = 0,
                                              .is_guessed = 1,
                                              .reserved = {}}));
}

// The page's two tables name each number.
TEST(DirectoryFormat, numbers_of_methods_and_kinds_stay_as_they_are) {
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kHello), 0x600);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kChanges), 0x601);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kLookUp), 0x602);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kRemove), 0x603);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kDrop), 0x604);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kForget), 0x605);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kAsk), 0x606);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kAppeared), 0x607);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kCopies), 0x608);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kBind), 0x609);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kBring), 0x60b);
  EXPECT_EQ(static_cast<uint16_t>(DirectoryMethod::kEstimate), 0x60a);
  EXPECT_EQ(static_cast<uint8_t>(ChangeKind::kGone), 2);
  EXPECT_EQ(static_cast<uint8_t>(ChangeKind::kUnclaims), 4);
  EXPECT_EQ(static_cast<uint8_t>(ChangeKind::kComing), 6);
  EXPECT_EQ(static_cast<uint8_t>(ChangeKind::kReleases), 8);
}

}  // namespace
}  // namespace refract::object::wire
