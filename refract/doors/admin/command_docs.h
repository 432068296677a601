// SPDX-License-Identifier: Apache-2.0
// COMMAND INFO and COMMAND DOCS, from the rows of the commands and their texts.
//
// Threads: any.
#pragma once

#include <string_view>
#include <vector>

#include "refract/doors/redis/commands.h"
#include "refract/doors/redis/reply.h"

namespace refract::doors::redis {

// One of COMMAND INFO's, its subcommands included.
void tell_info(Reply& reply, const Row& row);
// One of COMMAND DOCS's: its name, and a map.
void tell_docs(Reply& reply, const Row& row);

// "@read" and the like, in Redis's order.
[[nodiscard]] std::vector<std::string_view> categories_of(const Row& row);
// Words that say where a command goes, and are no keys, do not count.
[[nodiscard]] bool has_keys(const Row& row) noexcept;
// The keys of these words. Empty: there are none where they should be. REQUIRES: the row has keys.
[[nodiscard]] std::vector<std::string_view> keys_of(const Row& row, Words words);
// What becomes of the key at this place among them.
[[nodiscard]] std::vector<std::string_view> key_flags_of(const Row& row, Words words, size_t place);

// Of words between these marks.
[[nodiscard]] std::vector<std::string_view> parts_of(std::string_view text, char mark);

}  // namespace refract::doors::redis
