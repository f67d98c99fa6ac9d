"""Every limit of the runtime, of tools and of agents, with its unit."""

from typing import Final

RECORD_BYTES_MAX: Final = 1_048_576
"""One record in the journal; larger values go to the content store and are referenced."""
BATCH_RECORDS_MAX: Final = 1_024
INBOX_ITEM_BYTES_MAX: Final = RECORD_BYTES_MAX - 8_192
"""Smaller than a record, so that an accepted item fits the records that are written from it."""
INBOX_ITEMS_MAX: Final = 1_000
"""Unconsumed inbox items of one session."""
INBOX_STARTS_MAX: Final = 900
"""Items of one session at which no further run is queued; answers and cancels still have room."""
DRAIN_S: Final = 2.0
"""The default of `drain_s`: how long tool calls under way may take to end when a runtime is closed."""
SERVICE_DRAIN_S: Final = 50.0
"""That of `windlass serve` and `windlass worker`, which others replace while they end."""
DRAIN_S_MAX: Final = 3_600.0
"""The largest `drain_s`."""
SESSIONS_DRIVEN_MAX: Final = 10_000
"""Sessions that a process drives at the same time, the largest `sessions_max`; further ones wait."""
RETENTION_DAYS_MAX: Final = 36_500
"""The largest `retention_days`."""
DOCUMENT_BYTES_MAX: Final = 262_144
"""One document, such as a schedule."""
WRITES_MAX: Final = 100
"""Attempts at one change of a document that other processes change too."""
SCHEDULE_LATE_MS: Final = 60_000
"""A tick of a schedule that starts later than this was missed."""
SCHEDULE_NAME_CHARS_MAX: Final = 128
SPEND_LIMITS_MAX: Final = 100
"""Limits for people and teams of a store; a limit for each owner is one."""
SCHEDULE_TICKS_MAX: Final = 1_000
"""Ticks of one schedule that are queued, or made up for; earlier ones are skipped."""
CONTENT_BYTES_MAX: Final = 64 * 1_048_576
SNAPSHOT_BYTES_MAX: Final = 256 * 1_048_576
WAIT_MS_MAX: Final = 3_155_760_000_000
"""One hundred years: the longest wait of any option."""
OWNER_LEASE_MS: Final = 30_000
"""An owner without a heartbeat for this long is considered dead."""
TOOL_OUTPUT_CHARS_MAX: Final = 100_000
"""Characters of one tool result that the model sees; the rest is in the content store."""
TOOL_TIMEOUT_MS: Final = 120_000
TOOL_RETRIES_MAX: Final = 10
"""Calls of a tool that are made again after a failure that it marks as retryable."""
INLINE_PART_CHARS_MAX: Final = 65_536
"""An image or a file as it is in a record; the bytes of a larger one are in the content store."""
ATTACHMENT_BYTES_MAX: Final = 20 * 1_048_576
"""One image or file of a message."""
ATTACHMENTS_CHARS_MAX: Final = 64 * 1_048_576
"""All images and files of one message, as they came."""
SANDBOX_FILE_BYTES_MAX: Final = 16 * 1_048_576
"""One file that is read from a sandbox, handed over, or attached to a message."""
SANDBOX_KEPT_FILES_MAX: Final = 2_000
"""Files of a session's folder that are kept in the content store."""
SANDBOX_KEPT_BYTES_MAX: Final = 64 * 1_048_576
"""Bytes of these files."""
SANDBOX_STORED_BYTES_MAX: Final = 1_073_741_824
"""Bytes that the folder of a session puts into the content store over all its calls, kept files and files
handed over together."""
SANDBOX_HOSTS_MAX: Final = 64
"""Host names that a sandbox may reach."""
PROGRAM_SOURCE_CHARS_MAX: Final = 65_536
PROGRAM_MEMORY_BYTES_MAX: Final = 67_108_864
"""Memory of one program."""
PROGRAM_TURN_MS_MAX: Final = 2_000
"""CPU time of a program between two waits for calls."""
PROGRAM_TOTAL_MS_MAX: Final = 30_000
"""CPU time of a program in one process, without waits."""
PROGRAM_PRINTED_CHARS_MAX: Final = 20_000
"""Text that a program may print; the rest is dropped."""
PROGRAM_VALUE_CHARS_MAX: Final = 8_388_608
"""Characters of the value of a program as JSON; the model sees as many as of any result."""
PROGRAM_RESULT_VALUES_MAX: Final = 350_000
"""Values of the result of a call of a program; more do not fit into its memory."""
PROGRAM_ARGUMENTS_BYTES_MAX: Final = RECORD_BYTES_MAX - 65_536
"""Arguments of all calls that a program makes before it waits, as JSON: one record holds them."""
PROGRAM_VARIABLES_BYTES_MAX: Final = 4_194_304
"""Variables of programs that live for a session; larger ones are not kept."""
PROGRAM_VARIABLES_MAX: Final = 1_000
"""Names of such variables that the check of the next program knows."""
PROGRAM_REBUILT_MAX: Final = 100
"""Programs that are run again for their variables after the interpreter was replaced."""
PROGRAM_CALLS_AT_ONCE_MAX: Final = 16
"""Calls of programs of one session that run at the same time."""
REASON_CHARS_MAX: Final = 512
"""Characters of the reason of a change of a workflow."""
WORKFLOW_OUTPUT_BYTES_MAX: Final = 90_000
"""Bytes of the JSON that a workflow returns."""
MODEL_TIMEOUT_MS: Final = 600_000
MODEL_IDLE_TIMEOUT_MS: Final = 120_000
"""The longest pause between two chunks of a model's answer."""
MODEL_TEXT_CHARS_MAX: Final = 4_000_000
"""All parts of one answer together."""
MODEL_PART_BYTES_MAX: Final = RECORD_BYTES_MAX - 65_536
"""The text, the reasoning or the calls of one answer, as JSON: each is stored in one record."""
OUTPUT_RECORD_BYTES_MAX: Final = RECORD_BYTES_MAX - 65_536
"""An answer to an output contract and its value, as JSON: the last record of the run holds both."""
TOOLS_PER_AGENT_MAX: Final = 512
HOOKS_PER_AGENT_MAX: Final = 64
HOOK_TIMEOUT_MS: Final = 250
ON_COMPACTION_TIMEOUT_MS: Final = 5_000
"""Timeout of the `on_compaction` function of a tool."""
REMINDER_CHARS_MAX: Final = 8_000
"""One reminder that a tool adds after a summary."""
REMINDERS_PER_TOOL_MAX: Final = 8
HOOK_TIMEOUT_MS_MAX: Final = 30_000
"""Upper limit of a hook's timeout: the run awaits its hooks one after the other."""
HOOK_CONTEXT_TEXTS_MAX: Final = 16
HOOK_CONTEXT_CHARS_MAX: Final = 100_000
"""All texts of one hook together."""
HOOK_WORDS_CHARS_MAX: Final = 4_000
"""Characters of an approval prompt or of the reason of a veto."""
HOOK_STUCK_THREADS_MAX: Final = 4
"""Threads of one hook that still run after their timeout; at this number the hook is not called again."""
EVENT_HOOKS_CLOSE_S: Final = 30.0
"""How long closing a runtime waits for event hooks; events that are left are dropped, and logged."""
EVENT_HOOKS_PENDING_MAX: Final = 1_000
"""Events of one session that wait for event hooks; at this number the run waits."""
RESOLVERS_PER_AGENT_MAX: Final = 32
RESOLVER_TIMEOUT_MS: Final = 10_000
"""Timeout of a function that resolves instructions, tools or skills."""
RESOLVER_TIMEOUT_MS_MAX: Final = 60_000
"""Upper limit of a resolver's timeout: the run awaits its resolvers one after the other."""
POLICY_TIMEOUT_MS: Final = 10_000
"""Timeout of a policy; a policy that times out denies."""
DEPS_TIMEOUT_MS: Final = 30_000
"""How long a factory of dependencies may take."""
SINKS_PER_AGENT_MAX: Final = 32
DELIVERY_TIMEOUT_MS: Final = 60_000
DELIVERY_ATTEMPTS_MAX: Final = 3
DELIVERY_RETRY_DELAY_MS: Final = 1_000
"""Delay before the second attempt; it doubles with each further attempt."""
RECEIPT_BYTES_MAX: Final = 16_384
OUTPUT_BYTES: Final = 32_768
"""Size of an answer to an output contract, unless the contract sets its own limit."""
OUTPUT_BYTES_MAX: Final = 524_288
"""Upper limit of a contract's own limit: half of a record."""
OUTPUT_ERRORS: Final = 32
"""Errors reported for one answer, unless the contract sets its own limit."""
OUTPUT_ERRORS_MAX: Final = 128
OUTPUT_ERROR_CHARS_MAX: Final = 300
OUTPUT_VALIDATORS_MAX: Final = 16
"""Output validators of an agent."""
OUTPUT_VALIDATOR_TIMEOUT_MS: Final = 30_000
"""How long a type may take to read an output, and each output validator to check it."""
OUTPUT_CHECKS_MAX: Final = 100_000
"""Schema keywords evaluated for one answer: a small schema can cause unbounded work."""
SCHEMA_BYTES_MAX: Final = 65_536
SCHEMA_PROPERTIES_MAX: Final = 1_024
SCHEMA_ENUM_VALUES_MAX: Final = 1_024
SCHEMA_CHAIN_MAX: Final = 32
"""Consecutive references and combinations that do not descend into the value."""
PATTERN_CHARS_MAX: Final = 1_024
PATTERN_WEIGHT_MAX: Final = 5_000
"""Size of a regular expression after its counted repetitions are expanded."""
SCHEMA_PATTERNS_SIZE_MAX: Final = 100_000
"""Size of all patterns of a schema once they are compiled, in pieces: about 100 MB, and 0.3 s to compile."""
PATTERN_STEPS_PER_CHECK: Final = 50
"""Pieces of a pattern, times characters of a text, that count like one keyword: matching takes that long."""
SUBSCRIBER_EVENTS_MAX: Final = 1_024
REFUSED_STARTS_MAX: Final = 10_000
"""Refused starts that a store keeps; a new one replaces the oldest."""
REFUSAL_MESSAGE_CHARS_MAX: Final = 1_024
"""Characters of the error that a refused start is kept with."""
REFUSAL_POLICIES_MAX: Final = 16
"""References to policies that a refused start is kept with."""
REFUSAL_TIMEOUT_MS: Final = 2_000
"""How long a refused start waits for its entry in the store; the caller then gets its error without it."""
STORAGE_DOCUMENT_BYTES_MAX: Final = 1_048_576
"""One session, agent, message, trace, span or trace event in a storage, as JSON."""
STORAGE_ID_BYTES_MAX: Final = 1_024
"""One identifier in a storage, as UTF-8; two of them have to fit an index entry of PostgreSQL."""
STORAGE_PAGE_ITEMS_MAX: Final = 1_000
STORAGE_BATCH_ITEMS_MAX: Final = 1_000
"""Spans or trace events of one append."""
STORAGE_CURSOR_CHARS_MAX: Final = 256
STORAGE_BUSY_TIMEOUT_MS: Final = 10_000
"""How long a write waits for another process to release the SQLite file."""
STORAGE_CONNECT_TIMEOUT_S: Final = 10
STORAGE_STATEMENT_TIMEOUT_MS: Final = 60_000
"""One statement in PostgreSQL; the creation of tables has no limit."""
STORAGE_CONNECTIONS_MAX: Final = 10
"""Connections of one storage to its database; further calls wait for one of them."""

