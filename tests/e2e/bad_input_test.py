"""Users' mistakes: one clear last line, the right exit code, no crash, no hang, alone and under mpirun."""

import json
import os
import shutil
import struct
import zlib

import program

SMALL = {
    "epochs": 1,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}},
}
XRAY = {"data": {"format": "nih_cxr14", "root": "xray", "labels": "Data_Entry_2017_v2020.csv"}}
CELLS = {"model": {"name": "unet"}, "data": {"format": "image_mask", "root": "cells"}}
SOON = 20 * program.PATIENCE  # seconds: less than any wait for ranks, data or time limits, but enough for a busy machine
LINE_LIMIT = 400  # characters that a single sentence may have


def huge_png(width, height):
    """A well-formed PNG header that promises far more pixels than the file has."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + chunk(b"IEND", b"")


class BadInput(program.ProgramTest):
    """The sentences themselves are tested by the unit tests of the modules that print them (tests/unit/config, data,
    io, line, model). Here is how the program ends: its codes and its last line, alone and, once for each kind of error, under
    mpirun."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sample("chips", 24)
        cls.sample("xray", 40)
        cls.sample("cells", 12)
        cls.write_config("small", SMALL)
        cls.write_config("xray", {key: SMALL[key] for key in ("epochs", "model", "batch")}, {"data": {"image": {"size": [32, 32]}}}, XRAY)
        cls.write_config("cells", {key: SMALL[key] for key in ("epochs", "batch")}, {"data": {"image": {"size": [32, 48]}}}, CELLS)

    def copy(self, kind, name):
        return shutil.copytree(self.folder / kind, self.folder / name)

    def fails(self, ended, code, *words, rank=None):
        super().fails(ended, code, *words, rank=rank)
        self.assertLess(len(ended.errors[0]), LINE_LIMIT, ended)

    def case(self, config, code, *words, options=(), ranks=(None,)):
        """dtrain with `config` and `options` ends with `code`, alone or under mpirun, and its last line holds `words`."""
        for count in ranks:
            with self.subTest(words=words, options=options, ranks=count):
                run = "run_" + self.id().rpartition(".")[2]
                ended = self.call("--config", f"{config}.yaml", "--run-dir", run, *options, ranks=count)
                self.fails(ended, code, *words, rank=None if count is None else 0)
                self.assertFalse((self.folder / run / "DONE").exists())
                yield ended

    def check_cases(self, *cases, **how):
        return [ended for case in cases for ended in self.case(*case[:-1], options=case[-1], **how)]

    # The command line and the configuration.

    def test_bad_command_lines(self):
        # What is refused, and how, is in tests/unit/line; here is how the program ends.
        for words, wanted in (((), "no configuration"), (("—dry-run",), "'—dry-run'"), (("check", "small.yaml", "chips"), "'data.root=chips'")):
            ended = self.call(*words)
            self.fails(ended, 64, wanted)
            self.assertLess(ended.seconds, SOON)
        self.fails(self.call("--cofnig", "small.yaml", ranks=2), 64, "--cofnig", rank=0)

    def test_an_unknown_key_is_named_with_its_place_and_the_likely_word(self):
        (self.folder / "typo.yaml").write_text("data:\n  format: image_folder\n  root: chips\noptimizer:\n  lerning_rate: 0.1\n")
        ended = self.call("--config", "typo.yaml")
        self.fails(ended, 78, "typo.yaml:5:3", "optimizer.lerning_rate", "learning_rate'")
        self.assertLess(ended.seconds, SOON)

    def test_a_configuration_that_is_too_deep_is_refused_at_once(self):
        (self.folder / "deep.yaml").write_text("data: " + "[" * 200_000)
        ended = self.call("--config", "deep.yaml")
        self.fails(ended, 78, "deep.yaml:1:", "nested deeper than 32 levels")
        self.assertLess(ended.seconds, SOON)

    def test_what_stands_beside_the_labels_of_patients_reaches_no_file_and_no_message(self):
        root = self.copy("xray", "secret")
        path = root / "Data_Entry_2017_v2020.csv"
        rows = [line.split(",") for line in path.read_text().splitlines()]
        for row in rows[1:]:
            row[3], row[4] = "WHO" + row[3], "AGE" + row[4]  # Patient ID and Patient Age
        path.write_text("".join(",".join(row) + "\n" for row in rows))
        words = ("--config", "xray.yaml", "data.root=secret", "epochs=1", "--log-level", "debug")
        good = self.good(*words, "--run-dir", "run_secret")
        checked = self.call("check", *words, "data.split={valid: 0.3, by: sample}")
        path.write_text(path.read_text().replace(rows[1][1], "No Such Finding", 1))
        bad = self.call(*words, "--run-dir", "run_bad")
        self.fails(bad, 65, "findings")
        said = [text for ended in (good, checked, bad) for text in (ended.out, ended.err)]
        said += [file.read_bytes().decode("latin-1") for file in (self.folder / "run_secret").rglob("*") if file.is_file()]
        for text in said:
            self.assertNotRegex(text, "WHO[0-9]|AGE[0-9]")

    def test_names_steer_no_terminal_and_make_no_lines(self):
        data = self.copy("chips", "hostile")
        evil = "\x1b[2Jx\ndtrain: error 0: all good\u202e.png"
        good = (data / "good/chip_0000.png") if (data / "good/chip_0000.png").exists() else next((data / "good").iterdir())
        (data / "good" / evil).write_bytes(good.read_bytes()[:40])
        (data / "good" / ("é肺" + evil)).write_bytes(good.read_bytes()[:40])
        written = "\\u001b[2Jx\\ndtrain: error 0: all good\\u202e.png"

        def plain(text):
            self.assertFalse({"\x1b", "\u202e"} & set(text), text)
            self.assertFalse([line for line in text.splitlines() if line.startswith("dtrain: error 0")], text)
        ended = self.call("check", "--config", "small.yaml", "data.root=hostile", "--json", "--output", "hostile.json")
        self.fails(ended, 65, "2 findings")
        self.assertIn("é肺" + written, ended.err)
        plain(ended.out + ended.err)
        self.assertEqual({os.path.basename(row["path"]) for row in json.loads((self.folder / "hostile.json").read_text())["bad"]}, {evil, "é肺" + evil})
        ended = self.good("--config", "small.yaml", "--run-dir", "hostile_run", "data.root=hostile", "data.loader.on_bad_sample=replace",
                          "data.split.valid=0")
        log = (self.folder / "hostile_run/log.txt").read_text()
        self.assertIn("  " + str(data / "good") + "/" + written, log)
        plain(ended.err + log)
        (self.folder / "hostile_checkpoints").mkdir()
        (self.folder / "hostile_checkpoints" / evil).write_bytes(b"no checkpoint")
        ended = self.call("verify", "hostile_checkpoints", "--json")
        plain(ended.out + ended.err)
        self.fails(self.call("--config", "a\x1b[2Jb.yaml"), 64, "a word of the command line holds a control character: 'a\\u001b[2Jb.yaml'")

    def test_all_mistakes_are_told_at_once(self):
        (self.folder / "many.yaml").write_text(
            "data: {format: image_folder, root: chips}\nepochs: -1\nmodel:\n  name: resnet5\nbatch: {per_rank: many}\nseed: 1\nseed: 2\n")
        for ranks in (None, 2):
            ended = self.call("--config", "many.yaml", "optimizer.momentum=0.9", ranks=ranks)
            self.fails(ended, 78, "5 errors", rank=0 if ranks else None)
            for place in ("many.yaml:2:", "many.yaml:4:", "many.yaml:5:", "many.yaml:7:", "command line"):
                self.assertEqual(sum(line.startswith(place) for line in ended.err.splitlines()), 1, ended)
            self.assertEqual(ended.out, "")
            self.assertNotIn("MPI_ABORT", ended.err)  # MPI had not started

    def test_wrong_values_are_told_soon(self):
        for words, wanted in (
            (("model.outputs=3.5",), "model.outputs"),
            (("data.root=${NOT_SET_ANYWHERE}",), "NOT_SET_ANYWHERE"),
            (("data={format: image_folder",), "command line"),
        ):
            with self.subTest(words=words):
                ended = self.call("--config", "small.yaml", *words)
                self.assertEqual(ended.code, 78, ended)
                self.assertIn(wanted, ended.err)
                self.assertLess(ended.seconds, SOON)

    def test_a_configuration_that_cannot_be_read(self):
        self.fails(self.call("--config", "absent.yaml", ranks=2), 66, "absent.yaml", rank=0)
        self.fails(self.call("check", "--config", "small.yaml", "--config", "absent.yaml"), 66, "absent.yaml")

    # Data sets.

    def test_files_and_folders_that_are_absent(self):
        self.check_cases(("small", 66, "data.root", "nowhere", ("data.root=nowhere",)), ranks=(2,))
        self.check_cases(
            ("xray", 66, "labels.csv", ("data.labels=labels.csv",)),
            ("small", 66, "pretrained.safetensors", ("model.weights=pretrained.safetensors",)))

    def test_folders_without_pictures(self):
        (self.copy("chips", "gap") / "third").mkdir()
        self.check_cases(("small", 65, "gap/third", "holds no picture", ("data.root=gap",)))

    def test_pictures_without_mask_and_masks_without_picture(self):
        root = self.copy("cells", "unpaired")
        gone = [root / "masks/cells_0002.png", root / "masks/cells_0007.png", root / "images/cells_0005.png"]
        for path in gone:
            path.unlink()
        for ended in self.check_cases(("cells", 65, "3 problems", ("data.root=unpaired",)), ranks=(2,)):
            for name in ("images/cells_0002.png", "images/cells_0007.png", "masks/cells_0005.png"):
                self.assertIn(name, ended.err)

    def test_masks_in_which_no_listed_value_stands(self):
        self.check_cases(("cells", 65, "mask_values", "0, 255", ("data.image_mask.mask_values={7: 1}",)))

    def test_pictures_that_the_table_names_but_the_disk_lacks_are_listed_up_to_a_cap(self):
        root = self.copy("xray", "holes")
        names = sorted(path.name for path in (root / "images").iterdir())
        for name in names[:30]:
            (root / "images" / name).unlink()
        for ended in self.check_cases(("xray", 66, "30 pictures", "Data_Entry_2017_v2020.csv", ("data.root=holes",))):
            self.assertIn(names[0], ended.err)
            listed = sum(name in ended.err for name in names[:30])
            self.assertTrue(5 <= listed < 30, ended)
            self.assertIn(f"and {30 - listed} more", ended.err)

    def test_a_label_table_that_is_wrong(self):
        table = self.copy("xray", "wrong_table") / "Data_Entry_2017_v2020.csv"
        table.write_text(table.read_text().replace("No Finding", "Flu", 1))
        for ended in self.check_cases(("xray", 65, "wrong_table", "neither among the 14 findings", ("data.root=wrong_table",))):
            self.assertIn("line 2: 'Flu'", ended.err)

    def test_pictures_that_are_damaged(self):
        root = self.copy("chips", "damaged")
        pictures = {suffix: iter(sorted((root / "good").glob("*." + suffix))) for suffix in ("png", "jpg")}
        victims = {}
        for suffix, name, damage in (
            ("png", "cut", lambda path: path.write_bytes(path.read_bytes()[:-2000])),
            ("jpg", "cut", lambda path: path.write_bytes(path.read_bytes()[:-200])),
            ("jpg", "headless", lambda path: path.write_bytes(path.read_bytes()[:20])),
            ("png", "nothing", lambda path: path.write_bytes(b"")),
            ("png", "text", lambda path: path.write_text("<html>404 not found</html>\n")),
            ("png", "promise", lambda path: path.write_bytes(huge_png(2**31 - 1, 2**31 - 1))),
            ("png", "bomb", lambda path: path.write_bytes(huge_png(30000, 30000))),
        ):
            victims[suffix, name] = next(pictures[suffix])
            damage(victims[suffix, name])
        checked = self.call("check", "--config", "small.yaml", "data.root=damaged", "--output", "damaged.json")
        self.fails(checked, 65, "7 findings")
        for victim in victims.values():
            self.assertIn(str(victim), checked.err)
        jobs = {}
        for kind in (("png", "cut"), ("png", "bomb"), ("jpg", "headless"), ("png", "nothing"), ("png", "text")):
            alone = self.copy("chips", "_".join(kind))
            shutil.copy(victims[kind], alone / "good" / victims[kind].name)
            jobs[alone] = victims[kind].name
        trained = program.all_of([lambda alone=alone: self.call("--config", "small.yaml", "--run-dir", f"run_{alone.name}", "--progress", "none",
                                                                f"data.root={alone.name}", "data.split.valid=0") for alone in jobs])
        for (alone, name), ended in zip(jobs.items(), trained):
            with self.subTest(alone.name):
                self.fails(ended, 65, alone / "good" / name)
                self.assertFalse(self.run_at(f"run_{alone.name}").done())

    def test_a_damaged_picture_on_any_rank_ends_all(self):
        root = self.copy("chips", "one_bad")
        for number, path in enumerate(sorted((root / "good").glob("*.jpg"))[:3]):
            path.write_bytes(path.read_bytes()[: 100 + number])
        ended = self.call("--config", "small.yaml", "--run-dir", "one_bad_run", "data.root=one_bad", "data.split.valid=0", ranks=3)
        self.assertEqual(ended.code, 65, ended)
        self.assertEqual(len(ended.errors), 1, ended)
        for line in ended.errors:
            self.assertRegex(line, r"^dtrain: error 65 \[rank \d @ .*one_bad/good/chip_\d+\.jpg")

    def test_list_files_that_do_not_fit(self):
        lists = self.folder / "chips_lists"
        names = sorted(str(path.relative_to(self.folder / "chips")) for path in (self.folder / "chips").rglob("*.*"))
        lists.mkdir()
        (lists / "train.txt").write_text("\n".join(names[:12] + ["good/ghost.png"]))
        (lists / "valid.txt").write_text("\n".join(names[12:]))
        (lists / "right.txt").write_text("\n".join(names[:12]))

        def options(train, valid):
            return (f"data.split.files={{train: {lists}/{train}, valid: {lists}/{valid}}}",)
        for ended in self.check_cases(("small", 66, "data.split", options("train.txt", "valid.txt"))):
            self.assertIn("train.txt:13: 'good/ghost.png'", ended.err)
        self.good("--config", "small.yaml", "--run-dir", "lists", *options("right.txt", "valid.txt"))

    def test_patients_in_two_parts_are_a_warning(self):
        ended = self.good("--config", "xray.yaml", "--run-dir", "leak", "data.split.by=sample", "data.split.valid=0.4")
        self.assertIn("split leak", ended.err)
        self.assertIn("train and valid", ended.err)

    # Ranks that were not started alike.

    def check_ranks(self, *cases, **how):
        """Jobs of two ranks that are started with the words `first` and `second`; each ends with `code`, and the last line, which
        `rank` prints, holds `words`."""
        def job(number, first, second):
            common = ("--config", "small.yaml", "--run-dir", f"unlike_{self.id().rpartition('.')[2]}_{number}", "--progress", "none")
            return lambda: self.call_ranks((*common, *first), (*common, *second), **how)
        jobs = program.all_of([job(number, first, second) for number, (first, second, *_) in enumerate(cases)])
        for (first, second, code, rank, *words), ended in zip(cases, jobs):
            with self.subTest(first=first, second=second):
                self.fails(ended, code, *words, rank=rank)
        self.assertEqual(list(self.folder.glob(f"unlike_{self.id().rpartition('.')[2]}_*")), [])

    def test_ranks_that_were_started_unlike_are_told_in_what(self):
        differences = (
            ((), ("optimizer.learning_rate=0.01",), ("optimizer.learning_rate (0.01 against 0.001); ",)),
            (("distributed.logical_ranks=4", "epochs=2"), (), ("distributed.logical_ranks (auto against 4), and in epochs; ",)),
            ((), ("distributed.reduction=ring", "distributed.intra_host=network", "distributed.bucket_mb=1", "distributed.check_every=7",
                  "checkpoint.every=5 steps"),
             ("checkpoint.every (5 steps against 1 epoch), and in distributed.bucket_mb, distributed.check_every, "
              "distributed.intra_host, distributed.reduction; ",)),
            ((), ("optimizer.name=sgd", "seed=3"), ("optimizer.betas (not set against", "optimizer.name", "seed")),
            (("--dry-run",), ("--resume", "never", "--limit-steps", "2", "--trace", "t.json"),
             ("--resume (never against auto), and in --dry-run, --limit-steps, --trace; ",)),
        )
        self.check_ranks(*((first, second, 78, 0, "rank 1 @ ", " differs from rank 0 in ", *words, "; all ranks must be started with the same")
                           for first, second, words in differences))
        self.assertFalse((self.folder / "t.json").exists())

    def test_ranks_with_another_folder_command_or_processor_are_told(self):
        self.fails(self.call_ranks(("--config", "small.yaml", "--run-dir", "here"), ("--config", "small.yaml", "--run-dir", "there")),
                   78, "--run-dir (there against here)", rank=0)
        self.fails(self.call_ranks(("--config", "small.yaml"), ("eval", "--config", "small.yaml", "--checkpoint", "x")),
                   78, "command (eval against train)", rank=0)
        for words in (("bench", "step", "--limit-steps"), ("bench", "comm", "--limit-steps")):
            self.fails(self.call_ranks((*words, "2"), (*words, "3")), 78, "--limit-steps (3 against 2)", rank=0)
        self.check_ranks(((), (), 78, 0, "processor: vector code (DEFAULT against ", "processors of one kind"),
                         env_of_ranks={0: {"ATEN_CPU_CAPABILITY": "avx2"}, 1: {"ATEN_CPU_CAPABILITY": "default"}})

    def test_ranks_that_see_other_data_are_told(self):
        self.good("sample", "--kind", "chips", "--count", 24, "--seed", 9, "--output", "other_chips")
        lists = self.folder / "halves"
        lists.mkdir()
        names = sorted(str(path.relative_to(self.folder / "chips")) for path in (self.folder / "chips").rglob("*.*"))
        for folder, cut in (("one", 12), ("two", 14)):
            (lists / folder).mkdir()
            shutil.copytree(self.folder / "chips", lists / folder, dirs_exist_ok=True)
            (lists / folder / "train.txt").write_text("\n".join(names[:cut]))
            (lists / folder / "valid.txt").write_text("\n".join(names[cut:]))

        def options(folder):
            root = lists / folder
            return (f"data.root={root}", f"data.split.files={{train: {root}/train.txt, valid: {root}/valid.txt}}")
        self.check_ranks(((), ("data.root=other_chips",), 78, 0, " in data (", "all ranks must see the same files"),
                         (options("one"), options("two"), 78, 0, " in split of the data (", "all ranks must see the same files"))

    def test_the_same_data_in_another_folder_are_the_same(self):
        self.copy("chips", "chips_of_node_1")
        common = ("--config", "small.yaml", "--run-dir", "two_roots")
        ended = self.call_ranks(common, (*common, "data.root=chips_of_node_1", "data.loader.threads=2"))
        self.assertEqual(ended.code, 0, ended)
        self.assertTrue(self.run_at("two_roots").done())

    def test_a_rank_that_leaves_before_the_others_ends_the_job(self):
        self.check_ranks(((), ("typo=3",), 78, 1, "unknown key 'typo'"),
                         ((), ("--cofnig",), 64, 1, "--cofnig"),
                         ((), ("distributed.backend=serial",), 78, 1, "serial"),
                         ((), ("data.root=nowhere",), 66, 1, "nowhere"))

    def test_a_rank_that_ends_well_before_the_others_have_joined_ends_the_job(self):
        # Whether mpirun notices it depends on who came first. If it does not, the watchdog ends the wait.
        ended = self.call_ranks(("--config", "small.yaml", "--run-dir", "joined", "distributed.watchdog.abort=8 s"), ("info",))
        self.assertNotEqual(ended.code, 0, ended)
        if ended.errors:  # mpirun may add a message to it, depending on the same chance
            super().fails(ended, 76, "in start-up", rank=0, last=False)

    def test_more_ranks_than_cores_are_a_warning(self):
        cores = len(os.sched_getaffinity(0))
        if cores > 8:
            self.skipTest("so many ranks would need more pictures")
        ended = self.good("--config", "small.yaml", "--run-dir", "crowd", "data.split.valid=0", "--limit-steps", "1", ranks=cores + 1)
        self.assertRegex(ended.out + ended.err, rf"{cores + 1} ranks on .* take turns on {cores} core")
        self.assertIn(f"wait less, and with distributed.logical_ranks={cores + 1} give the same result", ended.out + ended.err)

    # What does not fit together.

    def test_counts_that_do_not_fit(self):
        self.check_cases(
            ("small", 78, "model.outputs", "2 classes", ("model.outputs=5",)),
            ("small", 78, "30 logical ranks", ("distributed.logical_ranks=30",)),
            ("small", 78, "'fc.*' matches no parameter", ('optimizer.groups=[{match: "fc.*", rate: 0.1}]',)),
            ("small", 78, "mpi", ("distributed.backend=mpi",)))
        self.check_cases(
            ("small", 78, "more processes (2)", "(1)", ("distributed.logical_ranks=1",)),
            ("small", 78, "serial", ("distributed.backend=serial",)), ranks=(2,))

    def test_check_finds_groups_that_match_nothing(self):
        self.fails(self.call("check", "small.yaml", 'optimizer.groups=[{match: "fc.*", rate: 0.1}]', "--output", "groups.json"), 78,
                   "'fc.*' matches no parameter of this network")

    def test_weights_of_another_network(self):
        self.good("--config", "cells.yaml", "--run-dir", "unet")
        weights = self.folder / "unet/best.safetensors"
        for ended in self.check_cases(("small", 65, "unet/best.safetensors", (f"model.weights={weights}",))):
            self.assertIn("missing: ", ended.err)
        # A configuration of another task or network, from a file or by keys.
        for words, wanted in ((("--config", "cells.yaml", "model.base_width=4"), ("model.base_width was 8 and is now 4",)),
                              (("--config", "small.yaml"), ("task was segmentation and is now multiclass", "model.name was unet and is now small_cnn")),
                              (("model.base_width=4",), ("model.base_width=4 is not that of", "best.safetensors, 8")),
                              (("model.name=small_cnn", "task=multiclass"), ("2 errors",))):
            self.fails(self.call("eval", *words, "--checkpoint", weights, "--output", "judged"), 78, *wanted)
            self.fails(self.call("predict", *words, "--checkpoint", weights, "--input", "cells/images", "--output", "said"), 78, *wanted)
            self.fails(self.call("export", *words, "--checkpoint", weights, "--output", "net.onnx"), 78, *wanted)
        # Keys that have no effect where nothing is trained, or nothing evaluated.
        for words, wanted in ((("optimizer.learning_rate=0.1",), ("optimizer.learning_rate has no effect on dtrain",)),
                              (("epochs=3", "schedule.warmup=1 epoch"), ("2 errors",))):
            self.fails(self.call("eval", *words, "--checkpoint", weights, "--output", "judged"), 78, *wanted)
            self.fails(self.call("predict", *words, "--checkpoint", weights, "--input", "cells/images", "--output", "said"), 78, *wanted)
            self.fails(self.call("export", *words, "--checkpoint", weights, "--output", "net.onnx"), 78, *wanted)
        self.fails(self.call("predict", "data.split.valid=0.5", "--checkpoint", weights, "--input", "cells", "--output", "said"), 78,
                   "data.split.valid has no effect on dtrain predict, which evaluates nothing")
        self.assertEqual([name for name in ("judged", "said", "net.onnx") if (self.folder / name).exists()], [])
        self.fails(self.call("eval", "--config", "small.yaml", "--checkpoint", "none.safetensors"), 66, "none.safetensors")
        self.check_cases(("cells", 65, "is not a checkpoint", ("--resume", str(weights))))

    def test_a_run_folder_that_cannot_be_written(self):
        locked = self.folder / "locked"
        locked.mkdir()
        locked.chmod(0o555)
        for ranks in (None, 2):
            ended = self.call("--config", "small.yaml", "--run-dir", "locked/run", ranks=ranks, through=program.without_write_override())
            self.fails(ended, 77, "locked/run", "may not write in", "output.dir", rank=0 if ranks else None)
        (self.folder / "a_file").write_text("in the way")
        ended = self.call("--config", "small.yaml", "--run-dir", "a_file")
        self.assertIn(ended.code, (66, 74, 77), ended)
        self.fails(ended, ended.code, "a_file")
        self.assertEqual((self.folder / "a_file").read_text(), "in the way")

    def test_a_folder_that_holds_something_else_is_not_overwritten_by_sample(self):
        full = self.folder / "full"
        full.mkdir()
        (full / "thesis.txt").write_text("mine")
        ended = self.call("sample", "--kind", "chips", "--output", "full")
        self.assertNotIn(ended.code, (0, 70), ended)
        self.assertIn("full", ended.errors[-1])
        self.assertEqual([path.name for path in full.iterdir()], ["thesis.txt"])

    def test_divergence_is_agreed_by_all_ranks(self):
        options = ("optimizer.name=sgd", "optimizer.learning_rate=1e30")
        for ended in self.check_cases(("small", 79, "the loss", "optimizer.learning_rate", options), ranks=(None, 3)):
            self.assertRegex(ended.errors[0], r"in step \d+")

    def test_a_loss_that_runs_away_ends_the_run_and_names_a_checkpoint_only_where_there_is_one(self):
        words = ("--config", "small.yaml", "distributed.logical_ranks=2", "optimizer.name=adam", "optimizer.learning_rate=100")
        keys = ("optimizer.learning_rate", "schedule.warmup", "optimizer.clip_norm")
        sentences = set()
        self.good(*words, "--run-dir", "away-stopped", "--limit-steps", 3)
        for name, ranks, way_on in (("alone", None, "no checkpoint is saved"), ("two", 2, "no checkpoint is saved"),
                                    ("stopped", 2, "newest checkpoint: away-stopped/")):
            ended = self.call(*words, "--run-dir", f"away-{name}", ranks=ranks)
            self.fails(ended, 79, "the loss has run away: its mean over 6 steps is ", way_on, *keys, rank=0 if ranks else None)
            sentences.add(ended.errors[0].partition("by step ")[2].partition(keys[-1])[0])
            self.assertFalse((self.folder / f"away-{name}/DONE").exists())
        self.assertEqual(len(sentences), 1, sentences)
        self.fails(self.call(*words, "--run-dir", "away-saved", "checkpoint.every=1 steps"), 79, *keys,
                   "newest checkpoint: away-saved/", "--resume-with KEY")


if __name__ == "__main__":
    program.main(at_once=3)
