// SPDX-License-Identifier: Apache-2.0
// The commands. Each does one thing, prints it, complains about what went wrong, and returns the exit code.
#pragma once

#include <string>

#include "apps/progress/progress.h"
#include "apps/refract/command_line.h"
#include "apps/refract/node_link.h"

#include "refract/client/client.h"

namespace refract::cli {

[[nodiscard]] int run_get(const Invocation& invocation);
[[nodiscard]] int run_put(const Invocation& invocation);
[[nodiscard]] int run_erase(const Invocation& invocation);
[[nodiscard]] int run_cas(const Invocation& invocation);
[[nodiscard]] int run_clear(const Invocation& invocation);
[[nodiscard]] int run_scan(const Invocation& invocation);
[[nodiscard]] int run_load(const Invocation& invocation);
[[nodiscard]] int run_dump(const Invocation& invocation);
[[nodiscard]] int run_stat(const Invocation& invocation);
[[nodiscard]] int run_ping(const Invocation& invocation);
[[nodiscard]] int run_top(const Invocation& invocation);
[[nodiscard]] int run_trace(const Invocation& invocation);
[[nodiscard]] int run_check(const Invocation& invocation);
[[nodiscard]] int run_restore(const Invocation& invocation);
[[nodiscard]] int run_inspect(const Invocation& invocation);
[[nodiscard]] int run_chain(const Invocation& invocation);
[[nodiscard]] int run_doctor(const Invocation& invocation);
[[nodiscard]] int run_snapshot(const Invocation& invocation);
[[nodiscard]] int run_txn(const Invocation& invocation);
[[nodiscard]] int run_settle(const Invocation& invocation);  // txn settle
[[nodiscard]] int run_bank(const Invocation& invocation);
[[nodiscard]] int run_cluster(const Invocation& invocation);
[[nodiscard]] int run_token(const Invocation& invocation);

// Where the invocation says that the node is.
[[nodiscard]] const std::string& target_of(const Invocation& invocation);

// The node that the invocation names. `populate`: whether page tables are filled, which pays for commands
// that read everything.
[[nodiscard]] Reported<Client> connect(const Invocation& invocation, bool populate = false);

// The same for commands about the node rather than its entries.
[[nodiscard]] NodeLink::Options link_options(const Invocation& invocation);

// A report that no node was reached, completed by how to have one; others as they are.
[[nodiscard]] Report with_what_to_start(Report why);

// The bytes that an argument stands for; of a key, of a length that a key may have.
[[nodiscard]] Reported<std::string> read_source(const Source& source);
[[nodiscard]] Reported<std::string> read_key(const Invocation& invocation);
// kDone, or the exit code after a complaint.
[[nodiscard]] int write_file(const std::string& path, std::string_view bytes);

// What to tell a person about a call that failed: what was done ("cannot store 'k'"), and why.
[[nodiscard]] Report explain(const Client& client, Code code, std::string_view what);

// The summary of a long command, in place of its progress line.
void say_last(progress::Progress& progress, const progress::Style& style, std::string_view summary);

}  // namespace refract::cli
