"""The reference of S1CogBench: has every row its section, and does it say what the manifests say?"""

import csv
import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from store.prompts import load_template

PROJECT = Path(__file__).resolve().parents[2]
MANIFESTS = PROJECT / "manifests"
DOCUMENT = PROJECT / "docs" / "benchmarks" / "s1cogbench.md"

LEARNING_TEMPLATES = {path.stem for path in (MANIFESTS / "prompts").glob("learning_*.toml")}

LEADS = ("Task", "Source", "Licence", "Items", "Prompt", "Scoring", "Uniform", "Reference", "Agreement")
LONGEST_LINE = 120

# what the examples are made of: invented here, none of it is from a data set
EXAMPLES = [
    (
        "Bayesian urn",
        "bayesian_urn",
        dict(red_left=3, blue_left=7, red_right=7, blue_right=3)
        | dict(sections_left=6, sections_right=4, colour="blue"),
    ),
    (
        "Multiple-cue judgment",
        "psych_101",
        dict(
            options="1, 2, 3, 4, 5, 6, 7, 8, 9",
            transcript="Say from 1 to 9 how tall a plant will be.\n\n"
            "Light: 4. Water: 2. You say 6. It grew to 7.\nLight: 1. Water: 5. You say",
        ),
    ),
    (
        "Multi-attribute choice",
        "psych_101",
        dict(
            options="K, R",
            transcript="Two lamps, K and R, went through four trials each; + is passed, - is failed.\n\n"
            "K: + - + +, R: - + + -. You press K.\nK: - - + -, R: + + - -. You press",
        ),
    ),
    (
        "Multi-attribute choice (hilbig2014 frequencies)",
        "multi_attribute",
        dict(history="", verdicts_a="+ - - +", verdicts_b="- + + -"),
    ),
    (
        "Multi-attribute choice (heck2017 sample)",
        "multi_attribute",
        dict(
            history=[("trial", dict(verdicts_a="+ + - -", verdicts_b="- - + -", choice="A"))],
            verdicts_a="- + - +",
            verdicts_b="+ - - -",
        ),
    ),
    (
        "Probability coherence",
        "psych_101",
        dict(
            options="0, 1, 2, […] 99, 100",
            transcript="Say in whole percent how likely it is.\n\n"
            "Will the ferry be late tomorrow? You say 35.\nWill it be late and full tomorrow? You say",
        ),
    ),
    (
        "SHJ categories",
        "psych_101",
        dict(
            options="F, V",
            transcript="Each thing is an F or a V; find out which.\n\nA new rule holds from now on.\n"
            "A tall red ring. You press V. It was an F.\nA flat red ring. You press",
        ),
    ),
    (
        "Medin categories",
        "psych_101",
        dict(
            options="L, P",
            transcript="Pictures with three parts belong to L or to P.\n\n"
            "Picture 011. You press L. Wrong, it belongs to P.\nPicture 110. You press",
        ),
    ),
    (
        "Weather prediction",
        "psych_101",
        dict(
            options="H, U",
            transcript="Signs in the sky tell of rain (H) or sun (U).\n\n"
            "Signs 2 and 3. You press H. The sun shone.\nSign 4. You press",
        ),
    ),
    (
        "Weather prediction (hmmr sample)",
        "weather",
        dict(
            history=[
                ("trial", dict(cards="card 1 and card 3", prediction="Fine", weather="Rainy")),
                ("trial", dict(cards="card 2", prediction="Fine", weather="Fine")),
            ],
            cards="card 2 and card 3 and card 4",
        ),
    ),
    (
        "RLWM",
        "rlwm",
        dict(
            rewards=[("gains", {})],
            set_size=2,
            history=[
                ("trial", dict(picture="A", choice=3, points="0")),
                ("trial", dict(picture="B", choice=1, points="+1")),
                ("missed", dict(picture="A")),
            ],
            picture="B",
        ),
    ),
    (
        "Recent probes",
        "recent_probes",
        dict(
            history=[
                (
                    "trial",
                    dict(number=1, letters="B F K M T W", probe="K", pressed="left", feedback=" Correct."),
                )
            ],
            number=2,
            letters="C D H L P R",
            probe="K",
        ),
    ),
    (
        "WCST, prediction (prl sample)",
        "wcst_prediction",
        dict(
            history=[
                ("sorted", dict(number=1, card="two red stars", choice=1, verdict="wrong")),
                ("late", dict(number=2, card="one blue triangle")),
            ],
            number=3,
            card="three yellow circles",
        ),
    ),
    (
        "Horizon, prediction (Psych-101 experiments)",
        "psych_101",
        dict(
            options="J, N",
            transcript="Two machines, J and N, pay points. New ones come with every round.\n\n"
            "Round 7, five pulls.\nYou have to pull J: 32.\nYou have to pull N: 47.\n"
            "You have to pull N: 51.\nYou have to pull J: 40.\nYou pull",
        ),
    ),
    (
        "Mouselab, prediction",
        "mouselab_prediction",
        dict(
            tree=[
                ("node", dict(node=1, parent=0)),
                ", ",
                ("node", dict(node=2, parent=1)),
                ", ",
                ("node", dict(node=3, parent=0)),
            ],
            history=[
                ("round", dict(number=1, looks=[("look", dict(node=3, value=-5))], path="0-1-2", score=15))
            ],
            number=2,
            looks=[("look", dict(node=1, value=10))],
            options="STOP, 2, 3",
        ),
    ),
    (
        "Temporal discounting (Bickel titrator)",
        "discounting",
        dict(
            history=[
                (
                    "trial",
                    dict(label="Question 1", first="$40.00 immediately", second="$90.00 in 1 year")
                    | dict(chosen="$90.00 in 1 year"),
                )
            ],
            label="Question 2",
            first="$90.00 in 1 year",
            second="$65.00 immediately",
        ),
    ),
    (
        "Temporal discounting (hBayesDM sample)",
        "discounting_hbayesdm",
        dict(history="", label="Question 1", first="8 now", second="11.5 in 30 days"),
    ),
    (
        "False-belief QA",
        "false_belief",
        dict(
            story="Ida came into the attic.\nThe pin is in the red_tin.\nIda left the attic.\n"
            "Bo moved the pin to the blue_jar.",
            question="Where will Ida look for the pin?",
            first="blue_jar",
            second="red_tin",
        ),
    ),
    (
        "Politeness",
        "politeness_speaker_production",
        dict(
            rated="kite",
            state=1,
            purpose=[("social", {})],
            options="It was good\nIt was bad\nIt wasn't good\nIt wasn't bad",
        ),
    ),
    ("Politeness", "politeness_literal_semantics", dict(state=2, described="it wasn't bad")),
    (
        "Pragmatic interpretation",
        "pragmatics",
        dict(
            instructions=[("Irony", {})],
            scenario='The kettle leaks all over the table. Mia says to Leo: "You chose a fine kettle." '
            "What does Mia want to get across?",
            options=[
                ("option", dict(number=1, option_text="Leo chose badly.")),
                "\n",
                ("option", dict(number=2, option_text="Leo chose well.")),
            ],
            numbers="1, 2",
        ),
    ),
    (
        "Nonliteral number",
        "nonliteral_experiment1",
        dict(article="a", domain="lantern", utterance=900, state=30, prices="30, 90, 300, 900"),
    ),
    ("Nonliteral number", "nonliteral_experiment3b", dict(article="a", domain="lantern", state=300)),
    (
        "Self-assessment",
        "psych_101",
        dict(
            options="0, 1, 2, […] 19, 20",
            transcript="You solved riddles.\n\nHow many did you solve? You say",
        ),
    ),
    (
        "WCST, autonomous",
        "play_wcst",
        dict(key_1="one red circle", key_2="two green triangles", key_3="three blue crosses")
        | dict(
            key_4="four yellow stars",
            history=[
                ("sorted", dict(number=1, card="two red stars", action=1, verdict="wrong")),
                ("sorted", dict(number=2, card="one blue triangle", action=2, verdict="right")),
            ],
            number=3,
            card="three yellow circles",
        ),
    ),
    (
        "Restless bandit",
        "play_restless_bandit",
        dict(
            n_trials=80,
            history=[
                ("trial", dict(number=1, action=0, reward=57)),
                ("trial", dict(number=2, action=1, reward=44)),
            ],
            number=3,
        ),
    ),
    (
        "Instrumental learning",
        "play_instrumental_learning",
        dict(
            n_casinos=4,
            n_visits=24,
            n_trials=96,
            history=[
                ("visit", dict(number=1, casino=3, action=0, reward=1)),
                ("visit", dict(number=2, casino=1, action=1, reward=0)),
            ],
            number=3,
            casino=3,
        ),
    ),
    (
        "Horizon, autonomous",
        "play_horizon",
        dict(
            n_forced=4,
            n_free=6,
            history=[
                ("instructed", dict(number=1, action=0, reward=38)),
                ("instructed", dict(number=2, action=1, reward=54)),
                ("instructed", dict(number=3, action=1, reward=61)),
                ("instructed", dict(number=4, action=0, reward=41)),
                ("free", dict(number=5, action=1, reward=57)),
            ],
            choices_left=5,
            number=6,
        ),
    ),
    (
        "Stationary bandits",
        "play_stationary_bandits",
        dict(
            story=[("video_watching", dict(n_arms=5, options="0, 1, 2, 3, 4"))],
            arms=[
                ("arm", dict(unit="video", arm=0, times=2, mean="0.50")),
                ("arm", dict(unit="video", arm=1, times=1, mean="0.00")),
                *(("new_arm", dict(unit="video", arm=arm)) for arm in (2, 3, 4)),
            ],
            unit=[("video_watching_unit", {})],
            options="0, 1, 2, 3, 4",
        ),
    ),
    (
        "Mouselab, autonomous",
        "play_mouselab_trees",
        dict(
            values="-10, -5, 5, 10",
            tree=[
                ("node", dict(node=1, parent=0)),
                ", ",
                ("node", dict(node=2, parent=1)),
                ", ",
                ("node", dict(node=3, parent=0)),
            ],
            looks=[("look", dict(node=1, value=10))],
            options="STOP, 2, 3",
        ),
    ),
    (
        "BART",
        "play_bart",
        dict(
            n_balloons=45,
            n_per_letter=15,
            letters="A, B, C",
            history=[
                ("banked", dict(number=1, letter="B", pumps=3)),
                ("burst", dict(number=2, letter="C", pumps=5)),
            ],
            number=3,
            letter="B",
            pumps=2,
        ),
    ),
    (
        "Temporal discounting",
        "play_temporal_discounting",
        dict(first="Receive 80 dollars now", second="Receive 90 dollars in 12 months"),
    ),
    (
        "Two-step",
        "play_two_step",
        dict(
            history=[("day", dict(day=1, ship="X", planet="X", alien="F", found="junk"))],
            question=[("trade", dict(options="J or K", day=2, ship="X", planet="Y"))],
        ),
    ),
]


