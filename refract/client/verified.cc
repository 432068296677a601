// SPDX-License-Identifier: Apache-2.0
#include "refract/client/verified.h"

#include <cstring>
#include <vector>

#include "refract/base/hash.h"
#include "refract/kv/layout/layout.h"

namespace refract {
namespace {

// How a stored value with a checksum ends.
struct Trailer {
  uint64_t mark;      // The bytes "Rverify1": says which checksum this is, and that it is one.
  uint64_t checksum;  // XXH3 of the value, seeded by that of the key.
};
static_assert(sizeof(Trailer) == kChecksumBytes);

constexpr uint64_t kMark = 0x31'79'66'69'72'65'76'52;

// The key's hash as the seed, so that an entry's bytes in another entry's place do not verify.
uint64_t checksum_of(Bytes key, Bytes value) noexcept {
  return hash_key(value, hash_key(key, kMark));
}

// Cuts the checksum off.
Result<Got> take_value(Bytes key, const Result<Got>& got, std::string& value) {
  if (!got) return got;
  const Result<Bytes> sound = verify(key, value);
  if (!sound) return fail(sound.error());
  value.resize(sound->size());
  Got taken = *got;
  taken.value_bytes = value.size();
  return taken;
}

}  // namespace

std::string with_checksum(Bytes key, Bytes value) {
  const Trailer trailer{.mark = kMark, .checksum = checksum_of(key, value)};
  std::string stored;
  stored.reserve(value.size() + sizeof(trailer));
  stored.append(value.text());
  stored.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
  return stored;
}

Result<Bytes> verify(Bytes key, Bytes stored) {
  Trailer trailer{};
  if (stored.size() < sizeof(trailer)) return fail(Code::kMalformed);
  const Bytes value(stored.first(stored.size() - sizeof(trailer)));
  std::memcpy(&trailer, stored.data() + value.size(), sizeof(trailer));
  if (trailer.mark != kMark) return fail(Code::kMalformed);
  if (trailer.checksum != checksum_of(key, value)) return fail(Code::kCorrupt);
  return value;
}

Result<std::string> VerifyingClient::get(Bytes key) {
  std::string value;
  if (const Result<Got> got = get(key, value); !got) return fail(got.error());
  return value;
}

Result<Got> VerifyingClient::get(Bytes key, std::string& value) {
  return take_value(key, client_.get(key, value), value);
}

Result<uint64_t> VerifyingClient::put(Bytes key, Bytes value, const PutOptions& options) {
  if (value.size() > kv::kValueBytesMax - kChecksumBytes) return fail(Code::kTooLarge);
  return client_.put(key, with_checksum(key, value), options);
}

void VerifyingClient::multi_get(std::span<GetItem> items) {
  client_.multi_get(items);
  for (GetItem& item : items) item.result = take_value(item.key, item.result, item.value);
}

void VerifyingClient::multi_put(std::span<PutItem> items) {
  std::vector<std::string> stored;
  std::vector<PutItem> longer;
  std::vector<size_t> places;
  stored.reserve(items.size());
  longer.reserve(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].value.size() > kv::kValueBytesMax - kChecksumBytes) {
      items[i].result = fail(Code::kTooLarge);
      continue;
    }
    stored.push_back(with_checksum(items[i].key, items[i].value));
    longer.push_back({.key = items[i].key, .value = stored.back(), .options = items[i].options});
    places.push_back(i);
  }
  client_.multi_put(longer);
  for (size_t i = 0; i < places.size(); ++i) items[places[i]].result = longer[i].result;
}

}  // namespace refract
