// SPDX-License-Identifier: Apache-2.0
// Whatever bytes a stream reader is given, it comes to an end, stays in bounds, finds the same however the
// bytes arrive, and what it gave out as records survives being written and read again.
//
// The first two bytes choose the format and the options; the rest is the file.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "apps/records/record_testing.h"

namespace {

using namespace refract::records;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "records_fuzz: %s\n", what);
  std::abort();
}

ReadOptions options_from(uint8_t choice, uint8_t details) {
  constexpr Format kFormats[] = {Format::kCsv, Format::kTsv, Format::kJsonl, Format::kDebian};
  constexpr Choice kChoices[] = {Choice::kAuto, Choice::kYes, Choice::kNo, Choice::kAuto};
  ReadOptions options;
  options.format = kFormats[choice & 3];
  options.header = kChoices[choice >> 2 & 3];
  options.escapes = kChoices[choice >> 4 & 3];
  if (choice & 0x40) options.limits = {.key_bytes_max = 8, .value_bytes_max = 32};
  const bool table = *options.format == Format::kCsv || *options.format == Format::kTsv;
  if (table && (details & 0x80)) options.key_column = (details & 0x40) ? "2" : "id";
  if (*options.format == Format::kJsonl && (details & 0x80)) options.key_field = "id";
  return options;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const ReadOptions options = options_from(data[0], data[1]);
  const size_t chunk_bytes = 1 + (data[1] & 15);
  const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const testing::Story whole = testing::read_text(text, options);
  const testing::Story pieces = testing::read_text(text, options, chunk_bytes);
  expect(whole.records == pieces.records, "the records depend on how the bytes arrive");
  expect(whole.lines == pieces.lines, "the lines depend on how the bytes arrive");
  expect(whole.bads == pieces.bads, "the complaints depend on how the bytes arrive");
  expect(whole.bytes_read <= text.size(), "more was read than there is");
  for (const auto& [key, value] : whole.records) {
    expect(!key.empty() && key.size() <= options.limits.key_bytes_max, "a key is outside the limits");
    expect(value.size() <= options.limits.value_bytes_max, "a value is outside the limits");
  }
  for (const Format format : {Format::kCsv, Format::kTsv, Format::kJsonl}) {
    expect(testing::lost_by(whole.records, format, chunk_bytes).empty(), "a record does not survive");
  }
  if (*options.format == Format::kDebian) {
    expect(testing::lost_by(whole.records, Format::kDebian, chunk_bytes).empty(),
           "a stanza does not survive");
  }
  return 0;
}
