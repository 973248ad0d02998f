// An OpenID provider (the package `oidc-provider`) that logs everybody in as `ada` without asking.
//
// It says `port N`. What a test may ask of it, beside the protocol:
// GET /test/site/HOST:PORT   the site whose users log in; to be told first
// GET /test/rotate   signs with a new key from now on; the old one stays in its set
// GET /test/down and /test/up   answers 503 to everything, or works again
// Environment: SKEW (seconds its clock is ahead), TTL (seconds that access tokens last).
import { createServer } from 'node:http';
import { generateKeyPairSync } from 'node:crypto';
import { Provider } from 'oidc-provider';

const ahead = 1000 * Number(process.env.SKEW ?? 0);
const now = Date.now;
Date.now = () => now() + ahead;

const keys = [];
function newKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  keys.unshift({ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: `key-${keys.length + 1}` });
}

let site = 'http://127.0.0.1:1';
let isDown = false;
let refreshes = 0;
let handle;

function newProvider(issuer) {
  const provider = new Provider(issuer, {
    clients: [{
      client_id: 'shop',
      client_secret: 'a secret of the shop + %',
      redirect_uris: [`${site}/.auth/callback`],
      post_logout_redirect_uris: [`${site}/`],
      grant_types: ['authorization_code', 'refresh_token'],
    }],
    jwks: { keys: [...keys] },
    cookies: { keys: ['of a test'] },
    claims: { openid: ['sub'], email: ['email'], profile: ['name'] },
    conformIdTokenClaims: false,
    findAccount: (context, id) => ({ accountId: id, claims: () => ({ sub: id, email: 'ada@example.test', name: 'Ada' }) }),
    pkce: { required: () => true },
    ttl: { AccessToken: Number(process.env.TTL ?? 3600), IdToken: 3600, Session: 3600, Grant: 3600, Interaction: 600, RefreshToken: 3600 },
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
    features: { devInteractions: { enabled: false } },
    interactions: { url: (context, interaction) => `/interaction/${interaction.uid}` },
  });
  provider.on('grant.success', (context) => { refreshes += context.oidc.params.grant_type === 'refresh_token' ? 1 : 0; });
  provider.on('server_error', (context, error) => console.error(error));
  provider.on('grant.error', (context, error) => console.error(error));
  handle = provider.callback();
  return provider;
}

let provider;
const server = createServer(async (request, response) => {
  if (request.url.startsWith('/test/site/')) { site = `http://${request.url.slice(11)}`; provider = newProvider(provider.issuer); return response.end('known'); }
  if (request.url === '/test/rotate') { newKey(); provider = newProvider(provider.issuer); return response.end('rotated'); }
  if (request.url === '/test/down') { isDown = true; return response.end('down'); }
  if (request.url === '/test/up') { isDown = false; return response.end('up'); }
  if (request.url === '/test/refreshes') { return response.end(String(refreshes)); }
  if (isDown) { response.statusCode = 503; return response.end('down'); }
  if (!request.url.startsWith('/interaction/')) { return handle(request, response); }
  try {
    const { prompt, params } = await provider.interactionDetails(request, response);
    if (prompt.name === 'login') { return await provider.interactionFinished(request, response, { login: { accountId: 'ada' } }); }
    const grant = new provider.Grant({ accountId: 'ada', clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    const grantId = await grant.save();
    await provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true });
  } catch (error) { console.error(error); response.statusCode = 500; response.end(); }
});
server.listen(0, '127.0.0.1', () => {
  newKey();
  provider = newProvider(`http://127.0.0.1:${server.address().port}`);
  console.error(`port ${server.address().port}`);
});
