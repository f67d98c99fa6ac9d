"""Every limit of the runtime, of tools and of agents, with its unit."""

from typing import Final

RECORD_BYTES_MAX: Final = 1_048_576
"""One record in the journal; larger values go to the content store and are referenced."""
BATCH_RECORDS_MAX: Final = 1_024
INBOX_ITEM_BYTES_MAX: Final = RECORD_BYTES_MAX - 8_192
"""Less than a record, so that what is taken at the door fits the records that are made of it."""
INBOX_ITEMS_MAX: Final = 1_000
"""Items of one session that nobody has consumed yet."""
INBOX_STARTS_MAX: Final = 900
"""Items of one session at which no further run is queued; answers and cancels still have room."""
CONTENT_BYTES_MAX: Final = 64 * 1_048_576
SNAPSHOT_BYTES_MAX: Final = 256 * 1_048_576
WAIT_MS_MAX: Final = 3_155_760_000_000
"""A hundred years: the longest that anything may be told to wait."""
OWNER_LEASE_MS: Final = 30_000
"""An owner that was not heard of for so long is taken for dead."""
TOOL_OUTPUT_CHARS_MAX: Final = 100_000
"""What a model sees of one tool result; the rest is in the content store."""
TOOL_TIMEOUT_MS: Final = 120_000
MODEL_TIMEOUT_MS: Final = 600_000
MODEL_IDLE_TIMEOUT_MS: Final = 120_000
"""The longest silence between two chunks of a model."""
MODEL_TEXT_CHARS_MAX: Final = 4_000_000
"""All that comes of one answer, its parts together."""
MODEL_PART_BYTES_MAX: Final = RECORD_BYTES_MAX - 65_536
"""The text, the reasoning or the calls of one answer, as JSON: each is kept in one record."""
OUTPUT_RECORD_BYTES_MAX: Final = RECORD_BYTES_MAX - 65_536
"""An answer to an output contract and its value, as JSON: the end of the run holds both."""
TOOLS_PER_AGENT_MAX: Final = 512
HOOKS_PER_AGENT_MAX: Final = 64
HOOK_TIMEOUT_MS: Final = 250
ON_COMPACTION_TIMEOUT_MS: Final = 5_000
"""How long a tool may take to say what a compaction must not lose."""
REMINDER_CHARS_MAX: Final = 8_000
"""One text that a tool puts behind a summary."""
REMINDERS_PER_TOOL_MAX: Final = 8
HOOK_TIMEOUT_MS_MAX: Final = 30_000
"""The run waits for its hooks, one after the other."""
HOOK_CONTEXT_TEXTS_MAX: Final = 16
HOOK_CONTEXT_CHARS_MAX: Final = 100_000
"""All texts that one hook adds, together."""
HOOK_WORDS_CHARS_MAX: Final = 4_000
"""Of a prompt, or of the reason of a veto."""
HOOK_STUCK_THREADS_MAX: Final = 4
"""Calls of one hook whose time was over and that still run; while there are so many, it is not called."""
RESOLVERS_PER_AGENT_MAX: Final = 32
RESOLVER_TIMEOUT_MS: Final = 10_000
"""How long a function may take to give instructions, tools or skills."""
RESOLVER_TIMEOUT_MS_MAX: Final = 60_000
"""The run waits for its resolvers, one after the other."""
POLICY_TIMEOUT_MS: Final = 10_000
"""How long a policy may take to decide; one that takes longer has said no."""
SINKS_PER_AGENT_MAX: Final = 32
DELIVERY_TIMEOUT_MS: Final = 60_000
DELIVERY_ATTEMPTS_MAX: Final = 3
DELIVERY_RETRY_DELAY_MS: Final = 1_000
"""Before the second attempt; each further wait is twice as long."""
RECEIPT_BYTES_MAX: Final = 16_384
OUTPUT_BYTES: Final = 32_768
"""Of an answer that is held against an output contract, unless the contract says otherwise."""
OUTPUT_BYTES_MAX: Final = 524_288
"""Whatever the contract says; half of a record."""
OUTPUT_LEVELS_MAX: Final = 48
OUTPUT_ERRORS: Final = 32
"""Told of one answer, unless the contract says otherwise."""
OUTPUT_ERRORS_MAX: Final = 128
OUTPUT_ERROR_CHARS_MAX: Final = 300
OUTPUT_CHECKS_MAX: Final = 100_000
"""Keywords of a schema that are looked at for one answer: small schemas can ask for endless work."""
SCHEMA_BYTES_MAX: Final = 65_536
SCHEMA_LEVELS_MAX: Final = 48
SCHEMA_PROPERTIES_MAX: Final = 1_024
SCHEMA_ENUM_VALUES_MAX: Final = 1_024
SCHEMA_CHAIN_MAX: Final = 32
"""References and combinations that lead to one another before a value gets any smaller."""
PATTERN_CHARS_MAX: Final = 1_024
PATTERN_WEIGHT_MAX: Final = 5_000
"""Pieces of a regular expression when its counted repetitions are written out."""
SUBSCRIBER_EVENTS_MAX: Final = 1_024
STORAGE_DOCUMENT_BYTES_MAX: Final = 1_048_576
"""One session, agent, message, trace, span or trace event in a storage, as JSON."""
STORAGE_ID_BYTES_MAX: Final = 1_024
"""One identifier in a storage, as UTF-8; two of them have to fit an index entry of PostgreSQL."""
STORAGE_PAGE_ITEMS_MAX: Final = 1_000
STORAGE_BATCH_ITEMS_MAX: Final = 1_000
"""Spans or trace events of one append."""
STORAGE_CURSOR_CHARS_MAX: Final = 256
STORAGE_BUSY_TIMEOUT_MS: Final = 10_000
"""How long a write waits for another process that writes to the same SQLite file."""
STORAGE_CONNECT_TIMEOUT_S: Final = 10
STORAGE_STATEMENT_TIMEOUT_MS: Final = 60_000
"""One statement in PostgreSQL; the creation of tables has no limit."""
STORAGE_CONNECTIONS_MAX: Final = 10
"""Connections of one storage to its database; further calls wait for one of them."""

