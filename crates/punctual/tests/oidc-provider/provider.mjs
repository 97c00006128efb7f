// A real provider of OpenID Connect at a port of its own, for the tests of logins.
//
// Says its issuer on stdout. Then each line of stdin is JSON that changes it, answered with a line:
//   {"redirect_uris": [...]}       where clients may send browsers back to
//   {"groups": {"ana": ["ops"]}}   the people there are, and their groups
//   {"rotate": "ES256"}            a new key, of this algorithm; the old one is withdrawn
// It ends with stdin.
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import Provider from 'oidc-provider';

// Its notices go to stdout by default, where the test reads answers.
console.info = console.warn = console.error;

const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';
const state = { redirect_uris: ['http://127.0.0.1/unset'], groups: {}, alg: 'RS256', key: newKey('RS256') };
let issuer;
let handle;

function newKey(alg) {
  const pair = alg === 'RS256'
    ? generateKeyPairSync('rsa', { modulusLength: 2048 })
    : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { ...pair.privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg };
}

function rebuild() {
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'punctual',
      client_secret: 'a secret of the client: 100% & more',
      redirect_uris: state.redirect_uris,
      grant_types: ['authorization_code', DEVICE],
      response_types: ['code'],
      id_token_signed_response_alg: state.alg,
    }],
    jwks: { keys: [state.key] },
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256'] },
    cookies: { keys: ['only for tests'] },
    claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
    features: { deviceFlow: { enabled: true }, devInteractions: { enabled: true } },
    pkce: { required: () => true },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: `${id}@example.com`, groups: state.groups[id] ?? [] }),
    }),
  });
  handle = provider.callback();
}

const server = createServer((request, response) => handle(request, response));
server.listen(0, '127.0.0.1', () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  rebuild();
  console.log(JSON.stringify({ issuer }));
});

const lines = createInterface({ input: process.stdin });
lines.on('line', (line) => {
  const { rotate, ...change } = JSON.parse(line);
  Object.assign(state, change);
  if (rotate) {
    Object.assign(state, { alg: rotate, key: newKey(rotate) });
  }
  if (rotate || change.redirect_uris) {
    rebuild();
  }
  console.log('{}');
});
lines.on('close', () => process.exit(0));