class Section(NamedTuple):
    """One section: depth of its heading, the heading, and its text by lead-in."""

    depth: int
    heading: str
    leads: tuple[str, ...]
    parts: dict[str, str]

    @property
    def text(self):
        return "\n".join(self.parts.values())


def manifest(name):
    with (MANIFESTS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def agents():
    """Agents of the manifest but the uniform one, with the modes that each plays or predicts."""
    agents = tomllib.loads((MANIFESTS / "agents.toml").read_text(encoding="utf-8"))
    schedules = tomllib.loads((MANIFESTS / "environments.toml").read_text(encoding="utf-8"))
    return [
        (name, agent["provenance"], mode)
        for name, agent in agents.items()
        if agent["kind"] == "reference"
        for mode in agent.get("predicts") or [schedules[agent["schedule"]]["mode"]]
    ]


def sections():
    """Sections of the document; a number sign in an example begins none."""
    found = []
    is_example = False
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        is_example ^= line.startswith("```")
        heading = None if is_example else re.fullmatch(r"(##+) (.+)", line)
        if heading:
            found.append((len(heading[1]), heading[2], []))
        elif found:
            found[-1][2].append(line)
    return [_section(depth, heading, "\n".join(lines)) for depth, heading, lines in found]


def _section(depth, heading, text):
    before, *rest = re.split(rf"(?m)^\*\*({'|'.join(LEADS)})\*\*", text)
    assert not before.strip(), f"{heading}: text before the first lead-in"
    return Section(depth, heading, tuple(rest[::2]), dict(zip(rest[::2], rest[1::2], strict=True)))


SECTIONS = {section.heading: section for section in sections()}
MODES = manifest("s1cogbench_modes")
LABELS = {mode["mode_id"]: mode["label"] for mode in MODES}
SCHEDULES = tomllib.loads((MANIFESTS / "environments.toml").read_text(encoding="utf-8"))
# the urn's questions are items like any others
PLAYED = {name: schedule["mode"] for name, schedule in SCHEDULES.items() if name != "bayesian_urn"}
REFERENCES = {row["mode_id"]: row for row in manifest("s1cogbench_references")}


def section_of(mode_id):
    return SECTIONS[LABELS[mode_id]]


def filled(template_id, text, places):
    """Fill one text of a template by its own SQL."""
    values = {name: _value(template_id, value) for name, value in places.items()}
    columns = ", ".join(f"${name} as {name}" for name in values) or "null"
    sql = f"select {load_template(template_id).sql(text)} from (select {columns})"
    [(prompt,)] = duckdb.connect().execute(sql, values).fetchall()
    return prompt


def _value(template_id, value):
    if not isinstance(value, list):
        return str(value)
    return "".join(part if isinstance(part, str) else filled(template_id, *part) for part in value)


def filled_in_python(template_id, text, places):
    """Fill the same text as it is filled while an episode is played."""
    values = {
        name: "".join(
            part if isinstance(part, str) else filled_in_python(template_id, *part) for part in value
        )
        if isinstance(value, list)
        else value
        for name, value in places.items()
    }
    return load_template(template_id).fill(text, values)


def in_one_line(text):
    return " ".join(text.split())


def printed(part):
    [found] = re.findall(r"Printed: \*\*(.+?)\*\*", in_one_line(part))
    return found


def names(text):
    return set(re.findall(r"`([a-z0-9_]+)`", text))


# ---- sections ----


def test_every_row_has_its_section_in_the_published_order_and_variants_stand_under_their_row():
    rows = [mode for mode in MODES if not mode["variant_of"]]
    assert len(rows) == 27
    expected = []
    for row in rows:
        expected.append((2, row["label"]))
        expected += [(3, mode["label"]) for mode in MODES if mode["variant_of"] == row["mode_id"]]
    assert [(section.depth, section.heading) for section in sections()] == expected


@pytest.mark.parametrize("section", sections(), ids=lambda section: section.heading)
def test_every_section_has_the_same_lead_ins(section):
    assert section.leads == LEADS
    assert all(part.strip() for part in section.parts.values())


def test_the_list_of_rows_is_that_of_the_sections():
    listed = re.findall(r"(?m)^\| \[([^\]]+)\]\(#([^)]+)\) \|", DOCUMENT.read_text(encoding="utf-8"))
    assert [label for label, _ in listed] == [section.heading for section in sections()]
    for label, anchor in listed:
        assert anchor == re.sub(r"[^\w\- ]", "", label.lower()).replace(" ", "-")


def test_lines_are_wrapped():
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if len(line) > LONGEST_LINE and not line.startswith("|")]


