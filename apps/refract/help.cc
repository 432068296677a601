// SPDX-License-Identifier: Apache-2.0
#include "apps/refract/help.h"

#include <fmt/format.h>

#include <array>

namespace refract::cli {
namespace {

constexpr std::string_view kEveryCommand = R"(
Options of every command
  --socket PATH        The node's socket. Default: $REFRACT_SOCKET_PATH, else where
                       refractd listens by default.
  --address ADDRESS    Instead: refract://HOST:PORT for a node elsewhere, with
                       ?transport=auto, shm, verbs or tcp; tcp:HOST:PORT;
                       verbs:HOST:PORT, by RDMA; shm:PATH. HOST:PORT,HOST:PORT
                       names some of the nodes that share out their keys.
  --secret-file FILE   The node's secret, where it wants one. Default:
                       $REFRACT_SECRET_FILE.
  --rdma-device NAME   This host's device for nodes elsewhere: its name, auto or none.
                       Default: $REFRACT_RDMA_DEVICE, else auto.
  --timeout DURATION   How long one call may take: 500ms, 5s, 1min. Default 5s.
  -h, --help           This page.

Exit codes
  0  done               1  not found, condition not met, some records failed, damage
  2  wrong command line 3  no node, no server or no answer in time     4  all else
)";

constexpr std::array kPages = {
    HelpPage{"get", "print the value of a key", R"(refract get: print the value of a key

Usage: refract get [options] KEY

The value's bytes go to a file or a pipe exactly as they were stored. On a terminal
what cannot be printed is spelled \xNN, since a terminal obeys some of it, and a line
break is added. The node's memory is read directly, so this works
while its server is stopped, and while it restarts. KEY "-" is read from the standard
input, to its end. Write "--" before a key that begins with a dash.

Options
  -o, --output FILE    Write the value into this file instead.
      --raw            The bytes as they are, also on a terminal.
      --verify         Print it only if it is, to the bit, what put --verify stored.
  -v, --verbose        Also print version, length and expiry, on the standard error.

Examples
  $ refract get greeting
  $ refract get --output picture.png picture
  $ printf 'key\0with a zero' | refract get -
)"},
    HelpPage{"put", "store a value under a key", R"(refract put: store a value under a key

Usage: refract put [options] KEY VALUE
       refract put [options] KEY --file FILE

Keys have 1 to 65,535 bytes, values up to 512 MiB, any bytes. "-" as KEY or VALUE is
read from the standard input, to its end. Write "--" before what begins with a dash.
When the command has ended with 0, the value survives a crash of the server.

Options
  -f, --file FILE      The value is what this file holds.
      --if-absent      Only if the key does not exist (else exit code 1).
      --if-version N   Only if the entry's version is N (else exit code 1).
      --ttl DURATION   The entry is gone after this time: 90s, 15min, 24h.
      --verify         Store a checksum with it, 16 bytes at its end, for those who get
                       it with --verify. Who gets it without sees them.
  -v, --verbose        Print the new version.
      --json           Print the new version as a JSON object.

Examples
  $ refract put greeting 'hello, memory'
  $ refract put --file picture.png picture
  $ date | refract put --ttl 1min now -
  $ refract put --if-absent lock "$HOSTNAME" && echo mine
)"},
    HelpPage{"erase", "remove a key", R"(refract erase: remove a key and its value

Usage: refract erase [options] KEY

Exit code 1 if there is no such key. KEY "-" is read from the standard input.

Options
      --if-version N   Only if the entry's version is N (else exit code 1).
  -v, --verbose        Print the version that was erased.
      --json           Print it as a JSON object.

Examples
  $ refract erase greeting
  $ refract scan --prefix tmp: -0 | xargs -0 -n 1 refract erase --
)"},
    HelpPage{"clear", "remove all keys", R"(refract clear: remove all keys and their values

Usage: refract clear --all [options]

What was there when it began is gone when it ends; what other clients write meanwhile
may go or stay. It may take longer than --timeout, as long as it gets on. Objects stay.

Options
      --all            Says that all of them are meant. Without it nothing is done.
      --json           Print how many went as a JSON object.

Examples
  $ refract dump -o before.jsonl && refract clear --all
)"},
    HelpPage{"cas", "replace a value if it is still what you think", R"(refract cas: compare and set

Usage: refract cas [options] KEY OLD NEW

Stores NEW under KEY if the value is OLD at that moment, as one step that no other
client can come between. Exit code 1, and nothing changes, if there is no such key or
its value is another. One of KEY, OLD and NEW may be "-", the standard input.

Options
  -f, --file FILE      NEW is what this file holds.
      --ttl DURATION   The entry is gone after this time. Without it, it stays.
      --verify         The value was put with --verify, and NEW is.
  -v, --verbose        Print the new version.
      --json           Print it as a JSON object.

Examples
  $ refract cas state idle busy && echo started
  $ refract cas counter 41 42
)"},
    HelpPage{"txn", "make several changes at one moment", R"(refract txn: make several changes at one moment

Usage: refract txn [options] FILE
       refract txn settle [options]

FILE, or "-" for the standard input, has a line for each condition and each change. If
all conditions hold, all changes are made at one moment: no reader sees some of them,
and no kill leaves some. Else exit code 1, nothing is changed, and the line is named.

  if-absent KEY   if-exists KEY   if-version KEY N   if-value KEY VALUE
  put KEY VALUE [TTL]   erase KEY   add KEY N

A word in quotes is a JSON string; a line that begins with # is left out. What add
makes is printed, a line each; 007 and -0 are no numbers to add to.

settle shows what waits on each node of a list to be told how a transaction ended. The
node that decides it, its home, tells it when it is back. Only where a home is gone for
good: --home NAME --as never ends what waits for it without its changes, --as happened
with them, on all nodes that answer. A node that the home had told otherwise before it
was lost keeps what it was told: then half of a transaction is left.

Options
  -v, --verbose        Print each new version.
      --json           Print what was made, or what waits, as a JSON object.
      --home NAME      Of settle: the node that will not come back.
      --as END         Of settle: never, or happened.

Examples
  $ refract txn pay-order.txt
  $ refract txn settle --address 10.0.0.1:7400
  $ printf 'add alice -10\nadd bob 10\n' | refract txn -
)"},
    HelpPage{"bank", "move money between accounts, and count it",
             R"(refract bank: move money between accounts, and count it

Usage: refract bank [options]

Makes accounts of 1,000 each, then moves random amounts between random ones, each by
one transaction, from several threads, while another thread counts all the money
again and again. Exit code 1 if a count is ever wrong. Kill the server meanwhile: the
sums stay right. The accounts are erased at the end.

Options
      --accounts N     2 to 1000; 100 without it.
      --threads N      That move money; 4 without it.
      --for DURATION   1s without it.
      --json           Print the figures as a JSON object.

Examples
  $ refract bank --for 10s
  $ refract bank --accounts 2 --threads 8
)"},
    HelpPage{"scan", "list the keys", R"(refract scan: list the keys, in no particular order

Usage: refract scan [options]

One key a line. On a terminal what cannot be printed is spelled \xNN. Into a file or
a pipe go the bytes as they are: a key with a line break then looks like two, so
programs take -0 or --json, and people look through a pipe with --json.
A key that is there throughout is listed at least once, also while the node grows;
one may be listed twice. Expired entries are not listed.

Options
      --prefix TEXT    Only keys that begin with TEXT; still reads the whole table.
      --limit N        Stop after N keys.
  -l, --long           Version and length of the value before each key.
  -0, --null           A zero byte behind each key instead of a line break.
      --raw            The bytes as they are, also on a terminal.
      --json           An object a line: key (or key_base64), version, value_bytes.

Examples
  $ refract scan --limit 10
  $ refract scan --prefix user: --json
  $ refract scan -0 | xargs -0 -n 1 refract get --
)"},
    HelpPage{"load", "store the records of files", R"(refract load: store the records of files

Usage: refract load [options] FILE...

FILE is a file, a directory, or "-" for the standard input. Without --format, the
name and the beginning tell the format. A bad record is reported with file and line
and skipped; the others are stored. When the server restarts meanwhile, load waits and
repeats what it had in flight. Exit code 1 if any record failed.

Formats
  csv        RFC 4180; two columns are key and value. Of more, --key-column is the key,
             and with a header the value is the record as a JSON object.
  tsv        The same with tabs, without quotes.
  jsonl      {"key": "k", "value": "v"} a line; key_base64, value_base64 for any bytes;
             with --key-field, any objects: the whole object is the value.
  directory  Every file below it: the path is the key, the content the value.
  debian     /var/lib/dpkg/status, Packages: a stanza is a value, the package its key.

Options
      --format NAME    csv, tsv, jsonl, directory or debian.
      --key-column C   csv, tsv: the key's column, by name or number from 1.
      --key-field F    jsonl: the member of each object that is the key.
      --header yes|no  csv, tsv: whether the first line is a header.
      --escapes yes|no tsv: whether \t \n \r \\ are escapes.
      --prefix TEXT    Written before each key.
      --ttl DURATION   The entries are gone after this time.
      --verify         Store a checksum with each value: refract put --help.
      --no-progress    No progress on the standard error, only errors and the last line.

Examples
  $ refract load /var/lib/dpkg/status
  $ refract load --key-column id --prefix user: users.csv
  $ zcat events.jsonl.gz | refract load --format jsonl --key-field id -
)"},
    HelpPage{"dump", "write all entries to a file",
             R"(refract dump: write all entries, so that load can read them

Usage: refract dump [options]

Reads the node's memory directly: works while the server is stopped, or has been given
up. Entries written meanwhile may be in it or not. Times to live are not part of a dump.

Options
      --format NAME    jsonl (default), csv, tsv, directory or debian. A directory takes
                       one file a key, and must be new or empty.
  -o, --output PATH    Write there instead of to the standard output.
      --overwrite      Replace the file if there is one.
      --raw            The bytes as they are, also on a terminal, where else what cannot
                       be printed is spelled \xNN.
      --prefix TEXT    Only keys that begin with TEXT.
      --verify         Values were put with --verify: those that are not what was put
                       are reported and left out (exit code 1), the others written
                       without their checksums.
      --no-progress    No progress on the standard error, only errors and the last line.

Examples
  $ refract dump --output backup.jsonl
  $ refract dump --format directory --output backup
  $ refract dump | gzip > backup.jsonl.gz
)"},
    HelpPage{"stat", "how full and how busy the node is", R"(refract stat: how full and how busy the node is

Usage: refract stat [options]

Entries, memory by state, the table's size, uptime, connections, and the calls that the
server has answered since it started; where a node has several shards, of each what it
holds. Reads do not appear among the calls: they do not involve the server.

  data      What outlives what: data.durability, and where log and snapshots lie.
  log       How much of it is not on the disk yet, when it was last synced; or why it
            takes no writes. "Since the last snapshot" is what a start would read.
  snapshot  The youngest one; or why there is none.
  start     Where the server had its entries from, and how long that took.

Options
      --json           The same as a JSON object; bytes and nanoseconds.

Examples
  $ refract stat
  $ watch -n 1 refract stat
)"},
    HelpPage{"ping", "whether the server answers, and how fast",
             R"(refract ping: whether the server answers, and how fast

Usage: refract ping [options]

One message to the server and back. Exit code 3 if there is no answer in time; what
the node's memory can still give is said then.

Options
      --why            Also print which transport is taken and why, for each other one
                       why it is not, and by which path reads and writes go.
      --json           Print the round trip, path and server state as a JSON object.

Examples
  $ refract ping
  $ refract ping --why
  $ refract ping --why --address 'refract://db.example:7400?transport=auto'
  $ until refract ping --timeout 1s; do :; done
)"},
    HelpPage{"cluster", "the nodes that belong together, and a key's slot",
             R"(refract cluster: the nodes that belong together, and a key's slot

Usage: refract cluster [options]
       refract cluster [options] KEY...

Without keys: the list that the node has (refractd --cluster-nodes), its version, and
which of them the node itself is. Exit code 1 if it has none.

With keys: a line for each, with its slot, that slot's first nodes and the key. The slot
is that of Redis Cluster: of the part in braces alone, where there is one. So programs
agree on a node for each key; the nodes themselves move nothing, and each has the keys
and objects that were put there.

Options
      --nodes N        How many nodes of each key. Default 3.
      --json           The list as a JSON object; of keys, an object a line.

Examples
  $ refract cluster
  $ refract cluster --nodes 1 user:7 '{user:7}:photo'
)"},
    HelpPage{"token", "the password of a node's door for other protocols",
             R"(refract token: the password of a node's door for other protocols

Usage: refract token redis --secret-file PATH

Redis's AUTH sends a password in clear. So a node with a secret (auth.secret_file) asks
its Redis clients for this token, which follows from the secret and opens nothing else.
Not printed for others to see: it is as good as the secret where Redis is spoken.

Options
      --secret-file PATH  The file that the node's auth.secret_file names, or a copy.

Examples
  $ refract token redis --secret-file /etc/refract/secret
  $ REDISCLI_AUTH=$(refract token redis --secret-file /etc/refract/secret) redis-cli
)"},
    HelpPage{"top", "watch the node at work", R"(refract top: watch the node at work

Usage: refract top [options]

A screen that is redrawn every second: calls a second and how long they took, memory
by state, each shard with its processor time, and each connection with its transport,
its peer and why it came that way. q ends it. Without a terminal it is printed once.

  call        Calls that reached the server, and the time each took it: half of them at
              most p50, 99 % at most p99, 99.9 % at most p99.9. Of a sample. Gets over
              shared memory are not among them: they do not involve the server.
  memory      # live entries  t table  - replaced, reusable soon  . free  blank: room in
              chunks that are in use.
  shard       CPU is of one core; a batch is what the shard took at once.
  connection  SHARD.PLACE; flight: calls without an answer yet.
  data        As refract stat has it: data.durability, the log's state, what of it is
              not on the disk yet, the last snapshot.
  trouble     What was refused or put off since the server's start, if anything was.

The node does nothing for it while no command asks. An answer costs each shard some tens
of microseconds.

Options
      --interval DURATION  How often to look, and what rates are of. Default 1s.
      --once               Print one interval and end.
      --json               Print a JSON object an interval; with --once, one.
      --connections N      At most N connections of each shard. Default 1000.

Examples
  $ refract top
  $ refract top --once --interval 10s
  $ refract top --json --interval 5s >> load.jsonl
)"},
    HelpPage{"trace", "see what happens to each call", R"(refract trace: see what happens to each call

Usage: refract trace [options]
       refract trace [options] get KEY
       refract trace [options] put KEY VALUE
       refract trace [options] erase KEY

Without an operation: records what the node's shards do for a second, then prints a line
a call: when it was taken and with how many others, how long until it was answered, and
how. One at a time may record; calls take some 100 ns longer meanwhile.

With one: does it, and shows each step. A get over shared memory lists every word that
it looks at in the node's memory and what it learns from it; what goes by messages shows
when the server took and answered them.

Options
      --for DURATION       How long to record. Default 1s.
      --records N          How many records each shard keeps, the newest. Default 10000.
      --chrome             JSON for a trace viewer: chrome://tracing, ui.perfetto.dev.
  -o, --output FILE        Write into this file.

Examples
  $ refract trace
  $ refract trace --for 100ms --chrome --output load.json
  $ refract trace get greeting
  $ refract trace put greeting 'hello, memory'
)"},
    HelpPage{"check", "look for damage in the node's memory, or in its files",
             R"(refract check: look for damage in the node's memory, or in its files

Usage: refract check [options]
       refract check [options] PATH

Without a path: walks header, chunk table, directory, every bucket and every entry of a
node's memory, through a mapping that cannot write. Works while the server serves, is
stopped, or has been given up.

PATH is one of
  a data folder  (refractd --data-folder): reads every snapshot and the whole log, and
                 says of each file what it has; of damage the file, the offset, how long
                 it is and what was lost; and what a start would do. While a node has
                 the folder, of its snapshots alone.
  a file         of such a folder: snapshot-..., log-...
  region files   the folder of a node with --memory-backing file:FOLDER, best while it
                 does not run.
Nothing is changed. Exit code 1 if there is damage. Of a data folder, refract restore
--salvage saves the rest; of memory, refract dump.

Options
      --path PATH      The same as PATH.
      --no-progress    Nothing on the standard error of a terminal meanwhile.
      --json           Counts and damages as JSON; of memory, an object for each shard.

Examples
  $ refract check
  $ refract check /var/lib/refract
  $ refract check backup/snapshot-000-00000000000000001234
)"},
    HelpPage{"restore", "make a new data folder of an old one, or of snapshots",
             R"(refract restore: make a new data folder of an old one, or of snapshots

Usage: refract restore [options] FOLDER --to NEWFOLDER
       refract restore [options] SNAPSHOT... --to NEWFOLDER

NEWFOLDER gets a store of its own with the same entries, versions and times to live:
start a node on it with refractd --data-folder. The source is not changed, and no node
may have it. NEWFOLDER is there when all of it is on the disk; if restore fails, it is
not there at all. Of snapshots, name one for each shard: those of a copied folder, or
files that were copied alone, which need nothing beside them.

With --salvage, FOLDER may be damaged: every entry that verifies is taken, with the last
change of it that does. Whatever does not is left out, and named with file, offset and
extent (exit code 1). Where the log has a hole, later changes of the same keys are
applied over it; a key whose last change was in the hole has the value of before.

Options
      --to NEWFOLDER   Is not there yet, or empty.
      --salvage        Take what verifies of a damaged folder or snapshot.
      --no-progress    Nothing on the standard error of a terminal meanwhile.
      --json           What was restored, and what was left out, as a JSON object.

Examples
  $ refract restore --salvage /var/lib/refract --to /var/lib/refract-saved
  $ refract restore backup/snapshot-000-00000000000000001234 --to /var/lib/refract
)"},
    HelpPage{"inspect", "decode what lies in the node's memory",
             R"(refract inspect: decode what lies in the node's memory

Usage: refract inspect [options]
       refract inspect --file PATH [options]

Without a question: header, chunks with how full each is, buffers by size, buckets by
how many entries they hold. With one: a key's way from its hash to its bytes, a bucket
with its slots, or whatever lies at an offset. Through a mapping that cannot write, so
it works while the server serves, is stopped, or has been given up. Bytes that
contradict each other are shown as DAMAGE where they lie, and not followed; the exit
code is then 1. The offsets are those of refract chain: 0x1180 here is kv+0x1180 there.

Options
      --key KEY        Where its bucket, slot and buffer are. Exit code 1 if absent.
      --bucket N       This bucket of the table: its lines and their slots. Of another
                       layout: this slot or entry.
      --at OFFSET      What lies there; 4096 or 0x1000.
      --shard N        Of which shard. Default 0; with --key the key's own.
      --file PATH      Instead of a running node: a folder of region files (a node's
                       --memory-backing file:FOLDER), or a file with a saved region.
      --layout NAME    Decode it as this, where the bytes do not tell: table, prism-kv
                       or pilaf.
      --json           The same as a JSON object.

Examples
  $ refract inspect
  $ refract inspect --key greeting
  $ refract inspect --file /var/lib/refract --at 0x101180
)"},
    HelpPage{"chain", "run a chain of operations on the node's memory",
             R"(refract chain: run a chain of operations on the node's memory

Usage: refract chain [options] FILE

FILE ("-": the standard input) has an operation a line, at most 16. All are executed in
order beside the memory, in one round trip; printed is what became of each. Exit code 1
if any did not succeed. Lines may be empty, or end in # and a comment.

  read ADDRESS BYTES
  write ADDRESS DATA             or: write ADDRESS [SOURCE] BYTES
  allocate STORE/LIST DATA       a fresh buffer that holds the data
  cas ADDRESS eq|gt|lt compare OPERAND swap OPERAND
                                 1 to 32 bytes; gt: what is supplied is greater; also
                                 compare-mask DATA, swap-mask DATA, bytes N
  add ADDRESS NUMBER             to a word; its old value comes back
  let NAME = ADDRESS             a name for an address or a number

  ADDRESS  kv+0x1000, kv.root+8, scratch+16 (64 bytes of the connection's own)
  DATA     "text", hex:00ff, u32:5, a number or an address of 8 bytes, or several
  OPERAND  data, or [ADDRESS] where it stands

Behind an operation
  indirect               The address holds a pointer to the target,
  bounded                and behind it a bound on the bytes (read, write).
  slot                   That pointer is a slot's word; allocate gives such a word, to
                         which template NUMBER adds bits.
  conditional            Only if the operation before succeeded.
  redirect scratch+N     The output goes to the scratch instead (read, allocate).
  owned                  The buffer goes back if the chain does not store it (allocate).
  retire                 What is swapped out is retired (cas).
  in STORE               Whose key opens what the scratch leads to.

Options
      --explain        Print each step of each hop, which checks come and what is
                       touched, instead of running the chain. Needs no node.
      --dry-run        Print the bytes that would travel, in hex with the fields' names.
                       Keys, which only a node gives, are 0.
      --shard N        Of which shard the memory is. Default 0.
      --json           The same as a JSON object.

Examples
  $ refract chain count.chain
  $ refract chain --explain count.chain
  $ echo 'read kv.root+0 8' | refract chain -

where count.chain reads the table's bucket count and counts in the scratch:
  read  kv.root+0 8
  write scratch+0 u64:41 conditional
  add   scratch+0 1 conditional

docs/chains.md follows a key of the table by hand.
)"},
    HelpPage{"snapshot", "write the store to the node's folder, now",
             R"(refract snapshot: write the store to the node's folder, now

Usage: refract snapshot [options]

The node, which needs a folder for it (refractd --data-durability everysec
--data-folder FOLDER), writes all entries of this moment to a file there, one for each
shard. It serves meanwhile, and writes no faster than data.snapshot_rate. When the
command has ended with 0 the files are on the disk; they replace those of the
snapshot before, and the log is cut to what came later. If it fails, what was there
before still is. The youngest snapshot and the log behind it are what a node starts
from, so a copy of the whole folder is a backup. refract stat tells of the last one.

Options
      --no-wait        Ask for it, and do not wait.
      --no-progress    Nothing on the standard error meanwhile.
      --json           Print a JSON object: of each shard file, entries, bytes, took_ns;
                       or error and next.

Examples
  $ refract snapshot
  $ refract snapshot && cp -r /srv/refract /backup/$(date +%F)
)"},
    HelpPage{"doctor", "whether this machine can run a node, or reach one",
             R"(refract doctor: whether this machine can run a node, or reach one

Usage: refract doctor [options]
       refract doctor --peer HOST[:PORT] [options]

Looks at memory, cgroup, huge pages, limits, sockets and RDMA devices for a node with
the configuration that refractd would have (flags here, REFRACT_... variables, file),
and names the command that mends what is in the way. Then tries what a node would use,
a second for each path: shared memory, TCP over the loop-back interface, each RDMA port
with itself and with each other one; printed is what it costs and carries. The last
line says who would reach such a node, and by what. Changes nothing. Exit code 1 if
anything fails.

With --peer, follows the path to a node that listens at HOST (PORT: 7400): name,
connection, handshake, then each transport by itself with what calls over it cost. The
last line says which one a client would take, and why not each better one. Exit code 3
if there is no path. For the figures it stores 1 MiB under a key of its own (a minute at
most) for each transport. A path is of two hosts: the node's own refract doctor says
which fault its end has.

  OK    found as it should be, or not good and not bad
  WARN  works, but slower or smaller than it could; -> says what mends it
  FAIL  a node with this configuration does not start, or there is no path

Options
      --peer HOST[:PORT]      The path to that node, instead of this machine.
      --no-self-test          Only look: nothing is tried or stored, no figures.
      --no-progress           Nothing on the standard error of a terminal meanwhile.
      --config FILE           As of refractd (likewise below).
      --memory-limit SIZE     How much the node is to take at most.
      --memory-backing URI    memfd:, hugetlb: or file:FOLDER.
      --listen-address ADDR   Where the node is to listen for other hosts.
      --data-durability MODE  none, everysec or always.
      --data-folder FOLDER    Where log and snapshots are to lie.
      --json                  The findings as a JSON object; the figures are members
                              of their finding, in nanoseconds and bytes a second.

Examples
  $ refract doctor
  $ refract doctor --memory-limit 8GiB --memory-backing hugetlb:
  $ refract doctor --rdma-device mlx5_0 --listen-address 10.0.0.7:7400
  $ refract doctor --peer db.example
  $ refract doctor --peer 10.0.0.7:7400 --json
)"},
};

}  // namespace

std::span<const HelpPage> help_pages() noexcept {
  return kPages;
}

std::string overview() {
  std::string text =
      "refract: the command line client of Refract, an in-memory key-value store\n"
      "\n"
      "Usage: refract COMMAND [options] [arguments]\n"
      "\n"
      "Commands\n";
  for (const HelpPage& page : kPages) text += fmt::format("  {:<8} {}\n", page.command, page.summary);
  text += "  object   large data that is made once and read by many: refract object --help\n";
  text += R"(
Start a node with `refractd` (or `make run`). On its host its memory is mapped here
read-only, so get, scan and dump need no answer of its server.

  $ refract put greeting 'hello, memory'
  $ refract get greeting
  hello, memory
  $ refract load /var/lib/dpkg/status && refract get bash

`refract COMMAND --help` explains a command, with examples. `refract --version` prints
the version.
)";
  return text.append(kEveryCommand);
}

std::string help_of(std::string_view command) {
  for (const HelpPage& page : kPages) {
    if (page.command == command) return std::string(page.text).append(kEveryCommand);
  }
  return {};
}

}  // namespace refract::cli
