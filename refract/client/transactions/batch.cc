// SPDX-License-Identifier: Apache-2.0
#include "refract/client/transactions/batch.h"

namespace refract {

Batch& Batch::condition(Kind kind, Bytes key, uint64_t version, Bytes value) {
  conditions_.push_back(
      {.kind = kind, .key = std::string(key.text()), .version = version, .value = std::string(value.text())});
  return *this;
}

Batch& Batch::write(Kind kind, Bytes key, Bytes value, uint64_t argument) {
  writes_.push_back({.kind = kind,
                     .key = std::string(key.text()),
                     .value = std::string(value.text()),
                     .argument = argument});
  return *this;
}

Batch& Batch::if_absent(Bytes key) {
  return condition(Kind::kAbsent, key, 0, {});
}
Batch& Batch::if_exists(Bytes key) {
  return condition(Kind::kExists, key, 0, {});
}
Batch& Batch::if_version(Bytes key, uint64_t version) {
  return condition(Kind::kVersion, key, version, {});
}
Batch& Batch::if_value(Bytes key, Bytes value) {
  return condition(Kind::kValue, key, 0, value);
}
Batch& Batch::put(Bytes key, Bytes value, uint64_t ttl_ns) {
  return write(Kind::kPut, key, value, ttl_ns);
}
Batch& Batch::erase(Bytes key) {
  return write(Kind::kErase, key, {}, 0);
}
Batch& Batch::add(Bytes key, int64_t addend) {
  return write(Kind::kAdd, key, {}, static_cast<uint64_t>(addend));
}
Batch& Batch::run(Bytes key, uint8_t function, Bytes arguments) {
  return write(Kind::kFunction, key, arguments, function);
}
Batch& Batch::put_if(Bytes key, Bytes value, const PutTerms& terms) {
  write(Kind::kPut, key, value, terms.ttl_ns);
  writes_.back().terms = terms;
  return *this;
}

void Batch::clear() {
  *this = {};
}

}  // namespace refract