# ---- names ----


@pytest.mark.parametrize("mode_id", LABELS)
def test_a_section_names_its_mode_and_all_its_metrics(mode_id):
    metrics = {row["metric"] for row in manifest("s1cogbench_metrics") if row["mode_id"] == mode_id}
    known = {row["metric"] for row in manifest("s1cogbench_metrics")}
    scoring = names(section_of(mode_id).parts["Scoring"])
    assert mode_id in names(section_of(mode_id).text)
    assert scoring & known == metrics


@pytest.mark.parametrize("mode_id", LABELS)
def test_a_section_names_the_rules_of_its_row(mode_id):
    [mode] = [mode for mode in MODES if mode["mode_id"] == mode_id]
    assert mode["scored_rule"] in names(section_of(mode_id).parts["Scoring"])
    assert mode["uniform_rule"] in names(section_of(mode_id).parts["Uniform"])


@pytest.mark.parametrize("mode_id", LABELS)
def test_a_section_names_the_agents_and_the_source_of_its_row(mode_id):
    [mode] = [mode for mode in MODES if mode["mode_id"] == mode_id]
    reference = REFERENCES[mode_id]
    named = {reference[key] for key in ("agent_id", "stand_in_agent_id")} - {""}
    assert named <= names(section_of(mode_id).parts["Reference"])
    if mode["item_source_id"]:
        assert mode["item_source_id"] in names(section_of(mode_id).parts["Source"])


