// SPDX-License-Identifier: Apache-2.0
// Whatever text is given as a chain: the parser ends, names a place inside the text, and what it takes for a
// chain is one that an executor takes, too.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "apps/chains/chain_text.h"
#include "apps/chains/encode.h"
#include "apps/chains/explain.h"

#include "refract/prism/decode.h"

namespace {

using namespace refract;
using namespace refract::chains;

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "chain_text_fuzz: %s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto chain = parse_chain({.name = "fuzz", .text = text});
  if (!chain) {
    expect(chain.error().what.starts_with("fuzz:"), "a fault has no place");
    expect(chain.error().code == Code::kInvalidArgument, "a fault has another code");
    return 0;
  }
  std::vector<OpenedStore> stores;
  for (const StoreUse& use : chain->stores) {
    stores.push_back(
        {.name = use.name, .region = static_cast<uint16_t>(stores.size()), .key = {7}, .root = 128});
  }
  (void)explain(*chain);
  (void)explain_json(*chain);
  const auto message = encode(*chain, stores);
  if (!message) return 0;
  prism::DecodedChain decoded;
  expect(prism::decode(*message, decoded) == Code::kOk, "the executor refuses what the parser took");
  expect(decoded.count == chain->statements.size(), "an operation is lost");
  (void)wire_text(*message);
  (void)wire_json(*message);
  // And bytes that need be no chain at all.
  (void)wire_text(std::as_bytes(std::span(text)));
  return 0;
}
