// SPDX-License-Identifier: Apache-2.0
// Opening, detecting, and the promise that what is written comes back.
#include "apps/records/record_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "apps/records/record_testing.h"

#include "refract/base/testing/turns.h"

namespace refract::records::record_reader_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::Pairs;
using ::testing::SizeIs;
using testing::Story;
using testing::TemporaryDirectory;

constexpr Format kStreams[] = {Format::kCsv, Format::kTsv, Format::kJsonl};

void write_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

TEST(RoundTrip, random_bytes_come_back_from_every_stream_format) {
  Prng prng(3);
  for (int round = 0; round < 300; ++round) {
    Pairs records;
    for (uint64_t i = prng.below(20); i > 0; --i) {
      std::string key = testing::random_bytes(prng, 20);
      if (key.empty()) key = "k";
      records.emplace_back(std::move(key), testing::random_bytes(prng, 200));
    }
    for (const Format format : kStreams) {
      ASSERT_EQ(testing::lost_by(records, format, 1 + prng.below(40)), "") << "round " << round;
    }
  }
}

TEST(RoundTrip, every_byte_alone_and_at_either_end_comes_back) {
  Pairs records;
  for (int value = 0; value < 256; ++value) {
    const std::string byte(1, static_cast<char>(value));
    records.emplace_back(byte, byte);
    records.emplace_back(byte + "x", "x" + byte);
    records.emplace_back("x" + byte, byte + "x");
    records.emplace_back("key", "");
  }
  for (const Format format : kStreams) EXPECT_EQ(testing::lost_by(records, format, 13), "");
}

TEST(RoundTrip, the_largest_keys_and_values_beyond_every_buffer_come_back) {
  Prng prng(9);
  Pairs records;
  for (const char filler : {'x', '"', '\n', '\\', '\x01', '\xff'}) {
    records.emplace_back(std::string(65'535, filler),
                         std::string(test::turns(3'000'000, 1'200'000) + prng.below(10), filler));
  }
  for (const Format format : kStreams) EXPECT_EQ(testing::lost_by(records, format, 100'000), "");
}

TEST(RoundTrip, a_file_on_disk_comes_back_through_the_detected_format) {
  const TemporaryDirectory directory;
  const Pairs records = {{"a", "1\n2"}, {"\xff", std::string(1'000'000, '"')}, {"c", ""}};
  for (const Format format : kStreams) {
    const std::string path = directory / ("dump_" + std::string(format_name(format)));
    auto writer = open_writer(path, format);
    ASSERT_TRUE(writer);
    for (const auto& [key, value] : records) ASSERT_TRUE((*writer)->write(key, value));
    ASSERT_TRUE((*writer)->finish());
    auto reader = open_reader(path, {});
    ASSERT_TRUE(reader) << reader.error().to_string();
    EXPECT_EQ((*reader)->format(), format);
    const Story story = testing::read_all(**reader);
    EXPECT_EQ(story.records, records);
    EXPECT_THAT(story.bads, IsEmpty());
    EXPECT_EQ((*reader)->bytes_total(), story.bytes_read);
  }
}

TEST(Jsonl, what_escapes_would_more_than_double_is_written_as_base64) {
  EXPECT_EQ(testing::write_text({{"\x01\x02", "\n\n"}}, Format::kJsonl),
            "{\"key_base64\":\"AQI=\",\"value\":\"\\n\\n\"}\n");
}

TEST(Writers, a_record_without_a_key_is_refused) {
  for (const Format format : kStreams) {
    std::string text;
    EXPECT_EQ(write_to(text, format)->write("", "x").error().code, Code::kInvalidArgument);
  }
}

TEST(Writers, a_file_that_exists_is_replaced_only_when_asked) {
  const TemporaryDirectory directory;
  write_file(directory / "a.csv", "precious and longer than what replaces it");
  EXPECT_EQ(open_writer(directory / "a.csv", Format::kCsv).error().code, Code::kExists);
  auto writer = open_writer(directory / "a.csv", Format::kCsv, {.overwrite = true});
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->write("a", "1"));
  ASSERT_TRUE((*writer)->finish());
  const auto reader = open_reader(directory / "a.csv", {});
  ASSERT_TRUE(reader);
  EXPECT_THAT(testing::read_all(**reader).records, ElementsAre(Pair("a", "1")));
}

TEST(Writers, a_full_disk_is_an_error_and_not_a_shorter_dump) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  auto small = open_writer("/dev/full", Format::kCsv);
  ASSERT_TRUE(small);
  EXPECT_TRUE((*small)->write("a", "1"));
  EXPECT_EQ((*small)->finish().error().code, Code::kSystem);
  auto large = open_writer("/dev/full", Format::kJsonl);
  ASSERT_TRUE(large);
  const auto written = (*large)->write("a", std::string(10'000'000, 'x'));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().what, HasSubstr("cannot write /dev/full: No space left on device"));
}

TEST(Detection, content_tells_where_the_name_does_not) {
  EXPECT_EQ(detect_content("Package: a\nVersion: 1\n"), Format::kDebian);
  EXPECT_EQ(detect_content("\n {\"key\":1}"), Format::kJsonl);
  EXPECT_EQ(detect_content("a\tb,c\n"), Format::kTsv);
  EXPECT_EQ(detect_content("a,b\nc\td"), Format::kCsv);
  EXPECT_EQ(detect_content(kTsvMark), Format::kTsv);
  EXPECT_EQ(detect_content("\xef\xbb\xbf"
                           "a,b"),
            Format::kCsv);
  EXPECT_EQ(detect_content("just words\na,b"), std::nullopt);
  EXPECT_EQ(detect_content(""), std::nullopt);
  EXPECT_EQ(detect_content("\n\n"), std::nullopt);
}

