// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>

#include "apps/refract/object/object_line.h"

namespace refract::cli {
namespace {

constexpr std::array kPages = {
    HelpPage{"put", "make an object of a file", R"(refract object put: make an object of a file

Usage: refract object put [options] ID [FILE]

The object has what FILE holds, or the standard input without one or with "-". When the
command has ended with 0 every program finds it. Ids have 1 to 255 bytes and name one
object at a time: exit code 1 if there is one. Write "--" before an id that begins with
a dash.

Options
      --metadata TEXT  Up to 64 KiB that stand beside the bytes.
      --keep           Never evict it, until refract object keep --off.
      --copies N       So many nodes keep a copy: refract object copies. Exit code 1 if
                       there are fewer so far.
      --wait DURATION  How long to wait for room that others hold: 30s, no, forever.
                       Default 5s.
      --hex            ID is given as hexadecimal digits.
      --no-progress    Nothing on the standard error meanwhile.
      --json           Print id, birth and lengths as a JSON object.

Examples
  $ refract object put weights model.bin --metadata '{"layers": 12}'
  $ tar -c data | refract object put data.tar
)"},
    HelpPage{"get", "print an object", R"(refract object get: print an object

Usage: refract object get [options] ID

The bytes go to a file or a pipe as they are. On a terminal what cannot be printed is
spelled \xNN, since a terminal obeys some of it. On the node's host this works while
its server is stopped. Exit code 1 if there is no such object.

Options
  -o, --output FILE    Write the bytes into this file instead.
      --metadata       The metadata instead of the bytes.
      --wait DURATION  Wait for it so long: 30s, forever. Default: not at all.
      --raw            The bytes as they are, also on a terminal.
      --transfer WAY   How a copy from another node comes: send (in messages), read (by
                       READs of the network), or auto. Default auto.
      --hex            ID is given as hexadecimal digits.
      --no-progress    Nothing on the standard error meanwhile.

Examples
  $ refract object get weights --output model.bin
  $ refract object get data.tar --wait forever | tar -x
)"},
    HelpPage{"ls", "list the objects", R"(refract object ls: list the objects, in no particular order

Usage: refract object ls [options]

One object a line: length of its bytes, of its metadata, K if it is kept, and its id.
With --all also how many readers hold it, and C for one that is being made.

Options
      --all            Ask the server, which also knows holders and creations.
      --prefix TEXT    Only ids that begin with TEXT.
      --limit N        Stop after N objects.
      --hex            Ids as hexadecimal digits.
      --json           An object a line: id (or id_base64), birth, body_bytes, ...

Examples
  $ refract object ls
  $ refract object ls --all --json
)"},
    HelpPage{"rm", "remove objects", R"(refract object rm: remove objects

Usage: refract object rm [options] ID...

Their ids are free at once; the memory of one that readers hold goes with the last of
them. Says how many hold it. Exit code 1 if there is no such object.

Options
      --birth N        Only if the object is the one of this birth (ls --json).
      --hex            ID is given as hexadecimal digits.
      --json           An object a line: id, holders.

Examples
  $ refract object rm weights
  $ refract object ls --prefix tmp: --hex | awk '{print $NF}' |
      xargs refract object rm --hex
)"},
    HelpPage{"stat", "what objects take", R"(refract object stat: what objects take

Usage: refract object stat [options]

Bytes are those of bodies and metadata, which is what the limit counts.

Options
      --json           A JSON object.

Examples
  $ refract object stat
)"},
    HelpPage{"keep", "have objects never evicted", R"(refract object keep: have objects never evicted

Usage: refract object keep [options] ID...

Exit code 1 if there is no such object.

Options
      --off            They may be evicted again.
      --hex            ID is given as hexadecimal digits.
      --json           An object a line: id, is_kept.

Examples
  $ refract object keep weights
  $ refract object keep --off weights
)"},
    HelpPage{"evict", "give memory back", R"(refract object evict: give memory back

Usage: refract object evict [options] BYTES

Removes objects that no reader holds and that are not kept, the least recently used
first, until so many bytes were given back, or no more can go. Says how many.

Options
      --json           A JSON object: bytes.

Examples
  $ refract object evict 64MiB
)"},
    HelpPage{"wait", "wait until objects are there", R"(refract object wait: wait until objects are there

Usage: refract object wait [options] ID...

Exit code 1 if one of them did not come in time.

Options
      --for DURATION   How long: 30s, forever. Default forever.
      --hex            ID is given as hexadecimal digits.
      --json           An object a line: id, is_there.

Examples
  $ refract object wait weights --for 1min && refract object get weights -o model.bin
)"},
    HelpPage{"subscribe", "follow what happens to objects",
             R"(refract object subscribe: follow what happens to objects

Usage: refract object subscribe [options]

A line for each object that is there, then one for each seal and each removal, in their
order: there, sealed or removed, the lengths, and the id. "missed" says that some were
lost, and that what is there follows again.

Options
      --for DURATION   End after so long without a line. Default forever.
      --limit N        End after N lines.
      --hex            Ids as hexadecimal digits.
      --json           An object a line.

Examples
  $ refract object subscribe
  $ refract object subscribe --json --limit 10
)"},
    HelpPage{"digest", "checksums of objects", R"(refract object digest: checksums of objects

Usage: refract object digest [options] ID...

XXH3 of 128 bits, as 32 hexadecimal digits and the id: of an object without metadata
what xxhsum -H2 prints of the same bytes. Metadata change it. Exit code 1 if there is
no such object.

Options
      --hex            ID is given as hexadecimal digits.
      --json           An object a line: id, digest.

Examples
  $ refract object digest weights
)"},
    HelpPage{"where", "which nodes have an object", R"(refract object where: which nodes have an object

Usage: refract object where [options] ID...

The id and the names of the nodes that have it, of a node that shares its objects with
others (refractd --cluster-nodes, --cluster-secret-file). Those that get a copy just now
are the last. "1 of 2 copies": two are to be kept, and one is, on a node that can be
reached. Exit code 1 if no node has it.

Options
      --hex            ID is given as hexadecimal digits.
      --json           An object a line: id, birth, lengths, nodes, copies.

Examples
  $ refract object where weights
)"},
    HelpPage{"copies", "keep copies on several nodes",
             R"(refract object copies: keep copies of objects on several nodes

Usage: refract object copies --set N [options] ID...

From now on N nodes keep a copy: they never evict it, and one that has been away for a
minute is replaced by another one. Says how many there are. Exit code 1 if there are
fewer so far: nodes are away, or have no room.

Options
      --set N          0 to 16. 0: copies go when room is needed, all of them.
      --wait DURATION  Wait for the copies so long: 30s, no. Default 5s.
      --hex            ID is given as hexadecimal digits.
      --json           An object a line: id, birth, copies_wanted, copies.

Examples
  $ refract object copies --set 2 weights
)"},
    HelpPage{"prefetch", "bring copies here", R"(refract object prefetch: bring copies of objects to this node

Usage: refract object prefetch [options] ID...

Of a node that shares its objects with others: what another node has is copied here,
so that programs of this host find it at once. A copy that is not held and not kept
goes when room is needed. Exit code 1 if some object is nowhere.

Options
      --wait DURATION  Wait so long for objects that are not made yet: 30s, forever.
                       Default: not at all.
      --transfer WAY   How the bytes come: send (in messages), read (by READs of the
                       network), or auto, which takes what was quicker. Default auto.
      --check          Compare the copy with the other node's bytes, by digests.
      --hex            ID is given as hexadecimal digits.

Examples
  $ refract object prefetch weights tokenizer
)"},
    HelpPage{"broadcast", "bring copies to many nodes",
             R"(refract object broadcast: bring copies of one object to many nodes

Usage: refract object broadcast [options] ID [NODE...]

Of a node that shares its objects: each of these nodes, or all nodes where none is
named, gets a copy, at the same time. Each passes on what has come to it, so many have
it in about the time of one. A line a node says whether it has it, or why not. Copies
go when room is needed, as those of refract object prefetch. Exit code 1 if some node
did not get it, or no node has it.

Options
      --for DURATION   Wait so long: 30s, forever. Default 1min, at most an hour. What
                       is under way then continues.
      --hex            ID is given as hexadecimal digits.
      --json           A node a line: name, code.

Examples
  $ refract object broadcast weights
  $ refract object broadcast weights b c
)"},
    HelpPage{"paths", "what the node knows of its ways to others",
             R"(refract object paths: what the node knows of its ways to others

Usage: refract object paths [options]

Of a node that shares its objects: for each other node the round trip, the rate, from
which size on READs bring an object sooner than messages, and how long objects of each
size took by both ways, as pulls have taught. Nothing is measured for this.

Options
      --json           An object a line: node, round trip, rate, curve.

Examples
  $ refract object paths
)"},
    HelpPage{"rank", "which node could have objects soonest",
             R"(refract object rank: which node could have objects soonest

Usage: refract object rank [options] ID...

Of a node that shares its objects: for each node, the quickest first, how many of these
objects it lacks, how many bytes these are, and about how long it would take to get
them: where a program that reads them should run. Each node estimates by the paths that
its pulls have measured (refract object paths). With ~ before it a time is a guess,
since some path was not used yet. Nodes of which nothing is known are the last, with
the reason. Nothing is brought anywhere. Exit code 1 if some object is nowhere.

Options
      --for DURATION   Wait so long for what nodes say: 200ms, 5s. Default 1s.
      --hex            ID is given as hexadecimal digits.
      --json           A node a line: name, code, missing objects and bytes, time.

Examples
  $ refract object rank weights tokenizer
)"},
};

constexpr std::string_view kNodeOptions = R"(
Options of every command
  --socket PATH        The node's socket. Default: $REFRACT_SOCKET_PATH, else where
                       refractd listens by default.
  --address ADDRESS    Instead: an address as refract get --help has them.
  --secret-file FILE   The node's secret, where it wants one.
  --rdma-device NAME   This host's device for nodes elsewhere: its name, auto or none.
  --timeout DURATION   How long one message may take: 500ms, 5s, 1min. Default 5s.
  -h, --help           This page.

Exit codes
  0  done               1  no such object, there is one already, it did not come
  2  wrong command line 3  no node, no server or no answer in time     4  all else
)";

}  // namespace

std::span<const HelpPage> object_pages() noexcept {
  return kPages;
}

std::string object_overview() {
  std::string text =
      "refract object: large data that is made once and read by many, without a copy\n"
      "\n"
      "Usage: refract object COMMAND [options] [arguments]\n"
      "\n"
      "The node has room for objects where it was started with --objects-limit.\n"
      "\n"
      "Commands\n";
  for (const HelpPage& page : kPages) text += fmt::format("  {:<10} {}\n", page.command, page.summary);
  text += R"(
Examples
  $ refract object put weights model.bin
  $ refract object get weights --output copy.bin
)";
  return text.append(kNodeOptions);
}

std::string help_of_object(std::string_view action) {
  for (const HelpPage& page : kPages) {
    if (page.command == action) return std::string(page.text).append(kNodeOptions);
  }
  return {};
}

}  // namespace refract::cli
