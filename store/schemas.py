"""Arrow schemas of the raw tables: the one contract between Python writers and SQL readers.

Each constant is one table under ``$COGLAKE_HOME/raw/<table>/``. Column meaning and unit stand beside
the columns in ``models_sql/staging/_staging.yml``; a test compares both sides.
"""

import pyarrow as pa

_STRINGS = pa.list_(pa.string())

# one question or scheduled trial
ITEMS = pa.schema(
    [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("mode_id", pa.string(), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("split", pa.string()),
        pa.field("participant_id", pa.string()),
        pa.field("prompt", pa.string()),
        pa.field("template_id", pa.string()),
        pa.field("template_sha256", pa.string()),
        pa.field("legal_options", _STRINGS),
        pa.field("credited_options", _STRINGS),
        pa.field("support_low", pa.float64()),
        pa.field("support_high", pa.float64()),
        pa.field("target", pa.float64()),
        pa.field("facts_json", pa.string()),
        pa.field("max_response_tokens", pa.int32()),
        pa.field("weight", pa.float64(), nullable=False),
    ]
)

# one response of one human participant
HUMAN_RESPONSES = pa.schema(
    [
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("mode_id", pa.string(), nullable=False),
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("participant_id", pa.string(), nullable=False),
        pa.field("response", pa.string()),
        pa.field("response_number", pa.float64()),
        pa.field("split", pa.string()),
        pa.field("fold", pa.int32()),
        pa.field("weight", pa.float64(), nullable=False),
    ]
)

# one run: one agent, one protocol, one source or generation; written last, so it commits its rows
RUNS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("model_id", pa.string(), nullable=False),
        pa.field("model_revision", pa.string()),
        pa.field("agent_kind", pa.string(), nullable=False),
        pa.field("planned_modes", _STRINGS, nullable=False),
        pa.field("protocol", pa.string()),
        pa.field("engine", pa.string()),
        pa.field("engine_version", pa.string()),
        pa.field("dtype", pa.string()),
        pa.field("context_declared_tokens", pa.int32()),
        pa.field("context_requested_tokens", pa.int32()),
        pa.field("context_effective_tokens", pa.int32()),
        pa.field("seed", pa.int64()),
        pa.field("repeat", pa.int32()),
        pa.field("evaluation_id", pa.string()),
        pa.field("identity_sha256", pa.string()),
        pa.field("identity_json", pa.string()),
        pa.field("source_id", pa.string()),
        pa.field("source_uri", pa.string()),
        pa.field("source_sha256", pa.string()),
        pa.field("importer_version", pa.int32()),
        pa.field("n_source_rows", pa.int64()),
        pa.field("n_unreadable_rows", pa.int64()),
        pa.field("notes", _STRINGS, nullable=False),
        pa.field("parts", _STRINGS),
        pa.field("environment_json", pa.string()),
        pa.field("started_at", pa.timestamp("us", tz="UTC")),
        pa.field("finished_at", pa.timestamp("us", tz="UTC")),
    ]
)

# one batch of a run that grows; written last, so it commits its rows
BATCHES = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("batch_id", pa.string(), nullable=False),
        pa.field("parts", _STRINGS, nullable=False),
        pa.field("n_requests", pa.int32(), nullable=False),
        pa.field("environment_json", pa.string(), nullable=False),
        pa.field("started_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("finished_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)

# one prompt as models saw it, kept once per lake
PROMPTS = pa.schema(
    [
        pa.field("prompt_sha256", pa.string(), nullable=False),
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("n_leading_bos", pa.int32()),
        pa.field("n_declared_bos", pa.int32()),
    ]
)

# one answer of one run to one item
OUTPUTS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("mode_id", pa.string(), nullable=False),
        pa.field("episode_id", pa.string(), nullable=False),
        pa.field("participant_id", pa.string()),
        pa.field("response_text", pa.string()),
        pa.field("response_number", pa.float64()),
        pa.field("report_low", pa.float64()),
        pa.field("report_high", pa.float64()),
        pa.field("report_spacing", pa.float64()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("status_reason", pa.string()),
        pa.field("finish_reason", pa.string()),
        pa.field("prompt_sha256", pa.string()),
        pa.field("n_prompt_tokens", pa.int32()),
        pa.field("n_response_tokens", pa.int32()),
        pa.field("max_response_tokens", pa.int32()),
    ]
)

