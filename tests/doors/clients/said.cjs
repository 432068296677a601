// SPDX-License-Identifier: Apache-2.0
// What a client says of each step, one line each: the same of any server that speaks Redis's protocol.
"use strict";

function text(value) {
  if (Buffer.isBuffer(value)) return `<${value.toString("hex").slice(0, 80)} ${value.length}>`;
  if (typeof value === "string" && value.length > 80) return `${value.slice(0, 20)}... ${value.length}`;
  return JSON.stringify(value);
}

exports.say = async function say(what, promise) {
  let said;
  try {
    said = text(await promise);
  } catch (error) {
    said = `error: ${error.message}`;
  }
  console.log(`${what}: ${said}`);
};

// A time to live between two of them, which no two servers tell alike.
exports.within = (low, high) => (value) => value > low && value <= high;
