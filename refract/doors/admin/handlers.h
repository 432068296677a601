// SPDX-License-Identifier: Apache-2.0
// What runs the commands of people and of their tools: of connections, settings, the door's own counts. Only
// the tables of commands and the handlers' own sources include this.
#pragma once

#include <span>

#include "refract/doors/redis/commands.h"
#include "refract/runtime/task.h"

namespace refract::doors::redis {

[[nodiscard]] std::span<const Row> client_rows() noexcept;
[[nodiscard]] std::span<const Row> command_rows() noexcept;
[[nodiscard]] std::span<const Row> config_rows() noexcept;
[[nodiscard]] std::span<const Row> latency_rows() noexcept;
[[nodiscard]] std::span<const Row> memory_rows() noexcept;
[[nodiscard]] std::span<const Row> object_rows() noexcept;
[[nodiscard]] std::span<const Row> slowlog_rows() noexcept;

// Of every command that has subcommands.
bool help(Call& call);

bool client_getname(Call& call);
bool client_getredir(Call& call);
bool client_id(Call& call);
bool client_info(Call& call);
bool client_no_evict(Call& call);
bool client_pause(Call& call);
bool client_reply(Call& call);
bool client_setinfo(Call& call);
bool client_setname(Call& call);
bool client_unblock(Call& call);
bool client_unpause(Call& call);
runtime::Task<> client_kill(Store& store, Pending& command);
runtime::Task<> client_list(Store& store, Pending& command);

bool command(Call& call);
bool command_count(Call& call);
bool command_docs(Call& call);
bool command_getkeys(Call& call);
bool command_getkeysandflags(Call& call);
bool command_info(Call& call);
bool command_list(Call& call);

bool config_get(Call& call);
bool config_rewrite(Call& call);
bool config_set(Call& call);
runtime::Task<> config_resetstat(Store& store, Pending& command);

bool latency_doctor(Call& call);
bool latency_graph(Call& call);
bool latency_histogram(Call& call);
bool latency_none(Call& call);
bool latency_reset(Call& call);

bool slowlog_get(Call& call);
bool slowlog_len(Call& call);
bool slowlog_reset(Call& call);

bool memory_doctor(Call& call);
bool memory_purge(Call& call);
runtime::Task<> memory_stats(Store& store, Pending& command);
runtime::Task<> memory_usage(Store& store, Pending& command);
runtime::Task<> object_encoding(Store& store, Pending& command);
runtime::Task<> object_freq(Store& store, Pending& command);
runtime::Task<> object_idletime(Store& store, Pending& command);
runtime::Task<> object_refcount(Store& store, Pending& command);

bool reset(Call& call);
bool time(Call& call);
runtime::Task<> debug(Store& store, Pending& command);
runtime::Task<> wait(Store& store, Pending& command);

}  // namespace refract::doors::redis
