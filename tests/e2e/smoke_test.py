"""The main job in a few seconds: check, two ranks that stop and one that continues, the same bits, eval and verify."""

import program

COUNT, EPOCHS = 24, 2
CONFIG = {
    "seed": 2,
    "epochs": EPOCHS,
    "model": {"name": "small_cnn"},
    "batch": {"per_rank": 2},
    "distributed": {"logical_ranks": 2},
    "data": {"format": "image_folder", "root": "chips", "image": {"size": [32, 32]}, "split": {"valid": 0.25, "stratify": True},
             "augment": {"hflip": 0.5}},
}


class Smoke(program.ProgramTest):
    def test_a_run_from_its_data_to_its_weights(self):
        self.sample("chips", COUNT)
        self.write_config("smoke", CONFIG)
        self.good("check", "--config", "smoke.yaml")
        self.good("--config", "smoke.yaml", "--run-dir", "straight")
        self.good("--config", "smoke.yaml", "--run-dir", "stopped", "--limit-steps", 7, ranks=2)
        run, straight = self.run_at("stopped"), self.run_at("straight")
        self.assertFalse(run.done())
        self.good("--config", "smoke.yaml", "--run-dir", "stopped")
        self.assertTrue(run.done())
        self.assertEqual(run.hash(), straight.hash())
        self.assertEqual(run.result_rows(), straight.result_rows())
        best = run.folder / "best.safetensors"
        epoch = int(program.checkpoint_header(best)["__metadata__"]["epoch"])
        facts = self.good("eval", "--config", "smoke.yaml", "--checkpoint", best, "--json").json()
        self.assertEqual(facts["loss"], float(run.rows()[epoch - 1]["valid_loss"]))
        self.good("verify", "stopped")


if __name__ == "__main__":
    program.main()
