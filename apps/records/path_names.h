// SPDX-License-Identifier: Apache-2.0
// Keys as paths below a directory, and back.
//
// A slash of the key separates directories where it stands between two components that are not empty; any
// other slash is spelled %2F. So are %, bytes below 0x20 and 0x7F, and the dots of the components "." and
// "..". Hence every key but the empty one has a path that is relative and stays below its directory, and no
// two keys have the same. No such path begins with "%r": kDirectoryMark is free.
#pragma once

#include <string>
#include <string_view>

namespace refract::records {

// Replaces `path`. REQUIRES: `key` is not empty.
void key_to_path(std::string_view key, std::string& path);

// Replaces `key`. False where a % is not followed by two hexadecimal digits.
[[nodiscard]] bool path_to_key(std::string_view path, std::string& key);

}  // namespace refract::records