# one legal option of one item, with the log-probability that one run gave it
OUTPUT_OPTIONS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("mode_id", pa.string(), nullable=False),
        pa.field("episode_id", pa.string(), nullable=False),
        pa.field("participant_id", pa.string()),
        pa.field("option_index", pa.int32(), nullable=False),
        pa.field("option", pa.string(), nullable=False),
        pa.field("logprob_nats", pa.float64()),
        pa.field("n_tokens", pa.int32()),
        pa.field("n_characters", pa.int32()),
        pa.field("n_bytes", pa.int32()),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("token_logprobs_nats", pa.list_(pa.float64())),
        pa.field("is_merged", pa.bool_()),
        pa.field("terminator", pa.string()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("status_reason", pa.string()),
    ]
)

# one decision of one run in one episode of an environment
STEPS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("mode_id", pa.string(), nullable=False),
        pa.field("episode_id", pa.string(), nullable=False),
        pa.field("step_index", pa.int32(), nullable=False),
        pa.field("trial", pa.int32()),
        pa.field("stage", pa.int8(), nullable=False),
        pa.field("observation", pa.string()),
        pa.field("response_text", pa.string()),
        pa.field("action", pa.string()),
        pa.field("legal_options", _STRINGS),
        pa.field("credited_options", _STRINGS),
        pa.field("is_forced", pa.bool_(), nullable=False),
        pa.field("is_rewarded", pa.bool_(), nullable=False),
        pa.field("is_last", pa.bool_()),
        pa.field("outcome", pa.string()),
        pa.field("reward", pa.float64()),
        pa.field("confidence", pa.float64()),
        pa.field("hidden_values", pa.list_(pa.float64())),
        pa.field("logprobs_nats", pa.list_(pa.float64())),
        pa.field("prompt_sha256", pa.string()),
        pa.field("n_prompt_tokens", pa.int32()),
        pa.field("n_response_tokens", pa.int32()),
        pa.field("max_response_tokens", pa.int32()),
        pa.field("finish_reason", pa.string()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("status_reason", pa.string()),
    ]
)

# one verdict of one grader version on one output
VERDICTS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("mode_id", pa.string()),
        pa.field("episode_id", pa.string(), nullable=False),
        pa.field("grader_id", pa.string(), nullable=False),
        pa.field("grader_version", pa.string(), nullable=False),
        pa.field("answer_rule", pa.string()),
        pa.field("verdict", pa.float64()),
        pa.field("duration_s", pa.float64()),
        pa.field("status", pa.string(), nullable=False),
        pa.field("status_reason", pa.string()),
    ]
)

# one fitted parameter of one reference
FITS = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("mode_id", pa.string(), nullable=False),
        pa.field("family", pa.string(), nullable=False),
        pa.field("participant_id", pa.string()),
        pa.field("fold", pa.int32()),
        pa.field("seed", pa.int64()),
        pa.field("training_set", pa.string()),
        pa.field("parameter", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("is_at_bound", pa.bool_()),
        pa.field("is_converged", pa.bool_()),
        pa.field("n_training", pa.int64()),
        pa.field("provenance", pa.string(), nullable=False),
    ]
)

# one score that somebody else published, kept for comparison only
PUBLISHED = pa.schema(
    [
        pa.field("source_id", pa.string(), nullable=False),
        pa.field("source_uri", pa.string(), nullable=False),
        pa.field("mode_id", pa.string(), nullable=False),
        pa.field("model_id", pa.string(), nullable=False),
        pa.field("episode_id", pa.string()),
        pa.field("label", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
    ]
)

RAW_TABLES: dict[str, pa.Schema] = {
    "items": ITEMS,
    "human_responses": HUMAN_RESPONSES,
    "runs": RUNS,
    "batches": BATCHES,
    "prompts": PROMPTS,
    "outputs": OUTPUTS,
    "output_options": OUTPUT_OPTIONS,
    "steps": STEPS,
    "verdicts": VERDICTS,
    "fits": FITS,
    "published": PUBLISHED,
}

# a row's status: anything but 'ok' comes with a reason and still counts in the denominator
STATUSES = ("ok", "unparsed", "error", "too_long", "missing_option")
