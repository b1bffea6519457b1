"""Plans, grids, schedules, reports and other commands, against the program."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

import phalanx
from phalanx.__main__ import program_path

from .support import ROOT, dataset_prefix, run_python, tiny, trained_run, words


def printed(*line: str) -> str:
    return subprocess.run(
        [program_path(), *line], stdout=subprocess.PIPE, check=True, text=True
    ).stdout


class Plans(unittest.TestCase):
    def test_is_the_programs(self) -> None:
        flags = tiny(world_size=2, tensor_model_parallel_size=2)
        document = json.loads(printed("plan", "gpt", "--json", *words(flags)))
        plan = phalanx.plan("gpt", **flags)
        self.assertEqual(plan.to_dict(), document)
        mixed = phalanx.plan("gpt", arguments=[*words(flags), "--num-layers", "9"], num_layers=1)
        self.assertEqual(mixed.to_dict(), document)
        self.assertEqual(len(plan.ranks), 2)
        self.assertEqual(plan.total_bytes, 2 * plan.largest_rank_bytes)
        self.assertEqual(plan.parameters, document["model"]["parameters"])
        self.assertRegex(repr(plan), r"Plan\(gpt, [\d,]+ parameters, 2 ranks, at most ")

    def test_ranks_that_are_listed_once(self) -> None:
        plan = phalanx.Plan(
            {
                "ranks": [
                    {"rank": 0, "same_as": [1, 3], "bytes": {"total": 5}},
                    {"rank": 2, "bytes": {"total": 7}},
                ]
            }
        )
        self.assertEqual([rank["rank"] for rank in plan.ranks], [0, 0, 2, 0])
        self.assertEqual((plan.total_bytes, plan.largest_rank_bytes), (22, 7))


class Schedules(unittest.TestCase):
    def test_is_the_programs(self) -> None:
        line = ("schedule", "--kind", "zb-v", "--pipeline-size", "4", "--microbatches", "8")
        schedule = phalanx.schedule("zb-v", pipeline_size=4, microbatches=8)
        document = dict(schedule)
        svg = document.pop("svg")
        self.assertEqual(document, json.loads(printed(*line, "--json")))
        self.assertEqual(schedule.makespan, 51)
        self.assertEqual(schedule.ranks[3][2], "F1.0")
        self.assertEqual(schedule.timeline[0][0], ("F0.0", 0, 1))
        self.assertEqual(schedule._repr_svg_(), svg)
        self.assertTrue(svg.startswith("<svg"))
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "schedule.svg"
            printed(*line, "--svg", str(path))
            self.assertEqual(path.read_text(encoding="utf-8"), svg)

    def test_refusals(self) -> None:
        with self.assertRaises(phalanx.PhalanxError) as caught:
            phalanx.schedule("zb-v", pipeline_size=4, microbatches=0)
        self.assertEqual(caught.exception.code, phalanx.ExitCode.CONFIGURATION)


class Commands(unittest.TestCase):
    def test_grid(self) -> None:
        flags = {"world_size": 8, "tensor_model_parallel_size": 2}
        self.assertEqual(
            phalanx.grid(**flags), json.loads(printed("grid", "--json", *words(flags)))
        )

    def test_words_and_standard_input(self) -> None:
        output = phalanx.command("dataset info", dataset_prefix(), json=True)
        self.assertEqual(output.status, 0)
        self.assertEqual(output.output, printed("dataset", "info", dataset_prefix(), "--json"))
        self.assertEqual(output.json()["documents"], 60)
        ids = phalanx.command(
            "tokenize", tokenizer_type="NullTokenizer", vocab_size=9, standard_input="1 2"
        )
        self.assertEqual(ids.output.split(), ["[1,2]"])

    def test_an_error(self) -> None:
        with self.assertRaises(phalanx.PhalanxError) as caught:
            phalanx.command("dataset info", "/nowhere/x")
        self.assertEqual(caught.exception.code, phalanx.ExitCode.INPUT_MISSING)

    def test_report(self) -> None:
        report = phalanx.Report(trained_run())
        self.assertIn("<html", report.html)
        self.assertIn("<iframe srcdoc=", report._repr_html_())
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "report.html")
            report.save(path)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), report.html)
        with self.assertRaises(phalanx.PhalanxError):
            phalanx.Report([trained_run(), trained_run()])


class Program(unittest.TestCase):
    def test_module_runs_the_program(self) -> None:
        child = subprocess.run(
            [sys.executable, "-m", "phalanx", "version"],
            env=dict(os.environ, PYTHONPATH=str(ROOT / "python")),
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        self.assertEqual(child.stdout, printed("version"))

    def test_calls_in_a_forked_child(self) -> None:
        child = run_python(
            "import os, sys, phalanx\n"
            "from tests.support import tiny\n"
            "phalanx.pretrain(**tiny())\n"
            "tokenizer = phalanx.Tokenizer(load=sys.argv[1])\n"
            "ids = tokenizer.encode('said')\n"
            "if os.fork() == 0:\n"
            "    assert tokenizer.encode('said') == ids\n"
            "    assert phalanx.Tokenizer(load=sys.argv[1]).encode('said') == ids\n"
            "    try:\n"
            "        phalanx.pretrain()\n"
            "    except RuntimeError as error:\n"
            "        print(error, flush=True)\n"
            "    os._exit(0)\n"
            "print(os.wait()[1])\n",
            trained_run(),
        )
        out, err = child.communicate()
        self.assertRegex(out, "this process was forked from one .*\n0\n", err)


class Pickles(unittest.TestCase):
    def test_handles_are_opened_again(self) -> None:
        tokenizer = phalanx.Tokenizer(load=trained_run())
        dataset = phalanx.Dataset(dataset_prefix())
        checkpoint = phalanx.Checkpoint(trained_run())
        copies = pickle.loads(pickle.dumps((tokenizer, dataset, checkpoint)))
        self.assertEqual(copies[0].encode("said"), tokenizer.encode("said"))
        self.assertEqual(len(copies[1]), len(dataset))
        self.assertEqual(list(copies[2]), list(checkpoint))