NAME_CHARS_MAX: Final = 64
"""Of a tool or an agent: what every provider takes as the name of a function."""
DESCRIPTION_CHARS_MAX: Final = 16_384
INSTRUCTIONS_CHARS_MAX: Final = 1_000_000
SUBAGENTS_MAX: Final = 64
SUBAGENT_LEVELS_MAX: Final = 8
"""Agents inside one another."""
TIMEOUT_MS_MAX: Final = 86_400_000
CONCURRENCY_MAX: Final = 1_024
ARGUMENT_BYTES_MAX: Final = 524_288
"""Arguments of one call, as canonical JSON; half of a record."""
ARGUMENT_LEVELS_MAX: Final = 48
"""Objects and lists inside one another; a record puts some more around them."""
PROBLEMS_MAX: Final = 8
"""Problems of one call that the model is told."""
PROBLEM_CHARS_MAX: Final = 300
NAMES_SHOWN_MAX: Final = 24
"""Names of parameters or tools that one message lists."""
FAILURE_CHARS_MAX: Final = 500
"""What the model is told of an exception."""
FAILED_CHARS_MAX: Final = 8_192
"""What a tool itself may tell the model of a failure."""
REPR_CHARS_MAX: Final = 2_000
"""Kept of the repr of a value that has no JSON form."""
REPR_READ_CHARS_MAX: Final = 65_536
"""Of a repr in which secrets are masked before it is cut: half a secret is not recognised."""
RESULT_LEVELS_MAX: Final = 48
RESULT_VALUES_MAX: Final = 1_000_000
"""Values of a result that is not plain JSON; what comes after is left out."""
PROGRESS_REPORTS_MAX: Final = 1_000
"""Reports of one call; later ones are dropped."""
PROGRESS_BYTES_MAX: Final = 16_384
THREADS_MAX: Final = 64
"""Calls of tools that are not async, at the same time in one process."""
OWN_THREADS_MAX: Final = 4
"""For large results, which are made fit to be kept; tools do not run in them."""
LIGHT_VALUES_MAX: Final = 10_000
"""Values of a result that is looked through at once; a larger one is looked through in a thread."""
LIGHT_CHARS_MAX: Final = 500_000
CLOSE_NAMES_MAX: Final = 3
PACKAGE_BYTES_MAX: Final = 16 * 1_048_576
SKILLS_MAX: Final = 128
"""Skills of one agent; the model is told of each in every prompt."""
SKILL_BYTES_MAX: Final = 65_536
"""One SKILL.md."""
SKILL_DESCRIPTION_CHARS_MAX: Final = 1_024
SKILL_FILES_MAX: Final = 256
"""Files of one skill beside its SKILL.md."""
SKILL_FILE_BYTES_MAX: Final = 16 * 1_048_576
"""All files of one skill together."""
SKILL_LEVELS_MAX: Final = 8
"""Folders inside one another in one skill."""

STATE_KEY_CHARS_MAX: Final = 128
STATE_VALUE_BYTES_MAX: Final = 65_536
"""One value in the state of a session, as JSON."""
STATE_LEVELS_MAX: Final = 32
"""Arrays and objects inside one another in such a value."""
