// An issuer on loopback: node server.mjs PORT. The client `shop` with the secret `secret` gets access tokens by client_credentials. With a
// `resource` they are JWTs for that audience, and without one they are opaque, which is this library's default.
import { generateKeyPairSync } from "node:crypto";
import Provider from "oidc-provider";

const port = Number(process.argv[2]);
const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
const scope = "events:write";

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" }] },
  clients: [
    { client_id: "shop", client_secret: "secret", grant_types: ["client_credentials"], redirect_uris: [], response_types: [] },
  ],
  scopes: [scope],
  extraTokenClaims: () => ({ tenant: "acme" }),
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({ scope, audience: resource, accessTokenFormat: "jwt" }),
    },
  },
});
provider.listen(port, "127.0.0.1");
