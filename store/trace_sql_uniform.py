"""SQL that gives an exact expectation again: over those of its kinds of items, and over raw items."""

from store.trace_sql import Estimate, Raw, items_table, quoted, times, with_tables

# ---- exact expectations ----

_NUMBERS = "cast(facts_json -> '$.{}' as double[])"
_OF_TREE = """(
        select trees.{} from int_uniform_trees as trees
        where
            trees.branching_json = (items.facts_json ->> '$.branching')
            and trees.node_values_json = (items.facts_json ->> '$.node_values')
    )"""
_OF_CARDS = """(
        select cards.{} from int_uniform_cards as cards
        where
            cards.n_legal = len(items.legal_options)
            and cards.n_dimensions = {{n_dimensions}}
            and cards.is_switch = cast(items.facts_json ->> '$.is_rule_switch' as boolean)
    )"""
_MAXIMUM = "cast(facts_json ->> '$.maximum' as integer)"

EXPECTATIONS = {
    "bart": f"list_sum(list_transform(range({_MAXIMUM}), "
    f"lambda k: k * ({_MAXIMUM} - k) / {_MAXIMUM} / power(2, k + 1)))",
    "bart_pumps": f"list_sum(list_transform(range({_MAXIMUM}), "
    f"lambda k: ({_MAXIMUM} - k) / {_MAXIMUM} / power(2, k + 1)))",
    "continuous_report": "case when target between support_low and support_high "
    "then (power(target - support_low, 2) + power(support_high - target, 2)) "
    "/ (2 * (support_high - support_low)) "
    "else abs(target - (support_low + support_high) / 2) end",
    "credited_share": "len(list_intersect(legal_options, credited_options)) / len(legal_options)",
    "expected_reward": f"list_avg({_NUMBERS.format('reward_means')})",
    "integer_report": "list_avg(list_transform(range(1 + cast(support_high - support_low as bigint)), "
    "lambda k: abs(target - support_low - k)))",
    "legal_share": "1 / len(legal_options)",
    "log_legal": "ln(len(legal_options))",
    "mouselab": _OF_TREE.format("return_points"),
    "mouselab_reveals": _OF_TREE.format("reveals"),
    "perseveration": _OF_CARDS.format("perseveration_share"),
    "set_loss": _OF_CARDS.format("set_loss_share"),
    "two_step": f"list_avg({_NUMBERS.format('reward_rates')})",
}
"""Exact expectation of one item, by uniform rule. That of a tree is looked up: it takes a recursion."""

_DECLARED = {
    "credited_share": "1 / declared_n_legal",
    "legal_share": "1 / declared_n_legal",
    "log_legal": "ln(declared_n_legal)",
}
_ASKED_ONLY_IF = {
    "credited_share": "credited_options is not null",
    "perseveration": "(facts_json ->> '$.is_rule_switch') is not null",
    "set_loss": "(facts_json ->> '$.is_rule_switch') is not null",
}


def of_uniform_verdicts(rule: str, metric: str, mode_id: str) -> str:
    """Return the SQL of an exact expectation over those of its kinds of items."""
    return (
        "select sum(weight * expectation) / sum(weight) as value, sum(n_items) as n_items\n"
        f"from int_uniform__{rule}\nwhere mode_id = {quoted(mode_id)} and metric = {quoted(metric)}"
    )


def of_uniform(estimate: Estimate, rule: str, raw: Raw) -> str:
    """Return the SQL of an exact expectation over raw items, or over what is declared if there are none.

    A metric of human predictions counts an item once for each response, if ``raw`` has human responses.
    """
    if "items" not in raw.where:
        declared = times(estimate.scale, _DECLARED[rule])
        return (
            f"select {declared} as value, 0 as n_items\nfrom s1cogbench_modes\n"
            f"where mode_id = {quoted(raw.mode_id)}"
        )
    tables = [items_table(raw)]
    weight, joined = "items.weight", ""
    if "human_responses" in raw.where:
        tables.append(
            "responses as (\n    select item_id, sum(weight) as weight\n    from stg_human_responses\n"
            f"    where {raw.where['human_responses']}\n    group by item_id\n)"
        )
        weight, joined = "responses.weight", "\n    join responses on items.item_id = responses.item_id"
    asked = [
        *([_ASKED_ONLY_IF[rule]] if rule in _ASKED_ONLY_IF else []),
        *([f"template_id = {quoted(estimate.readout)}"] if estimate.readout else []),
    ]
    only = f"\n    where {' and '.join(asked)}" if asked else ""
    expectation = EXPECTATIONS[rule].replace("{n_dimensions}", str(estimate.n_dimensions))
    expected = f"""expected as (
    select {weight}, {expectation} as expectation
    from items{joined}{only}
)"""
    total = times(estimate.scale, "sum(weight * expectation) / sum(weight)")
    return with_tables([*tables, expected], f"select {total} as value, count(*) as n_items\nfrom expected")
