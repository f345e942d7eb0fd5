"""Is a manifest of fits taken as it stands, or refused with its line?"""

import pytest

from generate.agents.recorded import record, recorded
from generate.contract import Fit
from store.errors import InvalidSource

HEADER = "agent_id,participant_id,parameter,value,is_at_bound,n_training,training_set\n"
LINES = ["a,p1,rate,0.25,false,40,two people", "a,p2,rate,1.0,true,41,two people", "b,p1,rate,9,,1,one"]


def manifest(tmp_path, *lines, header=HEADER):
    path = tmp_path / "reference_fits.csv"
    path.write_text(header + "".join(f"{line}\n" for line in lines))
    return path


def test_parameter_sets_are_read_in_their_order(tmp_path):
    found = recorded("a", manifest(tmp_path, *LINES))
    assert (found.participants, found.training_set) == (("p1", "p2"), "two people")
    assert found.parameters["rate"].tolist() == [0.25, 1.0]
    assert found.fits[1] == Fit("rate", 1.0, "p2", is_at_bound=True, n_training=41)
    assert recorded("b", manifest(tmp_path, *LINES)).fits[0].is_at_bound is None


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("a,p2,rate,nan,true,41,two people", "line 3: value: .*finite"),
        ("a,p2,rate,abc,true,41,two people", "line 3: value: .*valid number.*'abc'"),
        ("a,p2,rate,,true,41,two people", "line 3: value"),
        ("a,p2,rate,1.0,maybe,41,two people", "line 3: is_at_bound: .*true, false or nothing"),
        ("a,p2,rate,1.0,true,0,two people", "line 3: n_training"),
        ("a,p2,rate,1.0,true", "line 3: n_training"),
        ("a,p2,rat,1.0,true,41,two people", "expected each of rate, rat once for each of 2 participants"),
        ("a,p1,rate,1.0,true,41,two people", "expected each of rate once for each of 1 participants"),
        ("a,p2,rate,1.0,true,41,others", "expected one training_set"),
    ],
)
def test_a_line_that_is_not_right_is_refused(tmp_path, line, sentence):
    with pytest.raises(InvalidSource, match=f"reference_fits.csv: .*{sentence}"):
        recorded("a", manifest(tmp_path, LINES[0], line))


def test_a_manifest_that_is_missing_or_another_is_refused(tmp_path):
    with pytest.raises(InvalidSource, match="cannot be read"):
        recorded("a", tmp_path / "reference_fits.csv")
    with pytest.raises(InvalidSource, match="expected the columns"):
        recorded("a", manifest(tmp_path, header="agent,value\n"))
    with pytest.raises(InvalidSource, match="coglake fit c --write"):
        recorded("c", manifest(tmp_path, *LINES))


def test_new_fits_replace_those_of_their_agent_alone(tmp_path):
    path = manifest(tmp_path, *LINES)
    record("a", [Fit("rate", 1 / 3, "p9", is_at_bound=False, n_training=5)], "one person", path)
    assert recorded("a", path).fits == (Fit("rate", 0.333333, "p9", is_at_bound=False, n_training=5),)
    assert recorded("b", path).parameters["rate"].tolist() == [9.0]
