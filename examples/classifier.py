"""A class: loaded once in each worker, with a parameter, and an answer that says how many tokens it took.

penstock serve examples/classifier.py:Classifier --workers 2 --warmup "a first text"
curl localhost:8000/v1/inference --json '{"input": "a lovely day", "parameters": {"top_k": 2}}'
"""

from math import exp

from penstock import Output

WORDS = {"lovely": 2.0, "good": 1.5, "fine": 0.5, "dull": -1.0, "awful": -2.5}


class Classifier:
    """Tells good news from bad, by a handful of words."""

    def setup(self) -> None:
        """Called once, before the first batch: the place to load weights. No request waits for it."""
        self.weights = dict(WORDS)

    def __call__(self, texts: list[str], *, top_k: int = 1) -> list[Output]:
        """One output for each text, in the same order. `top_k` comes from a request's `parameters`."""
        return [self._classify(text.lower().split(), top_k) for text in texts]

    def _classify(self, words: list[str], top_k: int) -> Output:
        good = 1.0 / (1.0 + exp(-sum(self.weights.get(word, 0.0) for word in words)))
        scores = [("good", good), ("bad", 1.0 - good)]
        best = sorted(scores, key=lambda score: -score[1])[:top_k]
        labels = [{"label": label, "score": round(score, 3)} for label, score in best]
        return Output(labels, tokens_used=len(words))

    def close(self) -> None:
        """Called once, when the worker ends."""
        self.weights.clear()
