// SPDX-License-Identifier: Apache-2.0
// Headers of numpy's form: what numpy itself has written, what is written here, and headers that lie.
#include "python/ext/arrays/npy_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace refract::python {
namespace {

std::optional<NpyHeader> read(const std::string& value) {
  return read_npy(std::as_bytes(std::span(value)));
}

// A value with this text for its header.
std::string value_of(const std::string& text, size_t items_bytes, char version = '\1') {
  const size_t length_bytes = version == '\1' ? 2 : 4;
  std::string value = "\x93NUMPY";
  value += version;
  value += '\0';
  for (size_t i = 0; i < length_bytes; ++i) value += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return value + text + std::string(items_bytes, 'i');
}

// As numpy.save() of 1.24 has numpy.arange(3, dtype='<u2'): 64 + 64 bytes, then the items.
TEST(NpyHeader, is_read_as_numpy_writes_it) {
  const std::string text =
      "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }" + std::string(60, ' ') + "\n";
  const auto header = read(value_of(text, 6));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->type.text, "<u2");
  EXPECT_EQ(header->type.bytes, 2U);
  EXPECT_FALSE(header->is_fortran);
  EXPECT_EQ(header->shape, std::vector<uint64_t>{3});
  EXPECT_EQ(header->items_at, 128U);
  EXPECT_EQ(header->items_bytes, 6U);
}

