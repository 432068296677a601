// SPDX-License-Identifier: Apache-2.0
// The readers behind open_reader, one function for each format. `name` is what messages and places call the
// input.
#pragma once

#include <memory>
#include <string>

#include "apps/records/input.h"
#include "apps/records/record_reader.h"

namespace refract::records {

[[nodiscard]] Reported<std::unique_ptr<RecordReader>> open_table(Input input, std::string name,
                                                                 Format dialect, const ReadOptions& options);
[[nodiscard]] std::unique_ptr<RecordReader> open_jsonl(Input input, std::string name,
                                                       const ReadOptions& options);
[[nodiscard]] std::unique_ptr<RecordReader> open_debian(Input input, std::string name,
                                                        const ReadOptions& options);
[[nodiscard]] std::unique_ptr<RecordReader> open_directory(Descriptor directory, std::string name,
                                                           const ReadOptions& options);

// What all stream readers do the same way: names, lines, complaints.
class StreamReader : public RecordReader {
 public:
  StreamReader(Input input, std::string name, const Limits& limits) noexcept
      : input_(std::move(input)), name_(std::move(name)), limits_(limits) {}

  [[nodiscard]] uint64_t bytes_read() const noexcept override { return input_.consumed(); }

 protected:
  // Fills bad_ and returns kBad.
  Next complain(uint64_t line, std::string what, std::string expected) noexcept;
  // kEnd; but once, where the input could not be read to its end, the complaint about that.
  Next end() noexcept;
  // Whether key and value are within the limits; else the complaint about them is in bad_.
  bool check_limits(const Record& record) noexcept;

  Input input_;
  std::string name_;
  Limits limits_;
  uint64_t line_ = 1;  // Of the next byte in input_.

 private:
  bool failure_told_ = false;
};

}  // namespace refract::records
