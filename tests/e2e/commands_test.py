"""Each command prints what it promises, on stdout or stderr as promised, in forms that scripts can read."""

import csv
import json
import math
import os
import re
import shlex
import shutil

import program

SMALL = {
    "epochs": 3,
    "seed": 9,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "distributed": {"logical_ranks": 3},
}
CHIPS = {"data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}, "split": {"valid": 0.3, "stratify": True}}}
XRAY = {"data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv", "image": {"size": [32, 32]},
                 "split": {"valid": 0.3, "test": 0.2, "by": "patient", "stratify": True}}}
CELLS = {"model": {"name": "unet"}, "data": {"format": "image_mask", "root": "cells", "image": {"size": [32, 48]}, "split": {"valid": 0.3, "stratify": True}}}
LABELS = 14
EPOCH_COLUMNS = ("epoch,steps,samples,train_loss,valid_loss,learning_rate,epoch_seconds,elapsed_s,images_per_s,data_wait_s,allreduce_s,"
                 "valid_seconds,queue_fill,read_mb_per_s,gpu_util_percent,memory_peak_mb,ranks,logical_ranks").split(",")


def auroc(scores, labels):
    """Share of pairs of a positive and a negative that the scores put in order; ties count half. None without pairs."""
    positive = [score for score, label in zip(scores, labels) if label == 1]
    negative = [score for score, label in zip(scores, labels) if label == 0]
    if not positive or not negative:
        return None
    won = sum((p > n) + (p == n) / 2 for p in positive for n in negative)
    return won / (len(positive) * len(negative))