NAME_CHARS_MAX: Final = 64
"""Length of the name of a tool or an agent: every provider accepts it as the name of a function."""
DESCRIPTION_CHARS_MAX: Final = 16_384
INSTRUCTIONS_CHARS_MAX: Final = 1_000_000
SUBAGENTS_MAX: Final = 64
FAN_OUT_AT_ONCE: Final = 8
"""Tasks of one `fan_out` that run at the same time, unless it says otherwise."""
FAN_OUT_AT_ONCE_MAX: Final = 1_000
SUBAGENT_LEVELS_MAX: Final = 8
"""Nesting depth of agents."""
TIMEOUT_MS_MAX: Final = 86_400_000
CONCURRENCY_MAX: Final = 1_024
ARGUMENT_BYTES_MAX: Final = 524_288
"""Arguments of one call, as canonical JSON; half of a record."""
ARGUMENT_VALUES_MAX: Final = 50_000
"""Values of the arguments of one call, or of all calls that a program makes before it waits: a record of more
holds up the event loop."""
PROBLEMS_MAX: Final = 8
"""Argument problems of one call that are reported to the model."""
PROBLEM_CHARS_MAX: Final = 300
NAMES_SHOWN_MAX: Final = 24
"""Names of parameters or tools that one message lists."""
FAILURE_CHARS_MAX: Final = 500
"""Characters of an exception's message that are reported to the model."""
FAILED_CHARS_MAX: Final = 8_192
"""Characters of a `ToolFailed` message that are reported to the model."""
REPR_CHARS_MAX: Final = 2_000
"""Kept of the repr of a value that has no JSON form."""
REPR_READ_CHARS_MAX: Final = 65_536
"""Of a repr in which secrets are masked before it is cut: half a secret is not recognised."""
RESULT_VALUES_MAX: Final = 1_000_000
"""Values of a result that is not plain JSON; values after them are dropped."""
PROGRESS_REPORTS_MAX: Final = 1_000
"""Reports of one call; later ones are dropped."""
PROGRESS_BYTES_MAX: Final = 16_384
UNDO_BYTES_MAX: Final = 524_288
"""The calls that one run reverses, with arguments and results, as JSON."""
LOG_LINES_MAX: Final = 100
"""Lines that one call may log; later ones are dropped, and the last line says so."""
LOG_LINE_CHARS_MAX: Final = 2_000
QUESTION_CHARS_MAX: Final = 4_000
OPTION_CHARS_MAX: Final = 200
OPTIONS_MAX: Final = 16
THREADS_MAX: Final = 64
"""Synchronous tool calls that run at the same time in one process."""
OWN_THREADS_MAX: Final = 4
"""Threads of the runtime for work that is not a tool, such as a telemetry export."""
MASKING_THREADS_MAX: Final = 1
"""Threads that mask large values: the event loop then competes with one thread for the interpreter."""
LIGHT_VALUES_MAX: Final = 10_000
"""Values of JSON that is masked and serialised on the event loop; larger JSON is handled in a thread."""
LIGHT_CHARS_MAX: Final = 65_536
"""Characters of it. Masking takes up to 0.3 microseconds a character."""
CLOSE_NAMES_MAX: Final = 3
PACKAGE_BYTES_MAX: Final = 16 * 1_048_576
SKILLS_MAX: Final = 128
"""Skills of one agent; the description of each is in every prompt."""
SKILL_BYTES_MAX: Final = 65_536
"""One SKILL.md."""
SKILL_DESCRIPTION_CHARS_MAX: Final = 1_024
SKILL_FILES_MAX: Final = 256
"""Files of one skill beside its SKILL.md."""
SKILL_FILE_BYTES_MAX: Final = 16 * 1_048_576
"""All files of one skill together."""
SKILL_LEVELS_MAX: Final = 8
"""Folder depth of one skill."""

STATE_KEY_CHARS_MAX: Final = 128
STATE_VALUE_BYTES_MAX: Final = 65_536
"""One value in the state of a session, as JSON."""

PLAYGROUND_PREFIX: Final = "play-"
"""The beginning of the ids of playground runs and of their sessions."""
