// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "apps/records/path_names.h"
#include "apps/records/record_testing.h"

namespace refract::records {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::Pairs;
using testing::Story;
using testing::TemporaryDirectory;
using ::testing::UnorderedElementsAre;

void write_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

Story read_path(const std::string& path, const ReadOptions& options = {}) {
  auto reader = open_reader(path, options);
  if (reader) return testing::read_all(**reader);
  Story story;
  story.bads.push_back(reader.error().to_string());
  return story;
}

void dump_to(const std::string& path, const Pairs& records) {
  auto writer = open_writer(path, Format::kDirectory);
  ASSERT_TRUE(writer) << writer.error().to_string();
  for (const auto& [key, value] : records) {
    const auto written = (*writer)->write(key, value);
    ASSERT_TRUE(written) << written.error().to_string();
  }
  ASSERT_TRUE((*writer)->finish());
}

TEST(DirectoryReader, files_are_records_and_their_path_is_the_key) {
  const TemporaryDirectory directory;
  std::filesystem::create_directories(directory / "d/e");
  std::filesystem::create_directories(directory / "empty");
  write_file(directory / "a", "1");
  write_file(directory / "100%", "");
  write_file(directory / "d/e/f", std::string("\0\n", 2));
  const Story story = read_path(directory / "");
  EXPECT_THAT(story.records,
              UnorderedElementsAre(Pair("a", "1"), Pair("100%", ""), Pair("d/e/f", std::string("\0\n", 2))));
  EXPECT_THAT(story.bads, IsEmpty());
  EXPECT_EQ(story.bytes_read, 3U);
}

TEST(DirectoryReader, links_and_special_files_are_reported_and_not_followed) {
  const TemporaryDirectory outside;
  write_file(outside / "secret", "secret");
  const TemporaryDirectory directory;
  std::filesystem::create_symlink(outside / "secret", directory / "link");
  std::filesystem::create_directory_symlink(outside / "", directory / "way_out");
  std::filesystem::create_directory_symlink(directory / "", directory / "loop");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  write_file(directory / "good", "1");
  const Story story = read_path(directory / "");
  EXPECT_THAT(story.records, ElementsAre(Pair("good", "1")));
  EXPECT_THAT(story.bads,
              UnorderedElementsAre(HasSubstr("/link: it is a symbolic link"), HasSubstr("/way_out: it is a"),
                                   HasSubstr("/loop: it is a"), HasSubstr("/pipe: it is a special file")));
}

TEST(DirectoryReader, what_cannot_be_read_is_reported) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const TemporaryDirectory directory;
  write_file(directory / "closed", "1");
  write_file(directory / "open", "2");
  std::filesystem::create_directory(directory / "locked");
  ASSERT_EQ(::chmod((directory / "closed").c_str(), 0), 0);
  ASSERT_EQ(::chmod((directory / "locked").c_str(), 0), 0);
  const Story story = read_path(directory / "");
  ASSERT_EQ(::chmod((directory / "locked").c_str(), 0700), 0);
  EXPECT_THAT(story.records, ElementsAre(Pair("open", "2")));
  EXPECT_THAT(story.bads,
              UnorderedElementsAre(HasSubstr("/closed: the file cannot be read: Permission denied"),
                                   HasSubstr("/locked: the directory cannot be read: Permission denied")));
}

TEST(DirectoryReader, files_beyond_the_limits_are_reported) {
  const TemporaryDirectory directory;
  write_file(directory / "five", "12345");
  write_file(directory / "six", "123456");
  write_file(directory / "a_long_name", "1");
  ReadOptions options;
  options.limits = {.key_bytes_max = 5, .value_bytes_max = 5};
  const Story story = read_path(directory / "", options);
  EXPECT_THAT(story.records, ElementsAre(Pair("five", "12345")));
  EXPECT_THAT(story.bads, UnorderedElementsAre(HasSubstr("/six: the file has 6 bytes (expected at most 5)"),
                                               HasSubstr("/a_long_name: the key has 11 bytes")));
}

TEST(DirectoryReader, nesting_is_bounded_so_that_descriptors_are) {
  const TemporaryDirectory directory;
  std::string path = directory / "d";
  for (int level = 0; level < 140; ++level) path += "/d";
  std::filesystem::create_directories(path);
  write_file(directory / "good", "1");
  const Story story = read_path(directory / "");
  EXPECT_THAT(story.records, ElementsAre(Pair("good", "1")));
  EXPECT_THAT(story.bads,
              ElementsAre(HasSubstr("the directory is nested too deep (expected at most 128 levels)")));
}

