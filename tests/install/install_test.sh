#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The installed package is complete: what `make install` puts below a prefix builds the example, found by
# CMake and by pkg-config, and the example talks to a node started from there.
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

mkdir "$work/example"
cp "$source/examples/hello.cc" "$source/examples/CMakeLists.txt" "$work/example"
"$cmake" -S "$work/example" -B "$work/by-cmake" -DCMAKE_PREFIX_PATH="$moved" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags -Wall -Wextra -Wpedantic -Werror" \
  >"$work/cmake.log"
"$cmake" --build "$work/by-cmake" >"$work/build.log"

export PKG_CONFIG_PATH=$library_folder/pkgconfig
read -ra package < <(pkg-config --cflags --libs refract)
read -ra sanitizers <<<"$flags"
"$compiler" "${sanitizers[@]}" -Wall -Wextra -Wpedantic -Werror -o "$work/by-pkg-config" \
  "$work/example/hello.cc" "${package[@]}" "-Wl,-rpath,$library_folder"

"$moved/bin/refractd" --config /dev/null --socket-path "$socket" --memory-limit 64MiB >"$work/node.log" 2>&1 &
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
if "$work/by-pkg-config" "$work/nothing.sock" 2>"$work/refused"; then
  echo "the example claims to have met a node where there is none"
  exit 1
fi
grep -q "$work/nothing.sock" "$work/refused"
