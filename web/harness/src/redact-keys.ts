/** Which names say that their value is a secret. */

export const KEY_CHARS_MAX = 128; // a longer key is hardly a name; a secret's word in it is enough

/**
 * Say whether a value under this key is a secret, however the key is spelt.
 *
 * `apiKey`, `X-Api-Key`, `OPENAI_API_KEY`, `apikey` and `api_key_v2` are one name. What ends in a plural or
 * a measure (`tokens`, `inputTokens`, `tokenCount`, `passwordLength`) is not a secret. A key longer than
 * `KEY_CHARS_MAX` is one if a secret's word is anywhere in it.
 */
export function isSecretKey(key: string): boolean {
  if (key.includes("[redacted")) return false; // a masked key names nothing any more
  const whole = key.toLowerCase().replace(/[^a-z0-9]/g, "");
  if (Array.from(key).length > KEY_CHARS_MAX) return LONG_KEY.test(whole);
  const name = whole.replace(TAIL, "");
  if (WHOLE.has(name) || CONNECTION.test(whole)) return true;
  return SECRET.some((end) => name.endsWith(end)) && !INNOCENT.some((end) => name.endsWith(end));
}

const TAIL =
  /(?:value|raw|plain|plaintext|b64|base64|hex|pem|header|hash|old|new|current|confirm|confirmation|prod|production|staging|dev|live|string|v?[0-9]{1,9}){0,3}$/;
const LONG_KEY =
  /passw|passphrase|passcode|secret|credential|authorization|apikey|accesskey|privatekey|connectionstring|token(?!s|count|i[sz]|type|limit|usage|budget)/;

// These must be the whole name: other words, and addresses in Palau, end so too.
const WHOLE: ReadonlySet<string> = new Set(["pw", "auth"]);
// They hold a password among other things.
const CONNECTION = /conn(?:ection)?str(?:ings?)?(?:value|prod|production|staging|dev|live|v?[0-9]{1,9})?$/;

const SECRET: readonly string[] = `
  password passwords passwd passphrase passcode secret secrets credential credentials
  token authorization cookie cookies jwt bearer otp
  basicauth httpauth proxyauth registryauth xauth
  apikey apikeys accesskey accesskeys privatekey privatekeys secretkey secretkeys
  signingkey encryptionkey masterkey authkey sshkey accountkey servicekey sharedkey
  deploykey subscriptionkey hmackey consumerkey storagekey
  accesstokens authtokens apitokens bearertokens refreshtokens sessiontokens
  dbpass userpass smtppass mailpass adminpass rootpass redispass proxypass
  dbpwd userpwd mysqlpwd adminpwd rootpwd
  dbpw userpw mysqlpw adminpw rootpw
`
  .trim()
  .split(/\s+/);

const INNOCENT: readonly string[] = `
  pagetoken pertoken firsttoken lasttoken nexttoken stoptoken endtoken starttoken
  eostoken bostoken padtoken unktoken clstoken septoken masktoken maxtoken
  inputtoken outputtoken prompttoken completiontoken canceltoken cancellationtoken
`
  .trim()
  .split(/\s+/);
