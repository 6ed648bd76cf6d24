#!/usr/bin/env bash
# mailparser 3.14.2 (npm): `references` of a message whose References has one id.
#
# Expected: an array of one id, as two ids are an array of two: the header is a list (RFC 5322 3.6.4, 1*msg-id).
# Seen: a string. Both have `length`, `includes`, `slice` and `at`, so that code written for an array runs without an error: the first
# reference is "<", and there are as many references as the id has characters.
#
# So a test of the first answer in a thread, which has one reference, and a search for the thread of a message by references[0] find
# nothing, and both work from the second answer on. Write [].concat(references ?? []).
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund mailparser@3.14.2
cat > try.mjs <<'JS'
import { simpleParser } from 'mailparser'

for (const ids of [['<down@a.example>'], ['<down@a.example>', '<still@a.example>']]) {
    const { references } = await simpleParser(`From: a@a.example\r\nReferences: ${ids.join(' ')}\r\n\r\nup again\r\n`)
    console.log(ids.length, JSON.stringify(references), references[0], references.length, references.includes(ids[0]))
}
JS
seen=$(node try.mjs)
echo "$seen"
[ "$seen" = '1 "<down@a.example>" < 16 true
2 ["<down@a.example>","<still@a.example>"] <down@a.example> 2 true' ]