def read_table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Commands(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 40)
        cls.sample("xray", 80)
        cls.sample("cells", 20)
        cls.write_config("chips", SMALL, CHIPS)
        cls.write_config("xray", SMALL, XRAY)
        cls.write_config("cells", {key: SMALL[key] for key in SMALL if key != "model"}, CELLS)

    def run_of(self, name):
        """The run of a configuration by two ranks, made once."""
        def train():
            return self.good("--config", f"{name}.yaml", "--run-dir", f"run_{name}", ranks=2), self.run_at(f"run_{name}")
        return self.once(name, train)

    # Help, versions, configuration.

    def test_help_and_version_go_to_stdout(self):
        whole = self.good("--help")
        for word in ("init", "check", "eval", "predict", "export", "sweep", "simulate", "sample", "info", "verify", "compare", "report", "--config", "--resume", "--limit-steps", "--dry-run", "docs/configuration.md"):
            self.assertIn(word, whole.out)
        self.assertEqual(whole.err, "")
        for name, word in (("check", "--world-size"), ("eval", "--split")):
            told = self.good(name, "--help").out
            self.assertNotEqual(told, whole.out)
            self.assertIn(word, told)
        for name in ((), ("train",)):
            self.assertEqual(self.good("help", *name).out, whole.out)
        self.assertEqual(self.good("help", "bench", "comm").out, self.good("bench", "comm", "--help").out)
        self.assertRegex(self.good("--version").out, r"^dtrain \d+\.\d+\.\d+ \(.*LibTorch \d.*\)\n$")
        self.assertEqual(self.good("--version", ranks=2).out.count("dtrain "), 1)

    def test_output_that_finds_no_room_or_no_reader_ends_with_74(self):
        full = program.redirected(">/dev/full")
        # main() checks the stream at every end; check flushes it in between.
        cases = ((("--help",), full), (("--help",), program.unread(1)), (("info", "--json"), full),
                 (("check", "--config", "chips.yaml", "--quick"), full), (("--config", "chips.yaml", "--print-config"), full),
                 (("sample", "--kind", "chips", "--count", "1", "--output", "unsaid"), full),
                 (("bench", "step", "--limit-steps", "1", "model.name=small_cnn", "data.image.size=[32,32]", "batch.per_rank=2"), full))
        jobs = [lambda words=words, through=through: self.call(*words, through=through) for words, through in cases]
        for (words, through), ended in zip(cases, program.all_of(jobs)):
            with self.subTest(words, through=through):
                self.fails(ended, 74, "standard output")
        self.fails(self.call("info", through=program.redirected(">&-")), 74, "standard output", "Bad file descriptor")

    def test_info_ends_in_one_json_object(self):
        ended = self.good("info", "--json")
        facts = ended.json()
        self.assertEqual(facts["cores"], len(os.sched_getaffinity(0)))
        self.assertIn("Open MPI", facts["mpi"])
        self.assertTrue(0 < facts["memory_free_mb"] <= facts["memory_limit_mb"], facts)
        limit = 3 << 30
        bound = self.good("info", "--json", through=program.limited("data", limit))
        self.assertIn("that ulimit -d has", bound.out)
        self.assertEqual((bound.json()["memory_bound"], bound.json()["memory_limit_mb"]), ("ulimit -d", limit / 1e6))
        self.assertIn(facts["libtorch"], ended.out.splitlines()[0])
        self.assertNotIn("{", self.good("info").out)

    def test_the_printed_configuration_loads_again_and_is_the_same(self):
        words = ("--config", "xray.yaml", "optimizer.name=sgd", "optimizer.momentum=0.75", "--print-config")
        printed = self.good(*words)
        self.assertIn("# command line", printed.out)
        self.assertIn("xray.yaml:", printed.out)
        self.assertEqual(printed.err, "")
        minimal = self.good(*words[:-1], "--print-config=minimal").out
        self.assertLess(len(minimal.splitlines()), len(printed.out.splitlines()) / 2)
        self.assertIn("momentum: 0.75", minimal)
        self.assertNotIn("weight_decay", minimal)

        def bare(text):
            return [re.sub(r"\s+#.*", "", line) for line in text.splitlines()]
        for text in (printed.out, minimal):
            (self.folder / "again.yaml").write_text(text)
            self.assertEqual(bare(self.good("--config", "again.yaml", "--print-config").out), bare(printed.out))
        self.assertEqual(self.good(*words, ranks=2).out, printed.out)

    def test_the_schema_is_json_and_knows_the_keys(self):
        schema = json.loads(self.good("--print-schema").out)
        self.assertIn("learning_rate", schema["properties"]["optimizer"]["properties"])
        self.assertFalse(schema["additionalProperties"])
        page = (program.ROOT / "docs/configuration.md").read_text()
        self.assertEqual(self.good("--print-schema=markdown").out, page)

    def test_later_sources_win(self):
        self.write_config("site", {"optimizer": {"learning_rate": 0.5}, "epochs": 7})
        files = ("--config", "chips.yaml", "--config", "site.yaml")

        def values(*words, env=None):
            text = self.good(*files, *words, "--print-config", env=env).out
            return [re.search(rf"^ *{key}: (\S+)", text, re.M).group(1) for key in ("seed", "epochs", "learning_rate")]
        env = {"DTRAIN_CONFIG__OPTIMIZER__LEARNING_RATE": "0.25", "DTRAIN_SOMETHING": "1"}
        self.assertEqual(values(), ["9", "7", "0.5"])
        self.assertEqual(values("epochs=8", "epochs=9", env=env), ["9", "9", "0.25"])
        self.assertEqual(values("optimizer.learning_rate=0.125", env=env), ["9", "7", "0.125"])
        ended = self.call(*files, "--print-config", env={"DTRAIN_CONFIG__OPTIMIZER__RATE": "1"})
        self.fails(ended, 78, "DTRAIN_CONFIG__OPTIMIZER__RATE")

    # check.

    def test_an_image_folder(self):
        ended = self.good("check", "--config", "chips.yaml", "--json", "--world-size", 2)
        facts = ended.json()
        train, valid = facts["parts"]["train"], facts["parts"]["valid"]
        self.assertEqual((train["samples"], valid["samples"], facts["parts"]["test"]["samples"]), (28, 12, 0))
        self.assertEqual({name: train["classes"][name] + valid["classes"][name] for name in train["classes"]}, {"defect": 20, "good": 20})
        self.assertEqual((facts["steps_per_epoch"], facts["global_batch"], facts["logical_ranks"]), (5, 6, 3))
        self.assertAlmostEqual(facts["scaled_learning_rate"], 0.003)
        self.assertEqual((facts["pictures_ok"], facts["pictures_bad"]), (40, 0))
        run = self.run_of("chips")[1]
        shapes = [tensor["shape"] for name, tensor in program.checkpoint_header(run.checkpoints()[0]).items() if name.startswith("model.")]
        self.assertEqual(facts["parameters"], sum(math.prod(shape) for shape in shapes))
        self.assertIn(f"{facts['parameters']:,} parameters", ended.out)
        self.assertEqual(int(run.rows()[0]["steps"]), facts["steps_per_epoch"])
        self.assertAlmostEqual(float(run.rows()[0]["learning_rate"]), facts["scaled_learning_rate"])
        self.assertRegex(ended.out, r"\n  0 +conv +16x32x32 +448 ")
        self.assertRegex(ended.out, r"\n  18 +linear +2 +258 ")
        self.assertEqual((facts["leaks"], facts["warnings"]), ([], []))

    def test_many_labels_patients_and_leaks(self):
        facts = self.good("check", "--config", "xray.yaml", "--json").json()
        table = read_table(self.folder / "xray/Data_Entry_2017_v2020.csv")
        parts = facts["parts"].values()
        self.assertEqual(sum(part["samples"] for part in parts), len(table))
        self.assertEqual(len(facts["parts"]["train"]["classes"]), LABELS)
        for name in facts["parts"]["train"]["classes"]:
            wanted = sum(name in row["Finding Labels"].split("|") for row in table)
            self.assertEqual(sum(part["classes"][name] for part in parts if part["samples"]), wanted, name)
        none = sum(row["Finding Labels"] == "No Finding" for row in table)
        self.assertEqual(sum(part["without_any_label"] for part in parts if part["samples"]), none)
        self.assertEqual((facts["leaks"], facts["warnings"]), ([], []))
        self.assertNotIn("leak", self.run_of("xray")[0].err)
        leaky = self.call("check", "--config", "xray.yaml", "--json", "data.split.by=sample")
        self.assertEqual((leaky.code, len(leaky.errors)), (65, 1), leaky)
        self.assertIn("split leak", leaky.err)
        self.assertTrue(any("in both train and valid (data.split.by=patient" in leak for leak in leaky.json()["leaks"]), leaky)
        self.assertTrue({"left_out", "split_by_sample"}.isdisjoint(found["name"] for found in leaky.json()["worth_a_look"]), leaky)

    def test_folders_already_split_and_one_picture_in_two_of_them(self):
        for part, begin, end in (("train", 0, 12), ("val", 12, 16)):
            for kind in ("defect", "good"):
                folder = self.folder / "ready" / part / kind
                folder.mkdir(parents=True)
                for path in sorted((self.folder / "chips" / kind).iterdir())[begin:end]:
                    shutil.copy(path, folder)
        self.write_config("ready", SMALL, {"data": {"format": "image_folder", "root": "ready", "image": {"size": [32, 32]}}})
        facts = self.good("check", "--config", "ready.yaml", "--json").json()
        self.assertEqual((facts["parts"]["train"]["samples"], facts["parts"]["valid"]["samples"]), (24, 8))
        for old, new in (("train", "Train"), ("val", "TEST")):
            (self.folder / "ready" / old).rename(self.folder / "ready" / new)
        facts = self.good("check", "--config", "ready.yaml", "--json").json()
        parts = {part: count["samples"] for part, count in facts["parts"].items()}
        self.assertEqual((parts["train"] + parts["valid"], parts["test"]), (24, 8))
        self.assertGreater(parts["valid"], 0)
        self.assertTrue(any("Train/, TEST/ name no validation part" in note for note in facts["notes"]), facts)
        anew = self.good("check", "--config", "ready.yaml", "--json", "data.split={valid: 0.2, test: 0.2}")
        self.assertTrue(any("take data.split out" in warning for warning in anew.json()["warnings"]), anew)
        for old, new in (("train", "Train"), ("val", "TEST")):
            (self.folder / "ready" / new).rename(self.folder / "ready" / old)
        twin = sorted((self.folder / "ready/train/good").iterdir())[0]
        shutil.copy(twin, self.folder / "ready/val/good/another_name.png")
        ended = self.call("check", "--config", "ready.yaml", "--json")
        self.assertEqual(ended.code, 65, ended)
        self.assertEqual(len(ended.json()["leaks"]), 1)
        for name in (twin.name, "another_name.png"):
            self.assertIn(name, ended.err)

    def test_pictures_with_masks(self):
        ended = self.good("check", "--config", "cells.yaml", "--json", "--quick")
        facts = ended.json()
        self.assertEqual(sum(part["samples"] for part in facts["parts"].values()), 20)
        self.assertEqual(facts["pictures_ok"], 20)
        self.assertRegex(ended.out, r"\n  head +conv +1x32x48 +9 ")
        self.assertFalse((self.folder / "runs").exists(), "check writes nothing")

    def test_more_processes_than_logical_ranks_are_refused_before_queueing(self):
        self.fails(self.call("check", "--config", "chips.yaml", "--world-size", 4), 78, "4", "logical_ranks 3")

    def test_all_bad_pictures_are_listed(self):
        shutil.copytree(self.folder / "chips", self.folder / "bad_chips")
        for name in ("defect/chip_0002.jpg", "good/chip_0003.png"):
            path = self.folder / "bad_chips" / name
            path.write_bytes(path.read_bytes()[:-100])
        ended = self.call("check", "--config", "chips.yaml", "data.root=bad_chips", "--json")
        self.assertEqual(ended.code, 65, ended)
        self.assertEqual((ended.json()["pictures_bad"], ended.json()["pictures_ok"]), (2, 38))
        for name in ("defect/chip_0002.jpg", "good/chip_0003.png"):
            self.assertIn(name, ended.err)

    # bench.

    def test_comm_adds_up_right_with_every_algorithm_and_says_what_it_costs(self):
        ended = self.good("bench", "comm", "--bytes", "4,40000", "--limit-steps", 5, "--json", ranks=3)
        report = ended.json()
        self.assertEqual(report["ranks"], 3)
        found = [(row["algorithm"], row["bytes"]) for row in report["results"]]
        self.assertEqual(found, [(name, size) for name in ("canonical", "ring", "fastest", "root_cpu", "mpi_allreduce")
                                 for size in (4, 40000)])
        self.assertEqual({row["transport"] for row in report["results"]}, {"shared memory", "messages"})
        for row in report["results"]:
            self.assertGreater(row["ms_median"], 0)
            self.assertLessEqual(row["ms_min"], row["ms_median"])
            self.assertAlmostEqual(row["bus_gb_per_s"], row["algorithm_gb_per_s"] * 4 / 3)
            self.assertEqual(row["repeat"], 5)

    def test_step_needs_no_configuration_and_takes_the_network_of_one(self):
        ended = self.good("bench", "step", "model.name=small_cnn", "data.image.size=[32,32]", "batch.per_rank=4", "--limit-steps", 3,
                          "--json", ranks=2)
        report = ended.json()
        self.assertEqual((report["model"], report["ranks"], report["steps"]), ("small_cnn", 2, 3))
        self.assertLess(report["images_per_s"], 1.5 * 8000 / report["step_ms_median"])
        self.assertGreater(report["images_per_s"], 0.6 * 8000 / report["step_ms_p95"])
        self.assertGreater(report["forward_images_per_s"], 0)
        self.assertGreater(report["matrix_peak_gflops"], 0)  # how it compares with the step a busy machine decides
        self.assertAlmostEqual(report["matrix_peak_share"],
                               report["gflop_per_image"] * report["images_per_s"] / report["matrix_peak_gflops"])
        named = self.good("bench", "step", "--config", "cells.yaml", "--limit-steps", 1, "--json").json()
        self.assertEqual(named["model"], "unet")

    def test_bench_wants_to_know_what(self):
        self.assertEqual(self.call("bench").code, 64)
        ended = self.call("bench", "stpe")
        self.assertEqual(ended.code, 64, ended)

    # Training.

    def test_a_timeline_shows_all_ranks(self):
        path = self.folder / "timeline.json"
        ended = self.good("--config", "chips.yaml", "epochs=1", "--run-dir", "traced", "--trace", path, ranks=2)
        self.assertIn("timeline.json", ended.err)
        events = json.loads(path.read_text())["traceEvents"]
        for rank in (0, 1):
            names = {event["name"] for event in events if event["pid"] == rank and event["ph"] == "X"}
            self.assertLessEqual({"step", "forward", "backward", "sum bucket", "update", "decode", "evaluate"}, names)
        lanes = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertLessEqual({"train", "reducer", "loader 0"}, lanes)

    def test_a_run_without_standard_streams_leaves_what_any_other_does(self):
        ended = self.call("--config", "chips.yaml", "--run-dir", "streamless", through=program.redirected("<&- >&- 2>&-"))
        self.assertEqual(ended.code, 0, ended)
        run = self.run_at("streamless")
        self.assertEqual(run.hash(), self.run_of("chips")[1].hash())
        self.assertEqual(run.result_rows(), self.run_of("chips")[1].result_rows())
        for line in (run.folder / "log.txt").read_text().splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:")
        self.assertEqual(len(run.events("epoch")), 3)

    def test_what_a_run_says_and_leaves_behind(self):
        ended, run = self.run_of("chips")
        self.assertEqual(ended.out, "", "nothing on stdout while training")
        for word in ("local rank  device  cores", "random start", "2 per rank x 3 logical ranks = 6 global", "0.001 -> 0.003",
                     "epoch 3/3", "best valid.accuracy", "result " + run.hash()):
            self.assertEqual(ended.err.count(word), 1, ended)
        for name in ("config.yaml", "run.json", "log.txt", "metrics.jsonl", "epochs.csv", "best.safetensors", "DONE"):
            self.assertTrue((run.folder / name).is_file(), name)
        self.assertIn("epoch 3/3", (run.folder / "log.txt").read_text())
        self.assertEqual([path.name for path in run.checkpoints()], [f"epoch-{e:04}-step-{5 * e:08}.safetensors" for e in (1, 2, 3)])
        self.assertEqual(list(run.folder.rglob("*.tmp")), [])
        with open(run.folder / "epochs.csv", encoding="utf-8") as file:
            header = file.readline().rstrip("\n").split(",")
        self.assertEqual(header[: len(EPOCH_COLUMNS)], EPOCH_COLUMNS)
        self.assertEqual(header[len(EPOCH_COLUMNS):], ["train_accuracy", "valid_accuracy", "valid_auroc", "valid_average_precision",
                                                       "compute_s", "imbalance_s", "update_s", "skipped_steps", "replaced_samples",
                                                       "gpu_memory_peak_mb"])
        for row in run.rows():
            for column in ("train_loss", "valid_loss", "images_per_s", "memory_peak_mb", "valid_auroc"):
                self.assertTrue(math.isfinite(float(row[column])), row)

    def test_metrics_jsonl_tells_every_event(self):
        run = self.run_of("chips")[1]
        kinds = [event["event"] for event in run.events()]
        # A checkpoint is reported when it is on the disk, while training continues.
        self.assertEqual([kind for kind in kinds if kind != "checkpoint"], ["start"] + (["step"] * 5 + ["epoch"]) * 3 + ["end"])
        self.assertEqual([(event["step"], event["epoch"]) for event in run.events("checkpoint")], [(5, 1), (10, 2), (15, 3)])
        self.assertEqual(kinds[-2:], ["checkpoint", "end"])
        for event, row in zip(run.events("epoch"), run.rows()):
            for column, text in row.items():
                self.assertEqual(event[column], float(text) if text else None, column)
        mean = sum(event["train_loss"] * samples for event, samples in zip(run.events("step"), (6, 6, 6, 6, 4))) / 28
        self.assertAlmostEqual(mean, float(run.rows()[0]["train_loss"]), places=9)
        for event in run.events():
            self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_the_stored_configuration_trains_to_the_same_bits_from_elsewhere(self):
        run = self.run_of("chips")[1]
        self.good("--config", run.folder / "config.yaml", "--run-dir", "from_stored")
        self.assertEqual(self.run_at("from_stored").hash(), run.hash())
        self.assertEqual(self.run_at("from_stored").facts()["fingerprint"], run.facts()["fingerprint"])

    def test_best_holds_the_weights_of_the_best_epoch(self):
        run = self.run_of("chips")[1]
        # The highest accuracy; of several epochs that have it the one with the lowest loss.
        best = max(run.rows(), key=lambda row: (float(row["valid_accuracy"]), -float(row["valid_loss"])))
        header = program.checkpoint_header(run.folder / "best.safetensors")
        metadata = header.pop("__metadata__")
        self.assertEqual(metadata["epoch"], best["epoch"])
        self.assertEqual(json.loads(metadata["classes"]), ["defect", "good"])
        self.assertEqual(metadata["image_size"], "32,32")
        checkpoint = run.checkpoints()[int(metadata["epoch"]) - 1]
        self.assertEqual(program.tensor_checksums(run.folder / "best.safetensors"), program.tensor_checksums(checkpoint, "model."))
        self.assertEqual({"model." + name for name in header}, {name for name in program.checkpoint_header(checkpoint) if name.startswith("model.")})

    def test_a_lower_loss_can_decide_what_is_best(self):
        self.good("--config", "chips.yaml", "--run-dir", "by_loss", "checkpoint.best.monitor=valid.loss")
        losses = [float(row["valid_loss"]) for row in self.run_at("by_loss").rows()]
        metadata = program.checkpoint_header(self.folder / "by_loss/best.safetensors")["__metadata__"]
        self.assertEqual(int(metadata["epoch"]), losses.index(min(losses)) + 1)

    def test_of_epochs_that_are_equally_good_the_one_with_the_lowest_loss_is_best(self):
        # Too fast to learn anything: every epoch calls all pictures one class, and half of them are.
        self.good("--config", "chips.yaml", "--run-dir", "ties", "optimizer.name=sgd", "optimizer.learning_rate=0.1")
        run = self.run_at("ties")
        accuracies = [float(row["valid_accuracy"]) for row in run.rows()]
        self.assertGreater(accuracies.count(max(accuracies)), 1, "no tie to decide")
        tied = [row for row in run.rows() if float(row["valid_accuracy"]) == max(accuracies)]
        best = min(tied, key=lambda row: float(row["valid_loss"]))
        metadata = program.checkpoint_header(run.folder / "best.safetensors")["__metadata__"]
        self.assertEqual(metadata["epoch"], best["epoch"])
        self.assertNotEqual(best, tied[0], "the first of them would have been kept too")

    def test_a_best_that_is_worse_than_the_frequencies_of_the_classes_is_a_warning(self):
        said = r"the validation loss of this best, [\d.e]+, is above [\d.]+, the loss of predicting the class frequencies"
        ended = self.good("--config", "chips.yaml", "--run-dir", "worse", "epochs=1", "optimizer.name=sgd", "optimizer.learning_rate=1")
        self.assertRegex(ended.err, said)
        ended = self.good("--config", "chips.yaml", "--run-dir", "better", "epochs=8")
        self.assertNotRegex(ended.err, said)

    def test_a_segmentation_that_calls_nothing_foreground_says_so_in_every_epoch(self):
        said = "not one pixel of the validation part was predicted as foreground"
        ended = self.good("--config", "cells.yaml", "--run-dir", "nothing", "model.base_width=2", "epochs=2", "loss.pos_weight=[1e-5]")
        for epoch in (1, 2):
            self.assertIn(f"epoch {epoch}: {said}", ended.err)
        self.assertEqual([row["valid_iou"] for row in self.run_at("nothing").rows()], ["0", "0"])
        ended, run = self.run_of("cells")
        for row in run.rows():
            self.assertEqual(f"epoch {row['epoch']}: {said}" in ended.err, float(row["valid_iou"]) == 0)

    def test_a_dry_run_takes_a_step_and_writes_nothing(self):
        ended = self.good("--config", "xray.yaml", "--dry-run", "--run-dir", "dry", ranks=2)
        self.assertIn("one step taken", ended.err)
        self.assertFalse((self.folder / "dry").exists())
        run = self.run_of("xray")[1]  # whose folder no other test writes to
        before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
        self.good("--config", "xray.yaml", "--run-dir", run.folder, "--dry-run", "--resume", "never")
        self.assertEqual({path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}, before)

    def test_quiet_prints_errors_alone(self):
        ended = self.good("--config", "chips.yaml", "--run-dir", "quiet", "epochs=1", "--quiet", ranks=2)
        self.assertEqual((ended.out, ended.err), ("", ""))
        self.assertTrue(self.run_at("quiet").done())

    def test_weights_of_a_run_start_another(self):
        best = self.run_of("chips")[1].folder / "best.safetensors"
        ended = self.good("--config", "chips.yaml", "--run-dir", "warm", f"model.weights={best}", "--limit-steps", 1, ranks=2)
        tensors = len(program.checkpoint_header(best)) - 1
        line = f"best.safetensors: {tensors} of {tensors} tensors loaded"
        self.assertEqual(ended.err.count(line), 1, ended)
        self.assertNotIn("random start", ended.err)
        self.assertIn(line, self.run_at("warm").facts()["weights"])
        cold = self.good("--config", "chips.yaml", "--run-dir", "cold", "--limit-steps", 1)
        self.assertIn("random start (seed 9)", cold.err)
        self.assertNotEqual(self.run_at("warm").hash(), self.run_at("cold").hash())

    def test_a_head_for_other_classes_is_left_at_random(self):
        best = self.run_of("chips")[1].folder / "best.safetensors"
        ended = self.good("--config", "xray.yaml", "--run-dir", "other_head", f"model.weights={best}", "--limit-steps", 1)
        tensors = len(program.checkpoint_header(best)) - 1
        self.assertRegex(ended.err, rf"{tensors - 2} of {tensors} tensors loaded; left at random: .*18\.weight.*\(2 → {LABELS}\)")

    def test_training_that_is_untouched_by_its_rate_would_be_seen(self):
        """The loaded weights, a rate of nearly nothing: the result is the file's own, and the metrics are its metrics."""
        run = self.run_of("chips")[1]
        epoch = int(program.checkpoint_header(run.folder / "best.safetensors")["__metadata__"]["epoch"])
        self.good("--config", "chips.yaml", "--run-dir", "frozen", f"model.weights={run.folder}/best.safetensors", "epochs=1",
                  "optimizer.name=sgd", "optimizer.learning_rate=1e-30", ranks=2)
        self.assertEqual(self.run_at("frozen").hash(), program.result_of(run.checkpoints()[epoch - 1]))
        for column in ("valid_loss", "valid_accuracy", "valid_auroc"):
            self.assertEqual(self.run_at("frozen").rows()[0][column], run.rows()[epoch - 1][column])

    # eval.

    def evaluate_best(self, name):
        """What eval prints and writes for the best weights of that run, made once."""
        return self.once(f"best {name}", lambda: self.evaluate(name, self.run_of(name)[1].folder / "best.safetensors", f"best_{name}"))

    def evaluate(self, name, checkpoint, output, *words, split="valid", ranks=None):
        ended = self.good("eval", "--config", f"{name}.yaml", "--checkpoint", checkpoint, "--output", output, "--split", split, "--json",
                          *words, ranks=ranks)
        return ended.json(), read_table(self.folder / output / f"predictions_{split}.csv")

    def equals_the_row(self, facts, row):
        self.assertEqual(facts["loss"], float(row["valid_loss"]))
        columns = [column for column in row if column.startswith("valid_") and column not in ("valid_loss", "valid_seconds")]
        self.assertGreaterEqual(len(columns), 2)
        for column in columns:
            value = facts[column[len("valid_"):]]
            self.assertEqual(value and value["value"], float(row[column]) if row[column] else None, column)
            if value and value["method"]:
                self.assertTrue(value["low"] <= value["value"] <= value["high"], value)

    def test_a_checkpoint_gives_the_figures_of_its_epoch(self):
        for number, name in enumerate(("chips", "xray", "cells")):
            run = self.run_of(name)[1]
            checkpoint, row = list(zip(run.checkpoints(), run.rows()))[number]
            with self.subTest(name, epoch=row["epoch"]):
                facts, table = self.evaluate(name, checkpoint, f"eval_{name}")
                self.equals_the_row(facts, row)
                self.assertEqual(len(table), facts["samples"])

    def test_the_best_weights_give_the_figures_of_the_best_epoch(self):
        for name in ("chips", "xray", "cells"):
            run = self.run_of(name)[1]
            epoch = int(program.checkpoint_header(run.folder / "best.safetensors")["__metadata__"]["epoch"])
            self.equals_the_row(self.evaluate_best(name)[0], run.rows()[epoch - 1])

    def test_any_number_of_processes_gives_the_same_figures_and_predictions(self):
        for name in ("xray", "cells"):
            first = self.evaluate_best(name)
            for ranks in (2, 3):
                again = self.evaluate(name, self.run_of(name)[1].folder / "best.safetensors", f"{ranks}_{name}", ranks=ranks)
                self.assertEqual(again, first)
                one, several = (self.folder / f"{folder}_{name}/predictions_valid.csv" for folder in ("best", ranks))
                self.assertEqual(one.read_bytes(), several.read_bytes())

    def test_predictions_of_many_labels_give_the_printed_auroc(self):
        facts, table = self.evaluate_best("xray")
        names = [column[len("score_"):] for column in table[0] if column.startswith("score_")]
        self.assertEqual(list(table[0]), ["path"] + [f"score_{name}" for name in names] + [f"label_{name}" for name in names] + ["patient"])
        self.assertEqual(len(names), LABELS)
        truth = {row["Image Index"]: row["Finding Labels"].split("|") for row in read_table(self.folder / "xray/Data_Entry_2017_v2020.csv")}
        self.assertEqual(len({row["path"] for row in table}), len(table))
        defined = []
        for name in names:
            scores = [float(row[f"score_{name}"]) for row in table]
            labels = [int(row[f"label_{name}"]) for row in table]
            self.assertEqual(labels, [int(name in truth[os.path.basename(row["path"])]) for row in table])
            self.assertTrue(all(0 <= score <= 1 for score in scores))
            value = auroc(scores, labels)
            if value is None:
                self.assertIsNone(facts[f"auroc_{name}"])
            else:
                self.assertAlmostEqual(facts[f"auroc_{name}"]["value"], value, places=12)
                defined.append(value)
        self.assertGreater(len(defined), 3)
        self.assertAlmostEqual(facts["auroc"]["value"], sum(defined) / len(defined), places=12)

    def test_predictions_of_one_class_of_several_give_the_printed_accuracy(self):
        facts, table = self.evaluate_best("chips")
        self.assertEqual(list(table[0]), ["path", "score_defect", "score_good", "label_defect", "label_good", "patient"])
        right = 0
        for row in table:
            self.assertAlmostEqual(float(row["score_defect"]) + float(row["score_good"]), 1, places=9)
            name = row["path"].split("/")[0]
            self.assertEqual((row["label_defect"], row["label_good"]), ("1", "0") if name == "defect" else ("0", "1"))
            right += float(row[f"score_{name}"]) > 0.5
        self.assertEqual(facts["accuracy"]["value"], right / len(table))

    def test_predictions_of_masks_give_the_printed_mean_iou(self):
        facts, table = self.evaluate_best("cells")
        self.assertEqual(list(table[0]), ["path", "iou", "dice", "patient", *(f"{count}_foreground" for count in ("both", "predicted", "mask", "distance"))])
        self.assertAlmostEqual(facts["iou_image"]["value"], sum(float(row["iou"]) for row in table) / len(table), places=12)

    def test_intervals_are_of_patients_and_name_their_method(self):
        words = ("eval", "--config", "xray.yaml", "--checkpoint", self.run_of("xray")[1].folder / "best.safetensors", "--split", "train",
                 "--output", "by_patient", "--json")
        ended = self.good(*words)
        facts = ended.json()
        rows = {row["Image Index"]: row["Patient ID"] for row in read_table(self.folder / "xray/Data_Entry_2017_v2020.csv")}
        judged = [os.path.basename(row["path"]) for row in read_table(self.folder / "by_patient/predictions_train.csv")]
        patients = len({rows[name] for name in judged})
        self.assertLess(patients, len(judged))
        self.assertEqual((facts["grouped_by"], facts["groups"], facts["samples"]), ("patient", patients, len(judged)))
        self.assertIn(f"{len(judged)} samples of {patients} patients", ended.out)
        told = {line.split()[0]: line for line in ended.out.splitlines() if line.startswith("  auroc")}
        methods = set()
        for name, figure in facts.items():
            if name.startswith("auroc") and figure:
                methods.add(figure["method"])
                self.assertEqual(figure["groups"], patients)
                self.assertIn(f"{figure['method']}, {patients} patients" if figure["method"] else figure["no_interval"], told[name])
        self.assertIn("Obuchowski", methods)

    def test_intervals_without_patients_are_of_samples(self):
        facts = self.evaluate_best("chips")[0]
        self.assertEqual((facts["grouped_by"], facts["groups"]), ("sample", facts["samples"]))
        self.assertEqual(facts["accuracy"]["method"], "Wilson")
        few = self.good("eval", "--config", "chips.yaml", "--checkpoint", self.run_of("chips")[1].folder / "best.safetensors",
                        "--output", "few", "--json", "data.split.valid=0.1", "--allow-trained")
        self.assertIn("the data do not identify patients", few.err)
        figure = few.json()["accuracy"]
        self.assertEqual((figure["low"], figure["high"], figure["method"]), (None, None, None))
        self.assertRegex(figure["no_interval"], r"^\d samples, fewer than 10$")
        self.assertIn(f"no 95 % interval: {figure['no_interval']}", few.out)

    def test_each_part_can_be_judged(self):
        best = self.run_of("xray")[1].folder / "best.safetensors"
        names = ("train", "valid", "test")
        parts = {part: {row["path"] for row in self.evaluate("xray", best, "parts", split=part)[1]} for part in names}
        for part in names:  # each in its own table, which the next evaluation does not change
            self.assertEqual({row["path"] for row in read_table(self.folder / f"parts/predictions_{part}.csv")}, parts[part])
        self.assertEqual(sum(map(len, parts.values())), 80)
        self.assertEqual(len(set.union(*parts.values())), 80)
        best = self.run_of("chips")[1].folder / "best.safetensors"
        ended = self.call("eval", "--config", "chips.yaml", "--checkpoint", best, "--split", "test")
        self.fails(ended, 78, "test part is empty")

    def test_predictions_lie_in_the_run_folder_unless_told_otherwise(self):
        best = self.run_of("chips")[1].folder / "best.safetensors"
        (best.parent / "predictions_valid.csv").unlink(missing_ok=True)
        self.good("eval", "--config", "chips.yaml", "--checkpoint", best, "name=mine")
        self.assertTrue((best.parent / "predictions_valid.csv").exists())
        (best.parent / "predictions_valid.csv").unlink()
        name = sorted((best.parent / "checkpoints").glob("*.safetensors"))[-1].name
        self.good("eval", "--config", "chips.yaml", "--checkpoint", f"{best.parent}/checkpoints/./{name}", "name=mine")
        self.assertTrue((best.parent / "predictions_valid.csv").exists())
        # Other weights do not replace the tables of the best ones, and no run's tables are those of another.
        if any(program.tensor_checksums(f"{best.parent}/checkpoints/{name}", "model.")[tensor] != sum_
               for tensor, sum_ in program.tensor_checksums(best, "").items()):
            self.fails(self.call("eval", "--config", "chips.yaml", "--checkpoint", f"{best.parent}/checkpoints/{name}"), 78,
                       "are of its best.safetensors", "--output")
        checkpoint = shutil.copy(best, self.folder / "elsewhere.safetensors")
        self.fails(self.call("eval", "--config", "chips.yaml", "--checkpoint", checkpoint, f"output.dir={best.parent.parent}",
                             f"name={best.parent.name}"), 78, "does not lie in the folder of a run", "--output")
        self.good("eval", "--config", "chips.yaml", "--checkpoint", checkpoint, "output.dir=there", "name=mine")
        self.assertTrue((self.folder / "there/mine/predictions_valid.csv").exists())

    def test_a_run_folder_stands_for_its_weights_and_its_newest_checkpoint(self):
        run = self.run_of("chips")[1]
        folder = shutil.copytree(run.folder, self.folder / "named run")

        def judged(*words):
            return self.good("eval", "chips.yaml", *words, "--json", "--output", "judged")
        best = judged("--checkpoint", folder)
        self.assertEqual(best.json(), judged("--checkpoint", folder / "best.safetensors").json())
        (folder / "best.safetensors").unlink()
        newest = judged("--checkpoint", folder)
        self.assertRegex(newest.err, f"named run has no best.safetensors; using its newest checkpoint: .*{run.checkpoints()[-1].name}")
        self.assertEqual(newest.json(), judged("--checkpoint", folder / "checkpoints" / run.checkpoints()[-1].name).json())
        own = self.good("eval", "--checkpoint", run.folder, "--json", "--output", "judged")
        self.assertEqual(own.json(), best.json())
        self.assertIn(f"configuration {run.folder}/config.yaml", own.err)
        alone = shutil.copy(run.folder / "best.safetensors", self.folder / "alone.safetensors")
        self.assertEqual(self.good("eval", "--checkpoint", alone, "--json", "--output", "judged").json(), best.json())
        self.fails(self.call("eval", "--checkpoint", shutil.copy(run.checkpoints()[-1], self.folder / "lone.safetensors")), 64, "--config FILE")
        self.fails(self.call("eval", "chips.yaml", "--checkpoint", self.folder / "chips"), 66, "holds no checkpoint")
        for number, named in enumerate((folder, folder / "checkpoints")):
            ended = self.good("chips.yaml", "epochs=4", "--run-dir", f"from_folder_{number}", "--resume", named)
            self.assertIn(f"{run.checkpoints()[-1].name}: 3 epochs finished", ended.err)
        self.assertEqual(self.run_at("from_folder_0").hash(), self.run_at("from_folder_1").hash())
        self.fails(self.call("chips.yaml", "--run-dir", "from_nothing", "--resume", self.folder / "chips"), 66, "holds no checkpoint")

    def test_weights_want_no_checkpoint_and_no_folder(self):
        run = self.run_of("chips")[1]
        ended = self.call("chips.yaml", "--run-dir", "cold", f"model.weights={run.checkpoints()[-1]}")
        self.fails(ended, 78, "is a checkpoint", "--resume", f"model.weights={run.folder}/best.safetensors")
        self.fails(self.call("chips.yaml", "--run-dir", "cold", f"model.weights={run.folder}"), 78, "is a folder", f"model.weights={run.folder}/best.safetensors")

    def test_the_next_line_can_be_pasted_into_a_shell(self):
        ended = self.good("chips.yaml", "epochs=1", "--run-dir", "two words")
        line = ended.err.splitlines()[-1]
        words = shlex.split(line.partition("next: dtrain ")[2])
        self.assertEqual(words, ["eval", "--checkpoint", "two words"])
        self.good(*words)

    # sample.

    def test_the_same_seed_gives_the_same_pictures_and_another_gives_others(self):
        def content(name, seed):
            self.good("sample", "--kind", "xray", "--count", 12, "--output", name, "--seed", seed)
            root = self.folder / name
            return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        first = content("xray_a", 5)
        self.assertEqual(content("xray_b", 5), first)
        self.assertNotEqual(content("xray_c", 6), first)
        self.assertEqual(len([name for name in first if name.endswith((".png", ".jpg"))]), 12)

    def test_a_network_learns_the_generated_chips(self):
        self.sample("chips", 120, "many_chips")
        self.good("--config", "chips.yaml", "--run-dir", "learns", "data.root=many_chips", "epochs=8", "data.image.size=[48, 48]",
                  "schedule.scale_with_ranks=none", ranks=2)
        rows = self.run_at("learns").rows()
        self.assertLess(float(rows[-1]["train_loss"]), 0.6 * float(rows[0]["train_loss"]))
        self.assertGreaterEqual(max(float(row["valid_accuracy"]) for row in rows), 0.8)


if __name__ == "__main__":
    program.main(at_once=3)
