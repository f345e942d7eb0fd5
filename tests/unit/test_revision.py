"""Which commit a project is at, in repositories made for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from store.revision import git_sha

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *arguments: str) -> str:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder), *arguments]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def project(tmp_path) -> Path:
    """A project with one commit."""
    folder = tmp_path / "a project"
    (folder / "macros").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: x\n")
    (folder / "macros" / "a.sql").write_text("select 1\n")
    (folder / "README.md").write_text("text\n")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "first")
    return folder


def test_a_clean_project_is_at_its_commit(project):
    assert git_sha(project) == git(project, "rev-parse", "HEAD")


@pytest.mark.parametrize(
    "changed", ["macros/a.sql", "macros/new.sql", "manifests/new.csv", "dbt_project.yml"]
)
def test_what_scores_and_is_not_committed_is_said(project, changed):
    path = project / changed
    path.parent.mkdir(exist_ok=True)
    path.write_text("other\n")
    assert git_sha(project) == git(project, "rev-parse", "HEAD") + "+changes"


def test_a_changed_document_changes_no_score(project):
    (project / "README.md").write_text("other\n")
    assert git_sha(project) == git(project, "rev-parse", "HEAD")


def test_a_worktree_has_a_commit_of_its_own(project, tmp_path):
    git(project, "worktree", "add", "--quiet", str(tmp_path / "tree"))
    git(tmp_path / "tree", "commit", "--quiet", "--allow-empty", "-m", "second")
    assert git_sha(tmp_path / "tree") == git(tmp_path / "tree", "rev-parse", "HEAD") != git_sha(project)


def test_a_project_in_a_folder_of_a_repository_is_part_of_it(project):
    inner = project / "inner"
    inner.mkdir()
    (inner / "dbt_project.yml").write_text("name: y\n")
    # of which the repository knows nothing yet
    assert git_sha(inner) is None
    git(project, "add", ".")
    git(project, "commit", "--quiet", "-m", "second")
    assert git_sha(inner) == git(project, "rev-parse", "HEAD")


def test_within_a_hook_of_another_repository_the_project_is_asked(project, tmp_path, monkeypatch):
    expected = git_sha(project)
    git(tmp_path, "init", "--quiet", "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert git_sha(project) == expected


def test_no_commit_no_repository_and_no_git_are_no_error(project, tmp_path, monkeypatch):
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    (fresh / "dbt_project.yml").write_text("name: z\n")
    assert git_sha(fresh) is None
    git(fresh, "init", "--quiet")
    git(fresh, "add", ".")
    assert git_sha(fresh) is None
    assert git_sha(tmp_path / "nowhere") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_sha(project) is None
