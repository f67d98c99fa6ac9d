/** Clients of the server and of the sidecar, for browsers and node. */
export {
  ApiError,
  backoffMs,
  ConnectionError,
  DEFAULT_BACKOFF,
  newId,
  ProtocolError,
  systemClock,
  type ApiErrorKind,
  type Backoff,
  type Chance,
  type Clock,
} from "./connection.js";
export {
  FEED_GAPS_MAX,
  FEED_IDLE_MS,
  readFeed,
  type FeedItem,
  type FeedOptions,
  type FeedSource,
  type FeedState,
} from "./feed.js";
export { Client, type AllEventsOptions } from "./http.js";
export type { ClientOptions, RequestOptions } from "./requests.js";
export * from "../generated/operations.js";
export * from "./bodies.js";
export {
  childDuplex,
  portDuplex,
  RpcClosed,
  RpcError,
  RpcPeer,
  type CallOptions,
  type ChildStreams,
  type Duplex,
  type DuplexListener,
  type MessagePortLike,
  type PeerOptions,
  type RpcHandler,
  type RpcListener,
} from "./rpc.js";
export {
  Queue,
  SidecarClient,
  SidecarDescription,
  streamNumbers,
  type ChatRequest,
  type ChatStream,
  type HostTool,
  type HostToolHandler,
  type NewAgentSession,
  type SidecarMessage,
  type SidecarOptions,
  type StreamNotice,
} from "./sidecar.js";
export { StreamChunk, StreamDone, StreamError } from "../generated/index.js";
