"""What the tests of checkpoints share."""
from harness import MODEL_FILES, OK, CliTest, ids_words, run_all
from models import read_safetensors, write_model


class Checkpoint(CliTest):
    def write(self, name, config, tensors):
        return write_model(self.folder / name, config, tensors)

    def check_models_refused(self, *cases):
        """[(model folder, ranks, texts of the message), ...]"""
        self.check_refused(MODEL_FILES, [
            (["generate", "--model", model, "--max-tokens", 1, *ids_words([1])], ranks, texts)
            for model, ranks, texts in cases])

    def dumps(self, models, ids, ranks=None):
        """Several models, or with a tuple of `ranks` one model several times, side by side."""
        jobs, outs = [], []
        for i, (model, p) in enumerate((m, p) for m in models
                                       for p in (ranks if isinstance(ranks, tuple) else (ranks,))):
            outs.append(self.folder / f"dump_{i}.safetensors")
            jobs.append((["dump", "--model", model, *ids_words(ids), "--out", outs[-1]], p))
        for result in run_all(jobs):
            self.assertEqual(result.code, OK, result)
        return [{name: (t.shape, t.values()) for name, t in read_safetensors(out).items()}
                for out in outs]
