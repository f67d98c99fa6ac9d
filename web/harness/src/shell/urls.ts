/** Addresses: which ones are public, in every spelling a resolver accepts. */
import { CAPTURE_HOSTS, LOCAL_HOSTS, LOCAL_NETWORKS } from "../generated/shell-tables.js";
import { matchesAny } from "./paths.js";
import { partition, splitWords, strip } from "./text.js";

/** An address range: its first address, and how many leading bits belong to it. */
type Network = readonly [bigint, bigint];

const URL = /^(?:([A-Za-z][A-Za-z0-9+.-]*):\/{0,3})?([^/?#]*)/;
const NUMBER = /^(?:0[xX][0-9a-fA-F]*|[0-9]+)$/;
const PUBLIC_SCHEMES = ["", "http", "https", "ftp", "ftps", "git", "ssh"];
const PARTS_MAX = 4;
const IPV4_BITS = 0xffffffffn;
const IPV4_LENGTH = 32n;
const IPV6_LENGTH = 128n;
const HEXTETS = 8;
const HEXTET = /^[0-9a-fA-F]{1,4}$/;
const OCTET = /^(?:0|[1-9][0-9]{0,2})$/;
const OCTET_MAX = 255;
const NAT64 = "64:ff9b::/96";
/** What Python's `ipaddress` takes for private, and multicast. */
const LOCAL_NETWORKS_IPV6 = [
  "::1/128",
  "::/128",
  "::ffff:0:0/96",
  "100::/64",
  "2001::/23",
  "2001:db8::/32",
  "fc00::/7",
  "fe80::/10",
  "ff00::/8",
];

const localNetworks = splitWords(LOCAL_NETWORKS).map((text) => network(text, readIpv4));
const localNetworksIpv6 = LOCAL_NETWORKS_IPV6.map((text) => network(text, readIpv6));
const nat64 = network(NAT64, readIpv6);

/** Say whether a URL has a public scheme and does not name a local host. */
export function isPublicUrl(url: string): boolean {
  const found = URL.exec(strip(url));
  if (found === null || !PUBLIC_SCHEMES.includes((found[1] ?? "").toLowerCase())) return false;
  return isPublicHost(hostOf(found[2] ?? ""));
}

function hostOf(authority: string): string {
  const host = authority.slice(authority.lastIndexOf("@") + 1).normalize("NFKC");
  if (host.startsWith("[")) return partition(host.slice(1), "]")[0];
  return host.split(":").length <= 2 ? partition(host, ":")[0] : host;
}

/** Say whether a host is not this machine, a private network or a metadata service. */
export function isPublicHost(host: string): boolean {
  let name = host.normalize("NFKC").toLowerCase();
  while (name.endsWith(".")) name = name.slice(0, -1);
  const clean = partition(name, "%")[0];
  if (clean === "" || matchesAny(clean, LOCAL_HOSTS) || matchesAny(clean, CAPTURE_HOSTS)) return false;
  const number = asIpv4(clean);
  if (number !== undefined) return isPublicIpv4(number);
  if (!clean.includes(":")) return clean.includes(".") || clean.includes("\0");
  return isPublicIpv6(clean);
}

/** Read an IPv4 address as inet_aton does: any base, one to four parts. */
function asIpv4(host: string): bigint | undefined {
  const parts = host.split(".");
  if (parts.length > PARTS_MAX || !parts.every((part) => NUMBER.test(part))) return undefined;
  const numbers = parts.map(numberOf);
  const lastBits = BigInt(8 * (5 - parts.length));
  let value = (numbers.at(-1) ?? 0n) & ((1n << lastBits) - 1n);
  numbers.slice(0, -1).forEach((number, position) => {
    value |= (number & 255n) << BigInt(24 - 8 * position);
  });
  return value & IPV4_BITS;
}

function numberOf(text: string): bigint {
  if (/^0[xX]/.test(text)) return BigInt(`0x${text.slice(2) || "0"}`);
  const isOctal = /^0[0-7]*$/.test(text);
  return BigInt(isOctal ? `0o${text.slice(0, 20)}` : text.slice(0, 20));
}

function isPublicIpv4(number: bigint): boolean {
  return !localNetworks.some((local) => isIn(number, local, IPV4_LENGTH));
}

function isPublicIpv6(host: string): boolean {
  const address = readIpv6(host);
  if (address === undefined) return false;
  const inner = innerIpv4(address);
  if (inner !== undefined) return isPublicIpv4(inner);
  return !localNetworksIpv6.some((local) => isIn(address, local, IPV6_LENGTH));
}

/** The IPv4 address that an IPv6 address stands for, if it does: mapped, 6to4, NAT64, compatible. */
function innerIpv4(address: bigint): bigint | undefined {
  if (address >> 32n === 0xffffn) return address & IPV4_BITS;
  if (address >> 112n === 0x2002n) return (address >> 80n) & IPV4_BITS;
  if (isIn(address, nat64, IPV6_LENGTH) || address <= IPV4_BITS) return address & IPV4_BITS;
  return undefined;
}

function isIn(address: bigint, [first, bits]: Network, length: bigint): boolean {
  return (address ^ first) >> (length - bits) === 0n;
}

function network(text: string, read: (text: string) => bigint | undefined): Network {
  const [first, , bits] = partition(text, "/");
  return [read(first) ?? 0n, BigInt(bits)];
}

function readIpv4(text: string): bigint | undefined {
  const octets = text.split(".");
  if (octets.length !== PARTS_MAX) return undefined;
  if (!octets.every((octet) => OCTET.test(octet) && Number(octet) <= OCTET_MAX)) return undefined;
  return octets.reduce((value, octet) => (value << 8n) | BigInt(octet), 0n);
}

/** Read an IPv6 address; one `::` stands for the zeros that are left out. */
function readIpv6(text: string): bigint | undefined {
  const parts = withHextets(text);
  const halves = parts?.split("::");
  if (halves === undefined || halves.length > 2) return undefined;
  const [high = [], low = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const left = HEXTETS - high.length - low.length;
  if (halves.length === 2 ? left < 1 : left !== 0) return undefined;
  const hextets = [...high, ...Array.from({ length: left }, () => "0"), ...low];
  if (!hextets.every((hextet) => HEXTET.test(hextet))) return undefined;
  return hextets.reduce((value, hextet) => (value << 16n) | BigInt(`0x${hextet}`), 0n);
}

/** Write the IPv4 address that may end an IPv6 address as two more parts of it. */
function withHextets(text: string): string | undefined {
  const start = text.lastIndexOf(":") + 1;
  if (!text.slice(start).includes(".")) return text;
  const value = readIpv4(text.slice(start));
  if (value === undefined) return undefined;
  return `${text.slice(0, start)}${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`;
}