@pytest.mark.parametrize("mode_id", LABELS)
def test_commits_are_those_of_the_pins(mode_id):
    pins = tomllib.loads((MANIFESTS / "sources.toml").read_text(encoding="utf-8")).values()
    source = in_one_line(section_of(mode_id).parts["Source"])
    for repo, commit in re.findall(r"([\w.-]+/[\w.-]+) @ ([0-9a-f]+)", source):
        assert len(commit) == 8
        assert [pin["repo"] for pin in pins if pin["revision"].startswith(commit)] == [repo]
    [mode] = [mode for mode in MODES if mode["mode_id"] == mode_id]
    assert "@" in source or mode["item_source_id"] in {"", "wcst", "stationary_bandits"}


@pytest.mark.parametrize(("agent_id", "provenance", "mode_id"), agents())
def test_an_agent_is_named_with_its_provenance_where_it_plays_or_predicts(agent_id, provenance, mode_id):
    assert {agent_id, provenance} <= names(section_of(mode_id).parts["Reference"])


# ---- figures ----


@pytest.mark.parametrize("mode_id", LABELS)
def test_printed_figures_are_those_of_the_manifests(mode_id):
    [mode] = [mode for mode in MODES if mode["mode_id"] == mode_id]
    reference = REFERENCES[mode_id]
    parts = section_of(mode_id).parts
    if mode["variant_of"]:
        assert printed(parts["Uniform"]) == printed(parts["Reference"]) == "none"
        return
    assert printed(parts["Uniform"]) == mode["uniform_printed"]
    cell = f"{reference['reference_printed'] or 'not known'} {reference['reference_mark']}".strip()
    assert printed(parts["Reference"]) == cell