TEST(DirectoryWriter, keys_that_are_no_paths_stay_inside_and_come_back) {
  const TemporaryDirectory directory;
  const std::string target = directory / "dump";
  const Pairs records = {
      {"../../escape", "1"},  {"/etc/passwd", "2"}, {"..", "3"},         {".", "4"},
      {"a//b", "5"},          {"a/", "6"},          {"/", "7"},          {"///", "8"},
      {"a/../b", "9"},        {"100%", "10"},       {"%2F", "11"},       {std::string("nul\0", 4), "12"},
      {"line\nbreak", "13"},  {"\xff\xfe", "14"},   {"plain.txt", "15"}, {"deep/er/file", "16"},
      {"%refract.jsonl", ""}, {"a/./b", "17"},      {"...", "18"},       {"a/..", "19"}};
  dump_to(target, records);
  const Story story = read_path(target);
  EXPECT_THAT(story.bads, IsEmpty());
  EXPECT_EQ(std::set(story.records.begin(), story.records.end()), std::set(records.begin(), records.end()));
  size_t beside = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / ""))
    beside += entry.exists() ? 1 : 0;
  EXPECT_EQ(beside, 1U);
}

TEST(DirectoryWriter, keys_that_no_file_system_takes_come_back_too) {
  const TemporaryDirectory directory;
  std::string deep = "x";
  for (int level = 0; level < 200; ++level) deep += "/x";
  const Pairs records = {{"a", "file"},
                         {"a/b", "below a file"},
                         {"d/e", "1"},
                         {"d", "file of a directory's name"},
                         {std::string(300, 'n'), "long"},
                         {std::string(65'535, '/'), std::string("\xff", 1)},
                         {deep, "deep"}};
  dump_to(directory / "dump", records);
  const Story story = read_path(directory / "dump");
  EXPECT_THAT(story.bads, IsEmpty());
  EXPECT_EQ(std::set(story.records.begin(), story.records.end()), std::set(records.begin(), records.end()));
}

TEST(DirectoryWriter, a_key_written_twice_keeps_the_later_value) {
  const TemporaryDirectory directory;
  dump_to(directory / "dump", {{"a", "a longer value"}, {"a", "2"}});
  EXPECT_THAT(read_path(directory / "dump").records, ElementsAre(Pair("a", "2")));
}

TEST(DirectoryWriter, random_keys_and_values_come_back) {
  Prng prng(31);
  for (int round = 0; round < 20; ++round) {
    const TemporaryDirectory directory;
    std::map<std::string, std::string> records;
    for (int i = 0; i < 50; ++i) {
      std::string key = testing::random_bytes(prng, 30);
      if (!key.empty()) records[std::move(key)] = testing::random_bytes(prng, 300);
    }
    dump_to(directory / "dump", Pairs(records.begin(), records.end()));
    const Story story = read_path(directory / "dump");
    ASSERT_THAT(story.bads, IsEmpty());
    ASSERT_EQ(story.records.size(), records.size());
    ASSERT_EQ((std::map<std::string, std::string>(story.records.begin(), story.records.end())), records);
  }
}

TEST(DirectoryWriter, a_directory_that_holds_something_is_refused) {
  const TemporaryDirectory directory;
  write_file(directory / "mine", "1");
  const auto writer = open_writer(directory / "", Format::kDirectory);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kExists);
  EXPECT_THAT(writer.error().what, HasSubstr("is not empty: it holds mine"));
  EXPECT_FALSE(open_writer(directory / "mine", Format::kDirectory));
  EXPECT_FALSE(open_writer(directory / "no/such", Format::kDirectory));
}

TEST(PathNames, no_path_leaves_its_directory_and_each_gives_back_its_key) {
  Prng prng(7);
  std::map<std::string, std::string> keys;
  for (int round = 0; round < 20'000; ++round) {
    std::string key = testing::random_bytes(prng, 8);
    if (key.empty()) continue;
    std::string path;
    key_to_path(key, path);
    std::string back;
    ASSERT_TRUE(path_to_key(path, back));
    ASSERT_EQ(back, key);
    ASSERT_FALSE(path.starts_with('/') || path.ends_with('/') || path.starts_with("%r")) << path;
    ASSERT_EQ(path.find('\0'), std::string::npos);
    for (const auto& component : std::filesystem::path(path)) {
      ASSERT_TRUE(component != "." && component != ".." && !component.empty()) << path;
    }
    const auto [known, fresh] = keys.emplace(path, key);
    ASSERT_TRUE(fresh || known->second == key) << path;
  }
}

TEST(PathNames, a_percent_without_digits_is_no_name_of_ours) {
  std::string key;
  for (const std::string_view bad : {"%", "%2", "a%zz", "%+1", "%-1", "% 1", "%2g"}) {
    EXPECT_FALSE(path_to_key(bad, key)) << bad;
  }
}

}  // namespace
}  // namespace refract::records
