"""dtrain simulate: scaling predicted from a run and from benchmarks, and check's time, which is the same prediction."""

import json

import program

SMALL = {
    "name": "small", "seed": 3, "epochs": 3,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 4},
    "data": {"format": "synthetic", "synthetic": {"samples": 60, "classes": 3}, "image": {"size": [16, 16]}, "split": {"valid": 20 / 60}},
}
CLUSTER = "ranks_per_node: 4\ninside: {latency_us: 5, gb_per_s: 20}\nbetween: {latency_us: 20, gb_per_s: 2}\n"


class Simulate(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write_config("small", SMALL)
        (cls.folder / "cluster.yaml").write_text(CLUSTER)
        cls.good("--config", "small.yaml", "--run-dir", "run")
        step = cls.good("bench", "step", "-c", "small.yaml", "--limit-steps", "12", "--json").out
        (cls.folder / "step.json").write_text(step)
        cls.step = json.loads(step.splitlines()[-1])

    def simulated(self, *words):
        ended = self.good("simulate", "--json", *words)
        return ended, ended.json()

    def test_one_rank_is_as_measured_and_more_are_predicted_for_three_kinds_of_sums(self):
        ended, told = self.simulated("--from", "step.json", "--ranks", "1,8,65536", "--cluster", "cluster.yaml")
        one, eight, most = told["points"]
        self.assertEqual([point["ranks"] for point in told["points"]], [1, 8, 65536])
        self.assertEqual([point["nodes"] for point in told["points"]], [1, 2, 16384])
        for way in ("canonical", "ring", "hierarchical"):
            self.assertAlmostEqual(one[way]["images_per_s"] / self.step["images_per_s"], 1, 9)
            self.assertEqual(one[way]["efficiency"], 1)
            self.assertGreater(one[way]["efficiency"], eight[way]["efficiency"])
            self.assertGreater(eight[way]["efficiency"], most[way]["efficiency"])
            parts = sum(eight[way][f"{part}_ms"] for part in ("compute", "straggler", "latency", "bandwidth", "input"))
            self.assertAlmostEqual(parts, eight[way]["step_ms"], 9)
        self.assertLess(most["ring"]["efficiency"], most["hierarchical"]["efficiency"])  # 131,070 hops against 28 rounds
        self.assertEqual(told["measured"]["gradient_mb"], self.step["gradient_mb"])
        self.assertIn("published points this model is off by 2.5 points", ended.out)
        self.assertEqual((told["published_points"], round(told["published_error_points"], 1)), (26, 2.5))

    def test_a_run_knows_how_long_it_trains(self):
        ended, told = self.simulated("--from", "run", "--ranks", "1,2")
        rows = self.run_at("run").rows()[1:]
        one = told["points"][0]["canonical"]
        steady = sum(float(row["epoch_seconds"]) for row in rows) / sum(int(row["steps"]) for row in rows)
        self.assertAlmostEqual(one["step_ms"] / 1000 / steady, 1, 6)
        self.assertGreater(one["time_to_train_s"], 3 * 10 * steady)  # 3 epochs of 10 steps, start and evaluation
        self.assertAlmostEqual(one["node_hours"], one["time_to_train_s"] / 3600)
        self.assertTrue(any("one machine" in sentence for sentence in told["assumed"]), told["assumed"])
        self.assertIn("do not pay", ended.out)

    def test_logical_ranks_are_shared_by_ranks(self):
        shared = self.simulated("--from", "step.json", "--logical-ranks", "8", "--ranks", "1,2")[1]
        one, two = (point["canonical"] for point in shared["points"])
        self.assertAlmostEqual(one["compute_ms"] / (8 * 1e3 * 4 / self.step["images_per_s"]), 1, 9)
        self.assertAlmostEqual(two["compute_ms"], one["compute_ms"] / 2)
        self.fails(self.call("simulate", "--from", "step.json", "--logical-ranks", "2", "--ranks", "4"), 64, "--logical-ranks 2")

    def test_the_published_points(self):
        ended, told = self.simulated("--validate")
        own = told["own"]
        self.assertEqual(len(own), 3)
        for way in ("one", "two"):
            errors = [abs(100 * (point[f"from_{way}_ms"] / point["step_ms"] - 1)) for point in own]
            self.assertLess(max(errors), 10)
            self.assertAlmostEqual(told[f"own_error_percent_from_{way}"], sum(errors) / 3)
        self.assertIn("our own 3 steps of 8 logical ranks on 2 processes by 5.2 % of the step from one process", ended.out)
        errors = [abs(point["error_points"]) for point in told["published"]["counted"]]
        self.assertEqual(len(errors), 26)
        self.assertAlmostEqual(sum(errors) / 26, told["published_error_points"])
        self.assertLess(told["published_error_points"], 3)
        self.assertTrue(all(point["source"] for point in told["published"]["counted"]))
        self.assertTrue(all(point["why"] for point in told["published"]["apart"]))
        self.assertIn("AlexNet", ended.out)

    def test_check_predicts_the_time_of_a_job(self):
        words = ("check", "--config", "small.yaml", "--world-size", "8", "--quick", "--json")
        told = self.good(*words, "--from", "step.json", "--cluster", "cluster.yaml").json()["time"]
        same = self.simulated("--from", "step.json", "--ranks", "8", "--cluster", "cluster.yaml")[1]["points"][0]["canonical"]
        self.assertAlmostEqual(told["step_ms"], same["step_ms"])
        self.assertAlmostEqual(told["hours"] * 3600, 3 * 2 * same["step_ms"] / 1000)  # 40 samples, 32 a step
        self.assertAlmostEqual(told["node_hours"], 2 * told["hours"])
        self.assertTrue(told["measured"])
        ended = self.good(*words)
        assumed = ended.json()["time"]
        self.assertFalse(assumed["measured"])
        self.assertIn("nothing was measured", assumed["assumed"][0])
        self.assertIn("assumed: nothing was measured", ended.out)
        self.assertGreater(assumed["hours"], 0)
        self.fails(self.call(*words, "--from", "step.json", "model.name=resnet18", "data.image.size=[64,64]"), 65, "measured another network")

    def test_what_cannot_be_simulated_is_refused_in_a_sentence(self):
        self.fails(self.call("simulate", "--ranks", "2"), 64, "--from")
        self.fails(self.call("simulate", "--from", "step.json", "--ranks", "65537"), 64, "65536")
        self.fails(self.call("simulate", "--validate", "--cluster", "cluster.yaml"), 64, "no effect without --from")
        self.fails(self.call("simulate", "--from", "gone"), 66, "gone does not exist")
        self.fails(self.call("simulate", "--from", "cluster.yaml"), 65, "neither a run's folder nor")
        self.fails(self.call("simulate", "--from", "step.json", "--cluster", "gone.yaml"), 66, "gone.yaml")
        self.good("--config", "small.yaml", "--run-dir", "short", "epochs=1")
        self.fails(self.call("simulate", "--from", "short"), 65, "1 finished epoch", "two epochs or more")
        (self.folder / "wrong.yaml").write_text("ranks_per_nod: 4\ninside: {latency_us: -1, gb_per_s: 20}\nbetween: fast\n")
        ended = self.call("simulate", "--from", "step.json", "--cluster", "wrong.yaml")
        self.assertEqual(ended.code, 78, ended)
        for words in ("wrong.yaml:1:1: unknown key 'ranks_per_nod'", "did you mean 'ranks_per_node'?", "lacks 'ranks_per_node'",
                      "wrong.yaml:2:22: a number from 0", "wrong.yaml:3:10: between is a group of keys"):
            self.assertIn(words, ended.err)

    def test_the_shipped_cluster_is_read(self):
        told = self.simulated("--from", "step.json", "--cluster", program.ROOT / "configs/clusters/example.yaml")[1]
        self.assertEqual((told["cluster"]["ranks_per_node"], told["cluster"]["between_gb_per_s"]), (4, 22))
        self.assertEqual(len(told["points"]), 7)


if __name__ == "__main__":
    program.main(at_once=2)
