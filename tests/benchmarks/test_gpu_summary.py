"""One table out of the files that the parts of a measurement left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gpu_summary import main
from benchmarks.table import Table

CASES = {
    "test_attack_cuda[clock-a]": "",
    "test_attack_cuda[host-b]": '<failure message="it got through"/>',
    "test_attack_cuda[host-c]": '<error message="it broke"/>',
    "test_attack_cuda[host-d]": '<skipped message="lacks cgroup"/>',
    "test_attack[clock-a]": '<skipped message="on the CPU"/>',
    "test_honest_cuda[plain]": "",
}


def written(folder: Path, cases: dict[str, str] = CASES) -> None:
    body = "".join(f'<testcase name="{name}">{end}</testcase>' for name, end in cases.items())
    text = f"<testsuites><testsuite>{body}</testsuite></testsuites>"
    (folder / "attacks.xml").write_text(text)


def test_rows_of_all_parts_are_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in ("throughput", "verdicts"):
        table = Table(part)
        table.row(f"what {part} measured", "60 ms", "118 ms", "1.2 s")
        (tmp_path / f"{part}.json").write_text(json.dumps({"facts": {}, "rows": table.rows}))
    written(tmp_path)
    capsys.readouterr()
    assert main([str(tmp_path)]) == 0
    told = [line.split("  ") for line in capsys.readouterr().out.splitlines() if line]
    cells = [[cell.strip() for cell in line if cell.strip()] for line in told]
    assert cells[1] == ["measure", "goal", "measured", "peer"]
    assert cells[3:7] == [
        ["what verdicts measured", "60 ms", "118 ms", "1.2 s"],
        ["what throughput measured", "60 ms", "118 ms", "1.2 s"],
        ["attacks that must not succeed", "100 %",
         "1 of 3 withstood, 1 not tried; not: host-b, host-c", "-"],
        ["honest candidates", "none rejected", "1 of 1 accepted", "-"],
    ]  # fmt: skip
    assert [line[0].partition(":")[0] for line in cells[7:]] == [
        "verdicts.json", "throughput.json", "attacks.xml",
    ]  # fmt: skip


def test_nothing_is_said_of_attacks_that_were_not_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, dict.fromkeys(CASES, "<skipped/>"))
    assert main([str(tmp_path)]) == 0
    assert "withstood" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "text"), [("verdicts.json", '{"facts": {}}'), ("verdicts.json", "{"),
                       ("attacks.xml", "<testsuites>"), ("other", "")],
)  # fmt: skip
def test_what_is_no_such_file_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert main([str(tmp_path)]) == 3
    said = capsys.readouterr()
    assert said.err
    assert not said.out
