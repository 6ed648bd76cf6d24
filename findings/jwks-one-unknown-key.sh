#!/usr/bin/env bash
# jwx 3.4.0 (Go) and python-jose 3.5.0: an issuer's key set with one key of another type beside the one that signed.
#
# Expected: a token that names the RSA key by its "kid" verifies, whatever else the set has. RFC 7517 5: implementations should ignore keys
# whose "kty" they do not understand; 4.5: "kid" picks the key within a set.
# Seen: jwx refuses the whole set if one key has the type AKP, that of ML-DSA keys (RFC 9964 3). python-jose leaves "kid" aside, tries the
# keys in their order and fails at the first of another type, so that an AKP key or an ordinary EC key before the RSA key is enough.
#
# So on the day on which an issuer adds a key of a new kind all its tokens are refused, also those of the old key. A verifier has to skip
# such keys: in jwx by WithIgnoreParseError, for python-jose before it gets the set.
# Ends with 0 while this is so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// Verifies the token of the first argument with the set of the standard input.
func main() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		var set jwk.Set
		if set, err = jwk.Parse(text); err == nil {
			_, err = jwt.Parse([]byte(os.Args[1]), jwt.WithKeySet(set))
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
GO
go mod init verify 2> /dev/null
go get github.com/lestrrat-go/jwx/v3/jwk@v3.4.0 github.com/lestrrat-go/jwx/v3/jwt@v3.4.0 2> /dev/null
go build -o verify .
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check python-jose==3.5.0 cryptography==50.0.2
venv/bin/python - <<'PY'
import base64, importlib.metadata, json, subprocess, sys, time
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from jose import jwk, jwt


def pair(key, algorithm):
    """The private key as PEM, and the public one as a member of a set."""
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return pem, jwk.construct(pem, algorithm).public_key().to_dict() | {"kid": algorithm, "use": "sig"}


private, signing = pair(rsa.generate_private_key(65537, 2048), "RS256")
elliptic = pair(ec.generate_private_key(ec.SECP256R1()), "ES256")[1]
ml_dsa = {"kty": "AKP", "alg": "ML-DSA-44", "kid": "ML-DSA-44", "use": "sig", "pub": base64.urlsafe_b64encode(bytes(1312)).decode().rstrip("=")}
token = jwt.encode({"sub": "ann", "exp": int(time.time()) + 300}, private, "RS256", headers={"kid": "RS256"})


def verified(keys):
    """The answers of jwx and of python-jose."""
    go = subprocess.run(["./verify", token], input=json.dumps({"keys": keys}), text=True, capture_output=True)
    try:
        python = "accepted" if jwt.decode(token, {"keys": keys}, ["RS256", "ES256"]) else "no claims"
    except Exception as error:
        python = f"refused: {error}"
    return "accepted" if go.returncode == 0 else f"refused: {go.stdout.strip()}", python


seen = {name: verified(keys) for name, keys in {
    "RSA": [signing], "RSA, EC": [signing, elliptic], "EC, RSA": [elliptic, signing], "AKP, RSA": [ml_dsa, signing], "RSA, AKP": [signing, ml_dsa]}.items()}
versions = importlib.metadata.version("python-jose"), open("go.mod").read().split("jwx/v3 ")[1].split()[0]
print("python-jose {}, jwx {}".format(*versions), *(f"{name}\n  jwx: {go}\n  python-jose: {python}" for name, (go, python) in seen.items()), sep="\n")
accepted = {name: tuple(answer == "accepted" for answer in answers) for name, answers in seen.items()}
sys.exit((*versions, accepted) != ("3.5.0", "v3.4.0", {
    "RSA": (True, True), "RSA, EC": (True, True), "EC, RSA": (True, False), "AKP, RSA": (False, False), "RSA, AKP": (False, True)}))
PY
