"""The README's commands, as typed, give the README's output."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")


def sessions():
    """Yield (command, output) for each `$` line of the README's console blocks."""
    for block in re.findall(r"```console\n(.*?)```", README, flags=re.DOTALL):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = entry.partition("\n")
            # a quoted argument may go on over the next lines
            while command.count('"') % 2:
                more, _, output = output.partition("\n")
                command += "\n" + more
            yield command, output


def words(text):
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def run(command, lake, **environment):
    return subprocess.run(
        shlex.split(command, comments=True),
        cwd=PROJECT,
        env={**os.environ, "COGLAKE_HOME": str(lake), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    lake = tmp_path_factory.mktemp("readme") / "lake"
    done = run("coglake demo", lake)
    assert done.returncode == 0, done.stderr
    return lake, done


def output_of(command):
    return next(output for found, output in sessions() if found.startswith(command))


def test_make_demo_is_the_demo_command():
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    assert "demo: setup\n\t@$(BIN)/coglake demo\n" in makefile
    assert "\t@$(ENGINES)/coglake demo --model $(MODELS)/SmolLM2-135M-Instruct\n" in makefile


def test_the_demo_prints_the_table_of_the_readme(demo):
    _, done = demo
    table = [line for line in words(output_of("make demo")) if not line[0].isdigit()]
    table = table[table.index("Task mode Uniform Reference demo-bayes demo-greedy demo-uniform") :]
    assert words(done.stdout) == [line for line in table if line]


def test_the_demo_says_the_steps_of_the_readme(demo):
    lake, done = demo
    said = done.stderr.replace(str(lake), "lake")
    # only the time differs from machine to machine
    said = re.sub(r"\(\d+\.\d s\)", "(… s)", said)
    expected = re.sub(r"\(\d+\.\d s\)", "(… s)", output_of("make demo"))
    steps = [line for line in words(expected) if line in words(said)]
    assert len(steps) == 7, said


def test_a_cell_is_traced_and_two_models_are_compared_as_typed(demo, tmp_path):
    lake, _ = demo
    asked = ("coglake trace", "coglake compare", "coglake export table3 --with")
    done = {
        start: run(next(command for command, _ in sessions() if command.startswith(start)), lake)
        for start in asked
    }
    assert [each.returncode for each in done.values()] == [0, 0, 0], [each.stderr for each in done.values()]
    traced, compared, exported = (each.stdout for each in done.values())
    assert "demo-greedy: 71.5" in traced
    assert "800 planned = 800 scored + 0 unparsed + 0 error" in traced
    assert traced.count("which gives 71.5") == 2
    assert "paired t over clusters" in compared
    assert r"71.5 \[" in exported
    locked = run(f"coglake lock -o {tmp_path / 'coglake.lock'}", lake)
    assert locked.returncode == 0, locked.stderr


def test_an_agent_of_ones_own_plays_an_episode(demo):
    lake, _ = demo
    [example] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    report = "\nprint(turn.reward, turn.info['outcome'])"
    done = run(shlex.join([sys.executable, "-c", example + report]), lake)
    assert (done.returncode, done.stdout) == (0, "15.0 stopped\n"), done.stderr


def test_every_command_of_the_readme_is_a_command(demo):
    lake, _ = demo
    known = set(re.findall(r"^  (\w+)  ", run("coglake --help", lake).stdout, flags=re.MULTILINE))
    named = set(re.findall(r"`?coglake (\w+)", README)) - {"sql"}
    assert named <= known
    assert known <= set(re.findall(r"\b(\w+)\b", README))


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/benchmarks/cognirank.md",
        "docs/benchmarks/learning.md",
        "docs/generation.md",
        "docs/other_harnesses.md",
        "docs/privacy.md",
        "docs/reproducibility.md",
    ],
)
def test_every_option_that_is_shown_is_one(demo, path):
    lake, _ = demo
    shown = {}
    blocks = re.findall(
        r"```(?:console|sh)\n(.*?)```", (PROJECT / path).read_text(encoding="utf-8"), re.DOTALL
    )
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        if found := re.match(r"(?:\$ )?coglake (\w+)(.*)", line):
            shown.setdefault(found[1], set()).update(re.findall(r" (--[a-z0-9-]+)", found[2]))
    assert shown
    for command, options in shown.items():
        known = set(re.findall(r"(--[a-z0-9-]+)", run(f"coglake {command} --help", lake).stdout))
        assert options <= known, command


def test_cognirank_can_be_looked_at_without_an_engine(demo, tmp_path):
    lake, _ = demo
    command = next(command for command, _ in sessions() if command.startswith("coglake cognirank --verify"))
    verified = run(command, lake)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    extracted = run(f"coglake cognirank --extract-only {tmp_path / 'release'}", lake)
    assert extracted.returncode == 0, extracted.stderr
    sums = (tmp_path / "release" / "SHA256SUMS").read_text(encoding="utf-8")
    assert "protocol.json" in sums


def test_nothing_evaluated_is_nothing_to_export(demo):
    lake, _ = demo
    done = run("coglake export cogniscore", lake)
    assert done.returncode == 15, done.stdout
    assert "coglake cognirank" in done.stderr


def test_every_linked_file_is_there():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (PROJECT / target).is_file(), target


def test_every_table_named_in_the_readme_is_built(demo):
    lake, _ = demo
    tables = README.split("## Tables to ask")[1].split("## More")[0]
    for name in re.findall(r"^\| .*\|", tables, flags=re.MULTILINE):
        for table in re.findall(r"`(\w+)`", name):
            done = run(f'coglake sql "select count(*) from {table}"', lake)
            assert done.returncode == 0, f"{table}: {done.stderr}"


def test_plain_dbt_build_does_the_same_work(demo):
    lake, _ = demo
    before = run('coglake sql "select * from table_3 order by all" --json', lake).stdout
    built = run("dbt build --quiet --target-path " + str(lake / "plain"), lake)
    assert built.returncode == 0, built.stdout
    assert run('coglake sql "select * from table_3 order by all" --json', lake).stdout == before
    exported = run("coglake export table3", lake)
    assert exported.returncode == 0, exported.stderr


def test_the_version_of_the_changelog_is_the_packages():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## {project['version']} (" in changelog
