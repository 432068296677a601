// SPDX-License-Identifier: Apache-2.0
// What `refract object` does, one function an action. Each prints, complains, and returns the exit code.
#pragma once

#include <string>
#include <string_view>

#include "apps/refract/object/object_line.h"

#include "refract/client/client.h"
#include "refract/client/objects.h"
#include "refract/documents/value.h"

namespace refract::cli {

[[nodiscard]] int put_object(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int get_object(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int list_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int remove_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int stat_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int keep_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int evict_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int wait_for_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int follow_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int digest_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int locate_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int set_copies_of_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int prefetch_objects(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int show_paths(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int rank_nodes(const ObjectInvocation& invocation, Objects& objects, Client& client);
[[nodiscard]] int broadcast_object(const ObjectInvocation& invocation, Objects& objects, Client& client);

// What to tell a person about a call that failed: what was done, and why.
[[nodiscard]] Report explain_object(const Client& client, const Objects& objects, Code code,
                                    std::string_view what);
// "1.5 ms"; "-" of 0.
[[nodiscard]] std::string time_text(uint64_t ns);
// The id as the invocation wants to see it: digits, or its bytes with what cannot be printed spelled.
// "1 of 2 copies"
[[nodiscard]] std::string copies_text(uint32_t copies, uint32_t wanted);
[[nodiscard]] std::string id_text(const ObjectInvocation& invocation, std::string_view id);
void append_id(documents::Value& row, const ObjectInvocation& invocation, std::string_view id);

}  // namespace refract::cli
