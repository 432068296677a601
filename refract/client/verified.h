// SPDX-License-Identifier: Apache-2.0
// Values that carry a checksum from the program that put them to the program that gets them, whatever lies in
// between: docs/design/026-verify.md.
//
//   refract::VerifyingClient verifying(client);
//   (void)verifying.put("greeting", "hello");
//   const auto value = verifying.get("greeting");  // "hello", kCorrupt or kMalformed, never other bytes.
//
// The checksum stands in the last 16 bytes of what is stored, computed over key and value. The node knows
// nothing of it: all other calls, and programs that do not verify, see a value that is 16 bytes longer. So
// all who use a key verify, or none does.
//
// It finds accidents, of memory, of wires, of programs: one in 2^64 escapes. It is no signature: a program
// that may put may put what verifies.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "refract/base/api.h"
#include "refract/base/result.h"
#include "refract/client/client.h"
#include "refract/client/types.h"

namespace refract {

inline constexpr uint64_t kChecksumBytes = 16;

// What is to be stored for `value`: for those who put by other calls, AsyncClient's for example.
[[nodiscard]] REFRACT_API std::string with_checksum(Bytes key, Bytes value);

// The value in what was stored, as a part of `stored`, be it a string's, a view's or a buffer's. kMalformed:
// it does not end with a checksum, since it was put without one, or was damaged just there. kCorrupt: the
// checksum is that of another value or another key.
[[nodiscard]] REFRACT_API Result<Bytes> verify(Bytes key, Bytes stored);

// The calls of a Client on values with checksums, with their outcomes and those of verify(). Lengths are
// those without the checksum; a value is 16 bytes shorter at most. Each put copies its value one more time.
//
// Threads: any number at once, as of the Client, which outlives it.
class REFRACT_API VerifyingClient {
 public:
  explicit VerifyingClient(Client& client) noexcept : client_(client) {}

  [[nodiscard]] Result<std::string> get(Bytes key);
  // Into a string whose memory is used again. Without kOk its contents mean nothing.
  [[nodiscard]] Result<Got> get(Bytes key, std::string& value);
  [[nodiscard]] Result<uint64_t> put(Bytes key, Bytes value, const PutOptions& options = {});
  void multi_get(std::span<GetItem> items);
  void multi_put(std::span<PutItem> items);

 private:
  Client& client_;
};

}  // namespace refract
