"""Logs that the real lm-evaluation-harness and the real Inspect have written, of models that answer at once."""

import json

import pytest

from mallow import cli, read
from mallow.evaluate import compare_items
from real_packages import run_program

HARNESS = """
import json
import lm_eval
from lm_eval.api.model import LM
from lm_eval.loggers import EvaluationTracker

class Model(LM):
    def __init__(self, word):
        super().__init__()
        self.word = word
    def generate_until(self, requests, disable_tqdm=False):
        return [f"{self.word} {request.args[0]}" for request in requests]
    def loglikelihood(self, requests, disable_tqdm=False):
        return [(-1.5, False) for _ in requests]
    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        return [-1.5 for _ in requests]

with open(folder + "/sums.jsonl", "w") as file:
    for i in range(30):
        file.write(json.dumps({"question": f"What is {i} plus one?", "answer": f"It is {i + 1}.", "choices": ["a", "b"]}) + "\\n")
both = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": folder + "/sums.jsonl"}}, "test_split": "test",
        "doc_to_text": "{{question}}"}
generate = both | {"task": "sums", "output_type": "generate_until", "doc_to_target": "{{answer}}", "repeats": 2,
    "generation_kwargs": {"until": ["\\n"], "do_sample": True}, "metric_list": [{"metric": "exact_match"}],
    "filter_list": [{"name": "first", "filter": [{"function": "take_first"}]},
                    {"name": "lower", "filter": [{"function": "lowercase"}, {"function": "take_first"}]}]}
choose = both | {"task": "choices", "output_type": "multiple_choice", "doc_to_target": 0, "doc_to_choice": "choices"}
for word in ("Before", "After"):
    tasks = [generate, choose] if word == "Before" else [generate]
    result = lm_eval.simple_evaluate(model=Model(word), tasks=tasks, log_samples=True, bootstrap_iters=0)
    samples = result.pop("samples")
    tracker = EvaluationTracker(output_path=f"{folder}/{word}")
    tracker.save_results_aggregated(results=result, samples=samples)
    for name, rows in samples.items():
        tracker.save_results_samples(task_name=name, samples=rows)
print(json.dumps(lm_eval.__version__))
"""


@pytest.mark.filterwarnings("ignore::mallow.errors.EstimateWarning")
def test_lm_evaluation_harness(tmp_path, check_compare):
    run_program("lm_eval", HARNESS, tmp_path)
    [before], [after] = (list(tmp_path.glob(f"{word}/**/samples_sums_*.jsonl")) for word in ("Before", "After"))
    assert {json.loads(line)["filter"] for line in before.read_text().splitlines()} == {"first", "lower"}
    samples = read(before)
    assert samples.texts[:3] == ("Before What is 0 plus one?",) * 2 + (
        "Before What is 1 plus one?",
    )  # two answers each
    assert (len(samples), samples.ids[:3]) == (60, ("0", "0", "1"))
    assert samples.prompts[2] == "What is 1 plus one?"
    assert read(f"{before}:target").texts[:2] == ("It is 1.", "It is 2.")
    assert read(f"{before}:doc.question").texts[0] == "What is 0 plus one?"
    check_compare(30, f"{before}:target", before, after)  # questions
    [choices] = tmp_path.glob("Before/**/samples_choices_*.jsonl")
    with pytest.raises(ValueError, match=r"the answers are likelihoods, not texts"):
        read(choices)
    result = compare_items({"log": choices, "all wrong": dict.fromkeys(range(30), 0)}, metric="acc")  # the first answer
    assert (result.items, result.scores["log"].value) == (30, 1.0)
    with pytest.raises(ValueError, match="log: has several scores: 'exact_match,first', 'exact_match,lower'"):
        compare_items({"log": before, "other": after})


INSPECT = """
import json
import inspect_ai
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import exact
from inspect_ai.solver import generate

def answer(word, i):
    output = ModelOutput.from_content("mockllm/model", f"{word} answer {i}.")
    output.usage = ModelUsage()  # or it asks the network for a tokenizer, to count
    return output

for word in ("before", "after"):
    model = get_model("mockllm/model", custom_outputs=[answer(word, i) for i in range(60)], memoize=False)
    dataset = [Sample(input=f"Question {i}?", target=f"Target {i}.", id=i) for i in range(30)]
    [log] = eval(Task(dataset=dataset, solver=generate(), scorer=exact()), model=model, epochs=2, display="none",
                 log_dir=f"{folder}/{word}", max_samples=1, max_connections=1)
    assert log.status == "success", log.error
    inspect_ai.log.write_eval_log(log, f"{folder}/{word}.json")
print(json.dumps(inspect_ai.__version__))
"""


@pytest.mark.filterwarnings("ignore::mallow.errors.EstimateWarning")
def test_inspect(tmp_path, check_compare):
    run_program("inspect_ai", INSPECT, tmp_path)
    logs = [next((tmp_path / word).glob("*.eval")) for word in ("before", "after")]
    samples = read(logs[0])
    assert len(samples) == 60
    assert samples.ids[:4] == ("0", "0", "1", "1")  # epochs are answers to one question
    assert samples.prompts[:3] == ("Question 0?", "Question 0?", "Question 1?")
    assert samples.texts[0] == "before answer 0."
    assert read(f"{logs[0]}:target").texts[2] == "Target 1."
    other = read(tmp_path / "before.json")
    assert sorted(zip(other.ids, other.texts, strict=True)) == sorted(zip(samples.ids, samples.texts, strict=True))
    items = compare_items({"before": logs[0], "json": tmp_path / "before.json"})
    assert (items.items, items.scores["before"].value, items.differences[0].p_value) == (30, 0.0, 1.0)
    check_compare(60, f"{logs[0]}:target", *logs)  # answers: the targets stand there once for each epoch too


@pytest.fixture
def check_compare(monkeypatch, capsys):
    """Two runs are compared with one command, question by question."""

    def check(count, reference, before, after):
        words = ["compare", reference, f"before={before}", f"after={after}", "--repeats", "1"]
        monkeypatch.setattr("sys.argv", ["mallow", *words, "--format", "json"])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        assert left.value.code == 0, err
        assert {name: score["n"][1] for name, score in json.loads(out)["scores"].items()} == {
            "before": count,
            "after": count,
        }

    return check