# ---- prompts ----


@pytest.mark.parametrize(
    ("label", "template_id", "places"),
    EXAMPLES,
    ids=[f"{label}: {template_id}" for label, template_id, _ in EXAMPLES],
)
def test_an_example_is_what_the_template_makes_of_invented_data(label, template_id, places):
    prompt = SECTIONS[label].parts["Prompt"]
    examples = re.findall(r"(?ms)^```text\n(.*?)^```$", prompt)
    assert in_one_line(filled(template_id, "prompt", places)) in [in_one_line(text) for text in examples]
    assert template_id in names(prompt)


@pytest.mark.parametrize(
    ("template_id", "places"),
    [(template_id, places) for _, template_id, places in EXAMPLES],
    ids=[f"{label}: {template_id}" for label, template_id, _ in EXAMPLES],
)
def test_python_and_sql_make_the_same_prompt(template_id, places):
    assert filled_in_python(template_id, "prompt", places) == filled(template_id, "prompt", places)


@pytest.mark.parametrize("schedule_id", PLAYED)
def test_a_played_mode_shows_the_template_of_its_schedule(schedule_id):
    [label] = [label for label, template_id, _ in EXAMPLES if template_id == f"play_{schedule_id}"]
    assert label == LABELS[PLAYED[schedule_id]]


def test_every_template_is_named_and_has_an_example():
    templates = {path.stem for path in (MANIFESTS / "prompts").glob("*.toml")} - LEARNING_TEMPLATES
    named = set().union(*(names(section.parts["Prompt"]) for section in sections()))
    assert templates <= named
    assert {template_id for _, template_id, _ in EXAMPLES} == templates


def test_every_template_of_learning_is_named():
    named = names((PROJECT / "docs" / "benchmarks" / "learning.md").read_text(encoding="utf-8"))
    assert named >= LEARNING_TEMPLATES


def test_decisions_that_are_cited_are_there():
    decisions = (PROJECT / "docs" / "decisions.md").read_text(encoding="utf-8").replace('"', "'")
    titles = set(re.findall(r"(?m)^## \d{4}-\d\d-\d\d · (.+)$", decisions))
    cited = re.findall(r'decision "([^"]+)"', in_one_line(DOCUMENT.read_text(encoding="utf-8")))
    assert cited and set(cited) <= titles