TEST(Detection, the_name_comes_before_the_content) {
  const TemporaryDirectory directory;
  write_file(directory / "a.csv", "{\"x\":1}\n");
  write_file(directory / "status", "Package: a\n");
  write_file(directory / "words", "nothing to see\n");
  write_file(directory / "a.csv.gz", "\x1f\x8b\x08");
  EXPECT_EQ(*detect_format(directory / "a.csv"), Format::kCsv);
  EXPECT_EQ(*detect_format(directory / "status"), Format::kDebian);
  EXPECT_EQ(*detect_format(directory / ""), Format::kDirectory);
  EXPECT_THAT(detect_format(directory / "words").error().next, HasSubstr("--format"));
  EXPECT_THAT(detect_format(directory / "a.csv.gz").error().next, HasSubstr("zcat "));
  EXPECT_THAT(detect_format(directory / "none").error().what, HasSubstr("No such file or directory"));
}

TEST(Opening, a_format_that_is_named_wins) {
  const TemporaryDirectory directory;
  write_file(directory / "a.csv", "x\ty,z\n");
  ReadOptions options;
  options.format = Format::kTsv;
  const auto reader = open_reader(directory / "a.csv", options);
  ASSERT_TRUE(reader);
  EXPECT_THAT(testing::read_all(**reader).records, ElementsAre(Pair("x", "y,z")));
  options.format = Format::kDirectory;
  EXPECT_FALSE(open_reader(directory / "a.csv", options));
  options.format = Format::kCsv;
  EXPECT_FALSE(open_reader(directory / "", options));
}

TEST(Opening, options_of_another_format_are_refused_and_not_ignored) {
  ReadOptions options;
  options.format = Format::kJsonl;
  options.key_column = "id";
  EXPECT_THAT(read_bytes("{}", options).error().what, HasSubstr("--key-column has no meaning for jsonl"));
  options = {};
  options.format = Format::kDebian;
  options.key_field = "id";
  EXPECT_THAT(read_bytes("", options).error().what, HasSubstr("--key-field has no meaning for debian"));
}

TEST(Opening, a_pipe_is_read_and_its_format_detected_without_losing_a_byte) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], "a,1\nb,2\n", 8), 8);
  ASSERT_EQ(::close(ends[1]), 0);
  const auto reader = open_reader("/dev/fd/" + std::to_string(ends[0]), {});
  ASSERT_TRUE(reader) << reader.error().to_string();
  EXPECT_THAT(testing::read_all(**reader).records, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_EQ((*reader)->bytes_total(), std::nullopt);
  ::close(ends[0]);
}

// /proc/self/mem can be opened, and no byte at its beginning can be read.
TEST(Opening, an_input_that_fails_is_one_complaint_and_then_the_end) {
  for (const Format format : {Format::kCsv, Format::kTsv, Format::kJsonl, Format::kDebian}) {
    ReadOptions options;
    options.format = format;
    const auto reader = open_reader("/proc/self/mem", options);
    ASSERT_TRUE(reader) << reader.error().to_string();
    const Story story = testing::read_all(**reader);
    EXPECT_THAT(story.records, IsEmpty());
    EXPECT_THAT(story.bads, ElementsAre(HasSubstr("reading failed here: Input/output error")));
    Record record;
    EXPECT_EQ((*reader)->next(record), Next::kEnd);
  }
}

TEST(Opening, a_record_larger_than_the_window_makes_it_grow) {
  const TemporaryDirectory directory;
  const std::string value(5'000'000, 'v');
  write_file(directory / "a.csv", "a,1\nb," + value + "\nc,\"" + value + "\"\nd,4\n");
  const auto reader = open_reader(directory / "a.csv", {});
  ASSERT_TRUE(reader);
  EXPECT_THAT(testing::read_all(**reader).records,
              ElementsAre(Pair("a", "1"), Pair("b", value), Pair("c", value), Pair("d", "4")));
}

TEST(Opening, many_records_pass_the_window_without_loss) {
  const TemporaryDirectory directory;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i) + ",value " + std::to_string(i) + "\n";
  write_file(directory / "a.csv", text);
  const auto reader = open_reader(directory / "a.csv", {});
  ASSERT_TRUE(reader);
  const Story story = testing::read_all(**reader);
  ASSERT_THAT(story.records, SizeIs(100'000));
  for (size_t i = 0; i < 100'000; ++i) {
    ASSERT_EQ(story.records[i].second, "value " + story.records[i].first);
    ASSERT_EQ(story.lines[i], i + 1);
  }
}

TEST(Formats, names_and_formats_belong_together) {
  for (const Format format :
       {Format::kCsv, Format::kTsv, Format::kJsonl, Format::kDirectory, Format::kDebian}) {
    EXPECT_EQ(format_named(format_name(format)), format);
  }
  EXPECT_EQ(format_named("xml"), std::nullopt);
}

}  // namespace
}  // namespace refract::records::record_reader_test
