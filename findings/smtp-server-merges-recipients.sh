#!/usr/bin/env bash
# smtp-server 3.21.6 (npm, by the author of nodemailer): recipients that differ by case only, and one recipient twice.
#
# Expected: two recipients for RCPT TO:<ann@...> and RCPT TO:<Ann@...>, both accepted: RFC 5321 2.4 has local parts case sensitive and asks
# every server to preserve them. As an LMTP server, three replies after the dot for three accepted RCPT: RFC 2033 4.2 wants one reply for
# each of them, even if several had the same forward-path.
# Seen: onData gets one recipient, in the spelling that came last. LMTP: three RCPT are accepted, one of them twice, and two replies come
# after the dot.
#
# So a test that counts by such a server misses a mail where two people had one each in the same transaction, and an LMTP client that
# lists somebody twice waits for a reply that never comes. Send one transaction for each recipient.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund smtp-server@3.21.6
cat > try.mjs <<'JS'
import { createRequire } from 'node:module'
import net from 'node:net'
import { SMTPServer } from 'smtp-server'

/** The recipients that onData got, and the replies after 354, of one transaction. */
async function transaction(lmtp, ...recipients) {
  let envelope
  const onData = (stream, session, callback) => {
    envelope = session.envelope.rcptTo.map(({ address }) => address)
    stream.on('end', () => callback(null, 'Ok')).resume()
  }
  const server = new SMTPServer({ lmtp, onData, authOptional: true, disabledCommands: ['AUTH', 'STARTTLS'], logger: false })
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
  const client = net.connect(server.server.address().port, '127.0.0.1')
  const commands = [lmtp ? 'LHLO me' : 'EHLO me', 'MAIL FROM:<sender@news.example>', ...recipients.map((to) => `RCPT TO:<${to}>`)]
  commands.push('DATA', 'Subject: digest', '', 'Hello', '.', 'QUIT', '')
  let replies = ''
  client.once('data', () => client.write(commands.join('\r\n')))
  client.on('data', (data) => { replies += data })
  await new Promise((closed) => client.on('close', closed))
  await new Promise((closed) => server.close(closed))
  const [before, after] = replies.split('354 ')
  return { accepted: before.match(/^250 Accepted/gm).length - 1, got: envelope, replies: after.match(/^250 /gm).length }
}

const version = createRequire(import.meta.url)('smtp-server/package.json').version
const seen = {
  version,
  smtp: await transaction(false, 'ann@next.example', 'Ann@next.example'),
  lmtp: await transaction(true, 'ann@next.example', 'bob@next.example', 'ann@next.example'),
}
console.log(seen)
const known = {
  version: '3.21.6',
  smtp: { accepted: 2, got: ['Ann@next.example'], replies: 1 },
  lmtp: { accepted: 3, got: ['ann@next.example', 'bob@next.example'], replies: 2 },
}
process.exit(JSON.stringify(seen) === JSON.stringify(known) ? 0 : 1)
JS
node try.mjs