TEST(NpyHeader, what_is_written_is_padded_to_a_cache_line_and_read_again) {
  struct Case {
    std::string type;
    std::vector<uint64_t> shape;
    size_t items_bytes;
    char version;
  };
  const std::vector<Case> cases = {
      {"'<f8'", {}, 8, '\1'},
      {"'|b1'", {7}, 7, '\1'},
      {"'<M8[25us]'", {2, 0, 9}, 0, '\1'},
      {"'<U3'", {2, 2}, 48, '\1'},
      {"[('a', '<i4'), ('', '|V4'), ('b', '<f8', (2, 3)), (('title', 'c'), [('d', '|S5')])]", {2}, 122, '\1'},
      {"[('\u00e4', '<i4')]", {1}, 4, '\3'},
      {"[('" + std::string(70'000, 'n') + "', '<i4')]", {1}, 4, '\2'}};
  for (const Case& each : cases) {
    for (const bool is_fortran : {false, true}) {
      const std::string text = npy_header(each.type, is_fortran, each.shape);
      EXPECT_EQ(text.size() % kNpyAlignment, 0U);
      EXPECT_EQ(text[6], each.version);
      EXPECT_EQ(text.back(), '\n');
      const auto header = read(text + std::string(each.items_bytes, 'i'));
      ASSERT_TRUE(header) << text.substr(0, 200);
      EXPECT_EQ(header->items_at, text.size());
      EXPECT_EQ(header->shape, each.shape);
      EXPECT_EQ(header->is_fortran, is_fortran);
      EXPECT_FALSE(read(text + std::string(each.items_bytes + 1, 'i'))) << "an item too many";
      if (each.items_bytes == 0) continue;
      EXPECT_FALSE(read(text + std::string(each.items_bytes - 1, 'i')));
    }
  }
}

TEST(NpyHeader, fields_have_their_names_titles_and_shapes) {
  const std::string text = R"({'shape': (), 'fortran_order': False, 'descr': )"
                           R"([('a\'\x41\u00e4', '<i4', 3), (('t', "n"), '|S5', (2,))]})";
  const auto header = read(value_of(text, 22));
  ASSERT_TRUE(header);
  ASSERT_EQ(header->type.fields.size(), 2U);
  EXPECT_EQ(header->type.fields[0].name, "a'A\u00e4");
  EXPECT_EQ(header->type.fields[0].shape, std::vector<uint64_t>{3});
  EXPECT_FALSE(header->type.fields[0].title);
  EXPECT_EQ(header->type.fields[1].name, "n");
  EXPECT_EQ(header->type.fields[1].title, "t");
  // Of version 1 it is Latin-1, of version 3 UTF-8.
  const std::string latin = "{'descr': [('\xe4', '<i4')], 'fortran_order': False, 'shape': ()}";
  EXPECT_EQ(read(value_of(latin, 4)).value().type.fields[0].name, "\u00e4");
  const std::string utf8 = "{'descr': [('\u00e4', '<i4')], 'fortran_order': False, 'shape': ()}";
  EXPECT_EQ(read(value_of(utf8, 4, '\3')).value().type.fields[0].name, "\u00e4");
}

TEST(NpyHeader, one_that_lies_or_is_none_is_refused) {
  const auto text = [](const std::string& type, const std::string& shape,
                       const std::string& order = "False") {
    return "{'descr': " + type + ", 'fortran_order': " + order + ", 'shape': " + shape + "}";
  };
  ASSERT_TRUE(read(value_of(text("'<i4'", "(2,)"), 8)));
  for (const char* const type : {"'|O'",
                                 "'O'",
                                 "'<O8'",
                                 "'<i3'",
                                 "'<f3'",
                                 "'i'",
                                 "''",
                                 "'<'",
                                 "'|S0'",
                                 "'<U0'",
                                 "'|V0'",
                                 "[]",
                                 "()",
                                 "'<i4,<i4'",
                                 "'(2,)<i4'",
                                 "'<U999999999'",
                                 "'|S99999999999'",
                                 "'<M8[x;y]'",
                                 "'<M8['",
                                 "'<i4 '",
                                 "5",
                                 "[('a', '|O')]",
                                 "[('a', '<i4'",
                                 "[('a',)]",
                                 "[('a', '<i4', -1)]",
                                 "[('a', '<i4', (99999999999,))]",
                                 "[('a', '<i4'), 5]",
                                 "[[]]",
                                 "__import__('os')",
                                 "numpy.dtype('<i4')",
                                 "'\\ud800'",
                                 "'<i4' 'x'"}) {
    EXPECT_FALSE(read(value_of(text(type, "(2,)"), 8))) << type;
  }
  for (const char* const shape :
       {"(3,)", "(1,)", "(-2,)", "(2)", "2", "[2]", "(2, 1, 2)", "(2,,)", "(,)", "(2 2)", "('2',)", "(2.0,)",
        "(18446744073709551617,)", "(9223372036854775807, 9223372036854775807)", "(4611686018427387904, 4)",
        "(2", "(2,"}) {
    EXPECT_FALSE(read(value_of(text("'<i4'", shape), 8))) << shape;
  }
  EXPECT_TRUE(read(value_of(text("'<i4'", "(2L,)"), 8))) << "as Python 2 wrote it";
  EXPECT_FALSE(read(value_of(text("'<i4'", "(2,)", "1"), 8)));
  EXPECT_FALSE(read(value_of(text("'<i4'", "(2,)", "Falsehood"), 8)));
  for (const char* const whole :
       {"", "{}", "{'descr': '<i4', 'fortran_order': False}",
        "{'descr': '<i4', 'descr': '<i4', 'shape': (2,)}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)} + f()",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (2,)", "{'descr' '<i4'}", "{{{{", "'"}) {
    EXPECT_FALSE(read(value_of(whole, 8))) << whole;
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "[('a', ";
  EXPECT_FALSE(read(value_of(text(deep, "(2,)"), 8, '\2')));
  std::string dimensions = "(";
  for (int i = 0; i < 65; ++i) dimensions += "1, ";
  EXPECT_FALSE(read(value_of(text("'<i4'", dimensions + ")"), 4)));
}

TEST(NpyHeader, of_each_length_and_with_each_byte_changed_nothing_is_read_beyond_it) {
  const std::string value =
      npy_header("[('a', '<i4'), ('b', '<f8', (2,))]", false, std::vector<uint64_t>{2}) +
      std::string(40, 'i');
  ASSERT_TRUE(read(value));
  for (size_t length = 0; length < value.size(); ++length) {
    const std::string cut(value.data(), length);
    EXPECT_FALSE(read(cut)) << length;
  }
  for (size_t at = 0; at < value.size() - 40; ++at) {
    for (const char byte : {'\0', '\xff', '9', '(', '\'', ' '}) {
      std::string changed = value;
      changed[at] = byte;
      const auto header = read(changed);
      if (!header) continue;
      EXPECT_EQ(header->items_at + header->items_bytes, changed.size());
    }
  }
}

}  // namespace
}  // namespace refract::python
