#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed package is complete: what `make install` puts below a prefix builds the examples, found by
# CMake and by pkg-config, and they talk to a node started from there. Its library has the client's side
# alone, and shows programs no more than the public headers promise.
#
#   install_test.sh CMAKE SOURCE BUILD COMPILER [FLAG ...]    the flags are those of a sanitized build
set -euo pipefail

readonly cmake=$1 source=$2 build=$3 compiler=$4
shift 4
readonly flags="$*"

work=$(mktemp -d /tmp/refract-install-XXXXXX)
node=
end() {
  if [[ -n $node ]]; then
    kill "$node" || true
    wait "$node" || true
  fi
  rm -rf "$work"
}
trap end EXIT

readonly prefix=$work/prefix socket=$work/node.sock
"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log"

# Moved: neither file may know where it was installed to.
mv "$prefix" "$work/moved"
readonly moved=$work/moved
library_folder=$(dirname "$(find "$moved" -name librefract.so)")

# Only what is marked REFRACT_API or REFRACT_C_API, each of a public class or function.
classes='(Async|Verifying|)Client|(Async|)Transaction|Batch|Reader|View|Reservation|Operating|OperationCall'
classes=$classes'|(New|)Object|Objects|Subscription'
readonly classes=$classes'|runtime::(Shard|OpTable|Pending|FramePool)'
readonly functions='with_checksum|verify|info|system_clock|check_failed'
nm -DC --defined-only "$library_folder/librefract.so" | cut -d' ' -f3- >"$work/exported"
grep -q '^refract::Client::connect(' "$work/exported" || { echo "the library exports no client"; exit 1; }
readonly of_c='refract_(objects?|new_object|subscription)_[a-z_]+|refract_code_text'
if grep -Ev "^(refract::(($classes)::|($functions)[[(])|($of_c)$)" "$work/exported"; then
  echo "the library exports the above, which are not public"
  exit 1
fi
exported=$(wc -l <"$work/exported")
((exported <= 290)) || { echo "the library exports $exported names, 290 are allowed"; exit 1; }
# All that is in it, hidden or not.
nm -C --defined-only "$library_folder/librefract.so" >"$work/inside"
grep -q 'refract::client::Connection::' "$work/inside" || { echo "the library has lost its names"; exit 1; }
server='storage|node|prism::snic|kv::(Table|TableService|RemoteServer)|object::Object(Store|Service)'
readonly server="($server)"
if grep -E " refract::$server::" "$work/inside"; then
  echo "the library has the above, which are of the server"
  exit 1
fi

mkdir "$work/example"
cp "$source"/examples/* "$work/example"
# The example in C: by the same compiler, and where the library is sanitized, with what it needs at run time.
c_compiler=${compiler/clang++/clang}
c_compiler=${c_compiler/g++/gcc}
readonly c_compiler=${c_compiler/%c++/cc}  # "c++" itself.
c_flags=$flags link_flags=
if [[ $flags == *-fsanitize* && $c_compiler == *clang* ]]; then
  c_flags+=" -fsanitize-link-c++-runtime" link_flags="-Wl,--no-as-needed -lstdc++"
fi
"$cmake" -S "$work/example" -B "$work/by-cmake" -DCMAKE_PREFIX_PATH="$moved" \
  -DCMAKE_C_COMPILER="$c_compiler" -DCMAKE_C_FLAGS="$c_flags -Wall -Wextra -Wpedantic -Werror" \
  -DCMAKE_EXE_LINKER_FLAGS="$link_flags" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags -Wall -Wextra -Wpedantic -Werror" \
  >"$work/cmake.log"
"$cmake" --build "$work/by-cmake" >"$work/build.log"

export PKG_CONFIG_PATH=$library_folder/pkgconfig
read -ra package < <(pkg-config --cflags --libs refract)
read -ra sanitizers <<<"$flags"
"$compiler" "${sanitizers[@]}" -Wall -Wextra -Wpedantic -Werror -o "$work/by-pkg-config" \
  "$work/example/hello.cc" "${package[@]}" "-Wl,-rpath,$library_folder"

"$moved/bin/refractd" --config /dev/null --socket-path "$socket" --memory-limit 64MiB \
  --listen-address 127.0.0.1:0 >"$work/node.log" 2>&1 &
node=$!
for ((i = 0; i < 600; ++i)); do
  [[ -S $socket ]] && break
  kill -0 "$node" || { cat "$work/node.log"; exit 1; }
  sleep 0.1
done

for program in "$work/by-cmake/hello" "$work/by-pkg-config"; do
  said=$("$program" "$socket")
  [[ $said == "hello, memory" ]] || { echo "$program said: $said"; exit 1; }
done
[[ $("$moved/bin/refract" --socket "$socket" get greeting) == "hello, memory" ]] ||
  { echo "the installed refract does not find what the example put"; exit 1; }
said=$("$work/by-cmake/bank" "$socket")
grep -qxF "  // Prints: $said" "$source/examples/bank.cc" || { echo "bank said: $said"; exit 1; }
# Over TCP, where a get is a message: all 64 must be under way at once.
for ((i = 0; i < 600; ++i)); do
  tcp=$(awk '$1 == "tcp" { print $2 }' "$work/node.log")
  [[ -n $tcp ]] && break
  sleep 0.1
done
said=$("$work/by-cmake/in_flight" "tcp:$tcp" 20000)
[[ $said == "20000 gets, 0 wrong, up to 64 in flight, "* ]] || { echo "in_flight said: $said"; exit 1; }

# Reads that are compiled into the program: no message but those of the puts.
said=$("$work/by-cmake/short_reads" "$socket" 20000)
[[ $said == "20000 reads, 0 wrong, 10"??" messages" ]] || { echo "short_reads said: $said"; exit 1; }

if "$work/by-pkg-config" "$work/nothing.sock" 2>"$work/refused"; then
  echo "the example claims to have met a node where there is none"
  exit 1
fi
grep -q "$work/nothing.sock" "$work/refused"
