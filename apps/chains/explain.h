// SPDX-License-Identifier: Apache-2.0
// What a chain does, hop by hop: which checks come, which bytes are touched, and what each failure is called.
#pragma once

#include <string>

#include "apps/chains/chain_text.h"

namespace refract::chains {

// For people; a block an operation.
[[nodiscard]] std::string explain(const ParsedChain& chain);
// The same steps as a JSON object.
[[nodiscard]] std::string explain_json(const ParsedChain& chain);

}  // namespace refract::chains
