// SPDX-License-Identifier: Apache-2.0
// The worked examples of docs/formats/transfer.md, byte for byte.
#include "refract/object/transfer/transfer_wire.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "refract/base/hash.h"
#include "refract/base/testing/golden.h"
#include "refract/object/layout/object_birth.h"
#include "refract/object/testing/test_objects.h"

namespace refract::object::wire {
namespace {

constexpr std::string_view kFilled("red\0\0\0\0\0m1", 10);

void expect_page_shows(std::string_view heading, std::string_view bytes) {
  const auto lines = golden::lines_of(REFRACT_SOURCE_DIR "/docs/formats/transfer.md", heading);
  ASSERT_FALSE(lines.empty()) << heading;
  const golden::Line& last = lines.back();
  const auto all = test::as_bytes(bytes);
  EXPECT_EQ(golden::image_of(lines, last.offset + last.bytes.size()),
            std::vector<std::byte>(all.begin(), all.end()))
      << heading;
}

TEST(TransferFormat, the_page_shows_how_a_transfer_begins) {
  const TransferRequest request{.birth = birth_of(test::as_bytes("apple"), 0x1122'3344'5566'7788),
                                .body_bytes = 3,
                                .offset = 0,
                                .metadata_bytes = 2,
                                .bytes = 10,
                                .id_bytes = 5,
                                .by = TransferBy::kMessages,
                                .wants_digest = 1,
                                .reserved = {}};
  expect_page_shows("### transfer in hex", test::body_of(request, "apple"));
  const TransferReply all{
      .transfer = 0, .digest = hash_key(test::as_bytes(kFilled), 0), .pieces = 0, .reserved = 0};
  expect_page_shows("### Its answer with all bytes in hex", test::body_of(all, kFilled));
  const TransferReply one{.transfer = 5, .digest = 0, .pieces = 1, .reserved = 0};
  const TransferPiece piece{
      .address = RemotePointer::at(0x8002, 0).bits, .key = 0x1122'3344'5566'7700, .offset = 0, .bytes = 10};
  expect_page_shows("### Its answer with a piece in hex", test::body_of(one, test::body_of(piece)));
}

TEST(TransferFormat, the_page_shows_how_it_continues_and_ends) {
  expect_page_shows(
      "### data and digest in hex",
      test::body_of(DataRequest{.transfer = 5, .offset = 32 * kKiB, .bytes = 32 * 1024 - 16, .reserved = 0}));
  expect_page_shows("### The answer of digest in hex",
                    test::body_of(DigestReply{hash_key(test::as_bytes(kFilled), 0)}));
  expect_page_shows("### done in hex", test::body_of(DoneRequest{5}));
}

TEST(TransferFormat, the_page_shows_how_what_is_coming_is_followed) {
  const FollowRequest request{.transfer = {.birth = birth_of(test::as_bytes("apple"), 0x1122'3344'5566'7788),
                                           .body_bytes = 2 * kMiB,
                                           .offset = 0,
                                           .metadata_bytes = 0,
                                           .bytes = 0,
                                           .id_bytes = 5,
                                           .by = TransferBy::kReads,
                                           .wants_digest = 0,
                                           .reserved = {}},
                              .plan = 0x0102'0304'0506'0709,
                              .wait_ms = 1000,
                              .reserved = 0};
  expect_page_shows("### follow in hex", test::body_of(request, "apple"));
  const FollowReply reply{.transfer = {.transfer = 5, .digest = 0, .pieces = 1, .reserved = 0},
                          .ready = 64 * kKiB};
  const TransferPiece piece{.address = RemotePointer::at(0x8002, 0).bits,
                            .key = 0x1122'3344'5566'7700,
                            .offset = 0,
                            .bytes = 2 * kMiB};
  expect_page_shows("### Its answer in hex", test::body_of(reply, test::body_of(piece)));
  expect_page_shows("### progress in hex",
                    test::body_of(ProgressRequest{.transfer = 5, .least = 128 * kKiB}));
  expect_page_shows("### The answer of progress in hex", test::body_of(ProgressReply{128 * kKiB}));
}

TEST(TransferFormat, numbers_of_methods_stay_as_they_are) {
  EXPECT_EQ(static_cast<uint16_t>(TransferMethod::kTransfer), 0x610);
  EXPECT_EQ(static_cast<uint16_t>(TransferMethod::kData), 0x611);
  EXPECT_EQ(static_cast<uint16_t>(TransferMethod::kDone), 0x612);
  EXPECT_EQ(static_cast<uint16_t>(TransferMethod::kDigest), 0x613);
  EXPECT_EQ(static_cast<uint16_t>(TransferMethod::kFollow), 0x614);
  EXPECT_EQ(static_cast<uint16_t>(TransferMethod::kProgress), 0x615);
  EXPECT_EQ(static_cast<uint8_t>(TransferBy::kMessages), 1);
  EXPECT_EQ(static_cast<uint8_t>(TransferBy::kReads), 2);
}

}  // namespace
}  // namespace refract::object::wire
