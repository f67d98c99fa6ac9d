/** Clients of the server and of the sidecar, for browsers and node. */
export {
  ApiError,
  backoffMs,
  ConnectionError,
  DEFAULT_BACKOFF,
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
export {
  Client,
  type AgentEventsOptions,
  type ClientOptions,
  type PageQuery,
  type DecisionQuery,
  type RefusedQuery,
  type ExperimentQuery,
  type DeliveryQuery,
  type RequestOptions,
  type RunQuery,
  type SafePointQuery,
  type SessionQuery,
  type StatsQuery,
  type TimeQuery,
} from "./http.js";
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
