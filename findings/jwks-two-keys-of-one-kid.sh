#!/usr/bin/env bash
# PyJWT 2.15.1 and jwks-rsa 4.1.0 (npm): an issuer whose RSA key and EC key have the same "kid".
#
# Expected: tokens of both keys verify. RFC 7517 4.5 asks for different "kid" values within a set, and names what is allowed: keys of
# different "kty" which are equivalent alternatives for their users may share one. "alg" of the token says which of the two it is.
# Seen: both libraries take the first key of this "kid", whatever its type, and refuse the tokens of the other one: PyJWKClient with
# InvalidAlgorithmError, jwks-rsa with a key that jsonwebtoken 9.0.3 calls an invalid algorithm. jose 6.2.18 accepts both.
#
# So an issuer that moves from RS256 to ES256 under one "kid" shuts out the services with these libraries, half of its tokens at a time, and
# the order of the set decides which half. An issuer should not rely on 4.5.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund jwks-rsa@4.1.0 jsonwebtoken@9.0.3 jose@6.2.18
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check PyJWT==2.15.1 cryptography==50.0.2
cat > verify.py <<'PY'
import sys
import jwt

_, url, token = sys.argv
try:
    key = jwt.PyJWKClient(url).get_signing_key_from_jwt(token)
    jwt.decode(token, key, algorithms=["RS256", "ES256"])
    print("accepted")
except jwt.PyJWTError as error:
    print(f"{type(error).__name__}: {error}")
PY
cat > try.mjs <<'JS'
import { execFile } from 'node:child_process'
import http from 'node:http'
import { promisify } from 'node:util'
import { createRemoteJWKSet, exportJWK, generateKeyPair, jwtVerify, SignJWT } from 'jose'
import jsonwebtoken from 'jsonwebtoken'
import jwksRsa from 'jwks-rsa'

const keys = []
const server = http.createServer((_, response) => response.end(JSON.stringify({ keys })))
await new Promise((ready) => server.listen(0, '127.0.0.1', ready))
const url = `http://127.0.0.1:${server.address().port}/`
const tokens = {}
for (const alg of ['RS256', 'ES256']) {
  const { privateKey, publicKey } = await generateKeyPair(alg)
  keys.push({ ...(await exportJWK(publicKey)), alg, kid: '2026', use: 'sig' })
  tokens[alg] = await new SignJWT({ sub: 'ann' }).setProtectedHeader({ alg, kid: '2026' }).setExpirationTime('5m').sign(privateKey)
}

const libraries = {
  PyJWT: async (token) => (await promisify(execFile)('venv/bin/python', ['verify.py', url, token])).stdout.trim(),
  'jwks-rsa': async (token) => {
    const key = await jwksRsa({ jwksUri: url }).getSigningKey('2026')
    return jsonwebtoken.verify(token, key.getPublicKey()) && 'accepted'
  },
  jose: async (token) => (await jwtVerify(token, createRemoteJWKSet(new URL(url)))) && 'accepted',
}
const seen = []
for (const order of ['RSA first', 'EC first']) {
  for (const [library, verify] of Object.entries(libraries)) {
    for (const [alg, token] of Object.entries(tokens)) {
      const answer = await verify(token).catch((error) => `${error.name}: ${error.message}`)
      console.log(`${order}, ${library}, ${alg}: ${answer}`)
      if (answer !== 'accepted') seen.push(`${order}, ${library}, ${alg}`)
    }
  }
  keys.reverse()
}
server.close()
const known = ['RSA first, PyJWT, ES256', 'RSA first, jwks-rsa, ES256', 'EC first, PyJWT, RS256', 'EC first, jwks-rsa, RS256']
process.exit(seen.join() === known.join() ? 0 : 1)
JS
node try.mjs
